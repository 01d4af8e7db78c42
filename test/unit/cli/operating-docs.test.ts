import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../../../src/cli/exit-codes.ts';
import { ERROR_CODES } from '../../../src/lib/errors.ts';
import { runWith } from './support.ts';

const page = readFileSync(new URL('../../../docs/operating.md', import.meta.url), 'utf8');

describe('docs/operating.md', () => {
  it('has the exit codes as they are', () => {
    for (const { code, meaning } of Object.values(EXIT_CODES)) {
      expect(page).toContain(`\n| ${code} | ${meaning} |\n`);
    }
  });

  it('names only error codes that exist', () => {
    const named = page.match(/`[A-Z]{4,}(?:_[A-Z]+)*`/g) ?? [];
    const known = new Set([
      ...Object.keys(ERROR_CODES),
      'SIGINT',
      'NO_COLOR',
      'ASTERLOG_ROOT',
      'ASTERLOG_S3',
    ]);
    expect(named.map((text) => text.slice(1, -1)).filter((text) => !known.has(text))).toEqual([]);
  });

  it('has every command and only options that exist', async () => {
    const { stdout } = await runWith(['--help']);
    const commands = [...stdout.matchAll(/^ {2}([a-z-]+) .*/gm)].map((match) => match[1]!);
    const lines = [
      ...commands.map((name) => [name]),
      ...['init', 'check', 'clean'].map((name) => ['buckets', name]),
    ];
    const helps = await Promise.all(lines.map((line) => runWith([...line, '--help'])));
    const help = helps.map((run) => run.stdout).join('\n');
    for (const name of commands) if (name !== 'help') expect(page).toContain(`\n| \`${name}`);
    for (const option of page.match(/--[a-z][a-z-]+/g) ?? []) expect(help).toContain(option);
  });
});

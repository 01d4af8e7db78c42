/** `npm run linearize` as its users see it. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Prng } from '../../src/lib/prng.ts';
import { isStart } from './events.ts';
import { writeHistory } from './history-file.ts';
import { parseOptions } from './options.ts';
import { randomHistory } from './random-histories.ts';

const MINUTES_MAX = 5 * 60_000;
const directory = mkdtempSync(join(tmpdir(), 'asterlog-linearize-test-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function linearize(...args: readonly string[]): Promise<Ran> {
  const script = join(import.meta.dirname, 'run.ts');
  return new Promise((resolve) => {
    const options = { maxBuffer: 16 * 1024 * 1024 };
    execFile(
      process.execPath,
      ['--import', 'tsx', script, ...args],
      options,
      (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
      },
    );
  });
}

describe('the options', () => {
  it.each([
    [['--seeds', 'many'], '--seeds is a whole number from 0 to 10000000, not "many"'],
    [['--clients', '0'], '--clients is a whole number from 1 to 32, not "0"'],
    [['--seconds', '1.5'], '--seconds is a whole number from 0 to 86400, not "1.5"'],
    [['--from', '-1'], '--from'],
    [['--history', ''], '--history names a file'],
    [['--break', 'leg'], '--break is one of "a tail is remembered", '],
    [['--seeds', '0', '--seconds', '0'], 'nothing is judged'],
    [['--seeds', '0', '--break', 'positions are off by one'], 'nothing is judged'],
    [['--verbose'], "Unknown option '--verbose'"],
    [['seeds'], "Unexpected argument 'seeds'"],
  ])('%j are refused in one line', (args, message) => {
    expect(() => parseOptions(args)).toThrow(message);
    expect(() => parseOptions(args)).toThrow(/^[^\n]*$/);
  });

  it('begin at the seed of a planted break, unless another is named', () => {
    const broken = ['--break', 'every 412 counts as an own copy'];
    expect(parseOptions(broken).from).toBe(47);
    expect(parseOptions([...broken, '--from', '3']).from).toBe(3);
    expect(parseOptions([]).from).toBe(0);
  });

  it('end the command with 2 when they are wrong', async () => {
    const { code, stdout, stderr } = await linearize('--operations', 'all');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toBe('--operations is a whole number from 1 to 10000, not "all"\n');
  });

  it('end the command with 2 when a file is no history', async () => {
    const file = join(directory, 'no-history.jsonl');
    writeFileSync(file, '{"event":1}\n');
    const { code, stderr } = await linearize('--check', file);
    expect({ code, stderr }).toEqual({ code: 2, stderr: 'line 1 is no event of a history\n' });
  });
});

describe('a file', () => {
  it('without an event ends the command with 2', async () => {
    const file = join(directory, 'empty.jsonl');
    writeFileSync(file, '');
    const { code, stderr } = await linearize('--check', file);
    expect({ code, stderr }).toEqual({ code: 2, stderr: `${file} holds no event\n` });
  });

  it('that cannot be written ends the command with 2 before anything is played', async () => {
    const file = join(directory, 'none/history.jsonl');
    const { code, stdout, stderr } = await linearize('--seeds', '1', '--history', file);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/history\.jsonl cannot be written: ENOENT[^\n]*\n$/);
  });
});

describe('a given history', () => {
  it('is judged: the counter-example is printed, and the command ends with 1', async () => {
    const file = join(directory, 'wrong.jsonl');
    const right = randomHistory(new Prng(3), { clients: 3, operations: 30, unknown: 0 });
    const wrong = right.map((event) =>
      !isStart(event) && event.result.kind === 'readSuccess'
        ? { ...event, result: { ...event.result, streamHash: 1n } }
        : event,
    );
    writeHistory(file, wrong);
    const json = await linearize('--check', file, '--json');
    expect(json.code).toBe(1);
    const { violations, ...report } = JSON.parse(json.stdout) as {
      readonly violations: readonly unknown[];
    };
    expect(report).toMatchObject({ histories: 1, operations: 30, unknown: 0, indeterminate: 0 });
    expect(violations).toHaveLength(1);
    expect(violations[0]).toMatchObject({
      replay: `npm run linearize -- --check ${file}`,
      counterExample: { answer: expect.stringContaining('hash 1') as string },
    });
    const text = await linearize('--check', file);
    expect(text.code).toBe(1);
    expect(text.stdout).toContain('not linearizable');
    expect(text.stdout).toContain('hash 1\n');
  });
});

describe('live engines', () => {
  it(
    'simulated and as processes under SIGKILL answer as one stream would',
    async () => {
      const file = join(directory, 'live.jsonl');
      const args = ['--seeds', '1', '--seconds', '2', '--history', file, '--json'];
      const { code, stdout, stderr } = await linearize(...args);
      expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: '' });
      const report = JSON.parse(stdout) as { readonly histories: number };
      expect(report).toMatchObject({
        violations: [],
        unknown: 0,
        real: { seconds: 2, kills: expect.any(Number) as number },
      });
      const written = readdirSync(directory).filter((name) => name.startsWith('live.'));
      expect(written).toHaveLength(report.histories);
      expect(written).toContain('live.processes-mixed.jsonl');
      const events = readFileSync(join(directory, 'live.processes-mixed.jsonl'), 'utf8');
      expect(events).toContain('{"event":{"Finish":{"ReadSuccess":{"tail":');
      const again = await linearize('--check', join(directory, 'live.processes-mixed.jsonl'));
      expect(again.code, again.stdout).toBe(0);
    },
    MINUTES_MAX,
  );
});

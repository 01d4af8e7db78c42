import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = join(root, 'test/sim');
const page = readFileSync(join(folder, 'README.md'), 'utf8');

test('every example is a piece of a file that is run', () => {
  const snippets = [...page.matchAll(/<!-- snippet: (\S+) -->\n+```ts\n([^]*?)```/g)];
  expect(page.match(/```ts\n/g)).toHaveLength(snippets.length);
  expect(snippets.length).toBeGreaterThanOrEqual(2);
  for (const [, file, code] of snippets) {
    expect(readFileSync(join(folder, file!), 'utf8')).toContain(code);
  }
});

test('every file that it names is there', () => {
  const named = [...page.matchAll(/`([\w./-]+\.ts)`/g)].map(([, path]) => path!);
  expect(named.length).toBeGreaterThan(10);
  const missing = named.filter(
    (path) => !existsSync(join(path.includes('/') ? root : folder, path)),
  );
  expect(missing).toEqual([]);
});

test('every command that it shows is one of the package', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  const commands = [...page.matchAll(/`npm run ([\w:]+)/g)].map(([, name]) => name!);
  expect(commands.filter((name) => !(name in scripts))).toEqual([]);
});

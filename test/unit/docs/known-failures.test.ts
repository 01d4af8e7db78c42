import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { testTitles } from '../../support/test-titles.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const page = readFileSync(join(root, 'docs/known-failures.md'), 'utf8');

/** Parts that do not exist yet (the collector: that of generations); an entry may wait for no other. */
const PARTS = ['generations', 'collector'];

interface Entry {
  readonly number: number;
  readonly text: readonly string[];
  readonly tests: readonly { readonly file: string; readonly title: string }[];
  readonly open: readonly string[];
  /** What is neither. */
  readonly rest: readonly string[];
}

function entryOf(line: string): Entry {
  const [number = '', ...cells] = line.slice(2, -2).split(' | ');
  const shown = (cells.pop() ?? '').split('<br>');
  const tests = [];
  const [open, rest]: [string[], string[]] = [[], []];
  for (const one of shown) {
    const [, file, title] = /^`([\w./-]+\.ts)`: (.+)$/.exec(one) ?? [];
    if (file !== undefined && title !== undefined) tests.push({ file, title });
    else if (one.startsWith('open: ')) open.push(one.slice('open: '.length));
    else rest.push(one);
  }
  return { number: Number(number), text: cells, tests, open, rest };
}

const entries = page
  .split('\n')
  .filter((line) => /^\| \d+ \|/.test(line))
  .map(entryOf);

test('the page has the thirty-nine failures, each told, none twice', () => {
  expect(entries.map(({ number }) => number)).toEqual(
    Array.from({ length: 39 }, (_, at) => at + 1),
  );
  for (const { text } of entries) {
    expect(text).toHaveLength(3);
    expect(text.every((cell) => cell.trim().length > 4)).toBe(true);
  }
});

describe.each(entries)('failure $number', ({ tests, open, rest }) => {
  test('is shown by tests that exist, or waits for a part that does not', () => {
    expect(rest).toEqual([]);
    expect(tests.length + open.length).toBeGreaterThan(0);
    expect(open.filter((part) => !PARTS.includes(part))).toEqual([]);
    for (const { file, title } of tests) {
      const path = join(root, 'test', file);
      expect(existsSync(path), file).toBe(true);
      expect(testTitles(file, readFileSync(path, 'utf8'))).toContain(title);
    }
  });
});

test.each([['generations', 'machines/generation.machine.ts']])(
  'the %s that entries wait for does not exist',
  (part, path) => {
    expect(PARTS).toContain(part);
    expect(existsSync(join(root, path)), 'play what waits for it').toBe(false);
  },
);

test('titles are found in every form in which tests are written', () => {
  const code = [
    "it('plain', () => {});",
    "test.each([1])('with %i', () => {});",
    'it.skipIf(x).each(y)(`of ${name}`, () => {});',
    "describe('no test', () => { it('within', f, 60_000); });",
    "other('no test either');",
    "it.skip('never', f); test.todo('later'); it.skip.each([1])('never %i', f);",
    "test.fails('must fail', f); describe.skip('none', () => { it('in none', f); });",
  ].join('\n');
  expect(testTitles('x.ts', code)).toEqual(['plain', 'with %i', 'of ${name}', 'within']);
});

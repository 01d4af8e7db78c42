import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const page = readFileSync(join(root, 'docs/protocol.md'), 'utf8');
const numbers = [...page.matchAll(/^- \*\*([A-Z]\d?)\*\* /gm)].map(([, number]) => number!);

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => join(folder, path))
    .filter((path) => !path.includes('unit/docs/'));
}

const tests = sources('test').map((path) => readFileSync(join(root, path), 'utf8'));
const product = ['src', 'actors', 'machines']
  .flatMap(sources)
  .map((path) => readFileSync(join(root, path), 'utf8'));

/** A number of one letter is too short to be searched for as a word: it is cited as "(N)" or "N:" or "N " in a title. */
function cites(text: string, number: string): boolean {
  return number.length > 1
    ? new RegExp(`\\b${number}\\b`).test(text)
    : new RegExp(`[('"\`/ ]${number}[):,'" ]`).test(text);
}

test('the page numbers its invariants', () => {
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(numbers.length).toBeGreaterThan(25);
});

test.each(numbers)('%s is cited by a test', (number) => {
  expect(tests.some((text) => cites(text, number))).toBe(true);
});

test.each(numbers)('%s is cited by the product', (number) => {
  expect(product.some((text) => cites(text, number))).toBe(true);
});

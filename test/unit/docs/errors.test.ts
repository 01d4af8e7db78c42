import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ERROR_CODES, EngineError } from '../../../src/lib/errors.ts';

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');

test('docs/errors.md lists every code with its kind, and no other', () => {
  const listed = [...page.matchAll(/^\| `([A-Z_]+)` \| ([a-z]+) \|/gm)].map(([, code, kind]) => [
    code,
    kind,
  ]);
  expect(Object.fromEntries(listed)).toEqual(ERROR_CODES);
  expect(listed).toHaveLength(Object.keys(ERROR_CODES).length);
});

test('a message is one line, names its details, and shortens long values', () => {
  const error = new EngineError('INVALID_NAME', 'bad name', {
    details: { name: 'a\nb', long: 'x'.repeat(500), absent: undefined },
  });
  expect(error.message).toMatch(/^bad name name="a\\nb" long=x{200}/);
  expect(error.message).not.toContain('\n');
  expect(error.message).not.toContain('absent');
  expect(error.message.length).toBeLessThan(300);
});

test('errors of two copies of the package recognise each other by their brand', () => {
  const other = Object.defineProperty(new Error('x'), Symbol.for('asterlog.EngineError'), {
    value: true,
  });
  expect(EngineError.is(other)).toBe(true);
  expect(EngineError.is(new Error('x'))).toBe(false);
});

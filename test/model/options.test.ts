import { expect, test } from 'vitest';
import { runOptions } from './options.ts';

test('one part of a name, and whether slow cases are explored', () => {
  expect(runOptions([])).toEqual({ wanted: '', slow: false });
  expect(runOptions(['--slow', 'four slots'])).toEqual({ wanted: 'four slots', slow: true });
});

test.each([[['--help']], [['--bogus']], [['a', 'b']]])('%j is refused', (args) => {
  expect(() => runOptions(args)).toThrow();
});

import { expect, test } from 'vitest';
import { runOptions } from './options.ts';

const TITLES = ['parsePoison', 'readVarint'];

test('options are numbers within their bounds and names of decoders', () => {
  expect(runOptions([], TITLES)).toEqual({
    minutes: 1,
    seed: undefined,
    only: '',
    case: undefined,
    json: false,
  });
  expect(runOptions(['--minutes', '0.3', '--seed', '7', '--only', 'Poison'], TITLES)).toMatchObject(
    { minutes: 0.3, seed: 7, only: 'Poison' },
  );
});

test.each([
  [['--seed', 'abc'], 'whole number'],
  [['--seed', ''], 'whole number'],
  [['--seed', '1.5'], 'whole number'],
  [['--case', '-1'], '--case'],
  [['--minutes', 'x'], '--minutes takes a number'],
  [['--minutes', '0'], '--minutes takes a number'],
  [['--minutes', '-1'], '--minutes'],
  [['--only', 'nothing'], 'no decoder has "nothing" in its title'],
  [['--bogus'], '--bogus'],
  [['more'], 'more'],
] as const)('%j is refused', (args, reason) => {
  expect(() => runOptions(args, TITLES)).toThrow(reason);
});

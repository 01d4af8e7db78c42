import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import {
  checkConditions,
  checkFencingToken,
  judgeConditions,
  type AppendConditions,
} from '../../../src/protocol/conditions.ts';

const facts = { mode: 'any', fencingToken: 'A', nextSeqNum: 7 } as const;
const token = (current: string, given: string | undefined): object => ({
  kind: 'fencingToken',
  current,
  given,
});

describe('K conditions of an append', () => {
  it.each<[string, AppendConditions, Partial<typeof facts> | object, object | undefined]>([
    ['none', {}, {}, undefined],
    ['the token', { fencingToken: 'A' }, {}, undefined],
    ['another token', { fencingToken: 'B' }, {}, token('A', 'B')],
    ['a token in other case', { fencingToken: 'a' }, {}, token('A', 'a')],
    ['the empty token where one is set', { fencingToken: '' }, {}, token('A', '')],
    ['the empty token where none is set', { fencingToken: '' }, { fencingToken: '' }, undefined],
    ['a token where none is set', { fencingToken: 'A' }, { fencingToken: '' }, token('', 'A')],
    ['no token, fenced', {}, { mode: 'fenced' }, token('A', undefined)],
    ['no token, fenced, none set', {}, { mode: 'fenced', fencingToken: '' }, token('', undefined)],
    ['the token, fenced', { fencingToken: 'A' }, { mode: 'fenced' }, undefined],
    ['the next number', { matchSeqNum: 7 }, {}, undefined],
    ['a number below', { matchSeqNum: 6 }, {}, { kind: 'seqNum', expected: 7, given: 6 }],
    ['a number above', { matchSeqNum: 8 }, {}, { kind: 'seqNum', expected: 7, given: 8 }],
    ['both wrong: the token first', { matchSeqNum: 8, fencingToken: '' }, {}, token('A', '')],
  ])('%s', (_, conditions, change, mismatch) => {
    expect(judgeConditions(conditions, { ...facts, ...change })).toEqual(mismatch);
  });
});

describe('bad conditions are refused', () => {
  const codeOf = (run: () => void): string => {
    try {
      run();
    } catch (error) {
      if (EngineError.is(error)) return error.code;
    }
    throw new Error('no engine error');
  };

  it.each([['x'.repeat(37)], ['ä'.repeat(19)], ['\ud800'], [7], [null]])('token %j', (value) => {
    expect(codeOf(() => checkFencingToken(value))).toBe('INVALID_OPTION');
  });

  it.each([[''], ['x'.repeat(36)], ['ä'.repeat(18)]])('not the token %j', (value) => {
    checkFencingToken(value);
  });

  it.each([[-1], [0.5], [Number.NaN], [2 ** 53], ['1']])('number %j', (value) => {
    const matchSeqNum = value as number;
    expect(codeOf(() => checkConditions({ matchSeqNum }))).toBe('INVALID_POSITION');
  });
});

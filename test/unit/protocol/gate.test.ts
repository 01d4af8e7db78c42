import { describe, expect, test } from 'vitest';
import {
  isCleanRelease,
  judgeGate,
  judgePredecessor,
  sameTenure,
} from '../../../src/protocol/gate.ts';
import type { RefRow, Tenure } from '../../../src/protocol/records.ts';

const id = (digit: string): string => digit.repeat(32);
const own: Tenure = { star: 'main', incarnation: id('a'), class: 'express', epoch: 7 };
const other: Tenure = { ...own, incarnation: id('b'), epoch: 3 };

function row(end: number, mark?: RefRow['mark']): RefRow {
  return {
    start: 0,
    end,
    star: 'main',
    epoch: 3,
    set: id('c'),
    spans: [],
    state: { fencingToken: '', trimPoint: 0, lastTimestamp: 0 },
    // T4: the builder lags a change of writer; the gate never looks at it.
    builder: { star: 'elsewhere', incarnation: id('d') },
    attempt: '0'.repeat(16),
    ...(mark === undefined ? {} : { mark }),
  };
}

describe('the open gate', () => {
  test('T4 the writer record decides, in each of its states', () => {
    const attempt = '';
    expect(judgeGate(undefined, own)).toEqual({ kind: 'fresh' });
    expect(judgeGate({ kind: 'deleted', attempt }, own)).toEqual({ kind: 'deleted' });
    expect(judgeGate({ kind: 'tenure', tenure: own, attempt }, own)).toEqual({ kind: 'join' });
    expect(judgeGate({ kind: 'tenure', tenure: other, attempt }, own)).toEqual({
      kind: 'examine',
      tenure: other,
    });
    expect(judgeGate({ kind: 'released', tenure: other, tail: 5, attempt }, own)).toEqual({
      kind: 'released',
      tenure: other,
      tail: 5,
    });
  });

  test.each(['star', 'incarnation', 'class', 'epoch'] as const)(
    'T1 a tenure that differs in %s is not the own one',
    (field) => {
      const changed = { star: 'x', incarnation: id('e'), class: 'standard', epoch: 8 } as const;
      expect(sameTenure(own, { ...own, [field]: changed[field] })).toBe(false);
    },
  );

  test.each([
    // head, registered, verdict
    [3, true, 'held'],
    [3, false, 'settle'],
    [4, true, 'settle'],
    [4, false, 'settle'],
    [undefined, true, 'settle'],
  ] as const)(
    'T3 the registry only makes wait: head %s, registered %s → %s',
    (head, registered, verdict) => {
      const facts = { tenure: other, head, registered, ownIncarnation: own.incarnation };
      expect(judgePredecessor(facts)).toBe(verdict);
    },
  );

  test('an own earlier epoch is settled, never waited for', () => {
    const tenure = { ...own, epoch: 6 };
    const facts = { tenure, head: 6, registered: true, ownIncarnation: own.incarnation };
    expect(judgePredecessor(facts)).toBe('settle');
  });
});

describe('N a release is clean only if record and mark agree', () => {
  const released = { tenure: other, tail: 5 };

  test('agreement', () => {
    expect(isCleanRelease(released, row(5, { tenure: other, tail: 5 }))).toBe(true);
    expect(isCleanRelease({ tenure: other, tail: 0 }, undefined)).toBe(true);
  });

  test.each([
    ['no row', undefined],
    ['no mark', row(5)],
    ['rows end elsewhere', row(6, { tenure: other, tail: 6 })],
    ['mark of another tail', row(5, { tenure: other, tail: 4 })],
    ['mark of another tenure', row(5, { tenure: own, tail: 5 })],
  ])('disagreement: %s', (_, last) => {
    expect(isCleanRelease(released, last)).toBe(false);
  });
});

import { describe, expect, it } from 'vitest';
import type { EpochRecord } from '../../../src/protocol/records.ts';
import {
  isLost,
  isSwept,
  settledRecord,
  settlementStep,
  sweptRecord,
} from '../../../src/protocol/settlement.ts';

const OPEN: EpochRecord = {
  star: 'main',
  epoch: 3,
  class: 'express',
  set: '5e'.repeat(16),
  buckets: 3,
  copyQuorum: 2,
  window: 4,
  incarnation: '1c'.repeat(16),
  nonce: '0c'.repeat(16),
  state: 'open',
  checkpoint: 10,
  rewritten: 5,
  trimmed: 4,
  swept: 3,
  tailSwept: false,
  attempt: '0123456789abcdef',
};
const FENCED: EpochRecord = { ...OPEN, state: 'fenced', cut: 20 };
const SETTLED: EpochRecord = { ...FENCED, state: 'settled', checkpoint: 20 };

describe('what the record of an epoch asks for', () => {
  it('follows its state', () => {
    expect(settlementStep(OPEN)).toEqual({ kind: 'unfenced' });
    expect(settlementStep(FENCED)).toEqual({ kind: 'cover', from: 10, to: 20 });
    expect(settlementStep(SETTLED)).toEqual({ kind: 'sweep', from: 20, to: 25 });
    expect(settlementStep({ ...SETTLED, tailSwept: true })).toEqual({ kind: 'done' });
    expect(settlementStep({ ...SETTLED, state: 'retired' })).toMatchObject({ kind: 'sweep' });
    expect(settlementStep({ ...SETTLED, state: 'retired', tailSwept: true })).toEqual({
      kind: 'done',
    });
  });

  it('sweeps the cut itself and one whole window beyond it', () => {
    const step = settlementStep({ ...SETTLED, cut: 0, checkpoint: 0, window: 1 });
    expect(step).toEqual({ kind: 'sweep', from: 0, to: 2 });
  });

  it('S3: is never the settlement of an epoch without a cut', () => {
    expect(() => settledRecord(OPEN)).toThrow(/fenced/);
    expect(() => settlementStep({ ...OPEN, state: 'fenced' })).toThrow(/cut/);
    expect(() => settledRecord({ ...FENCED, checkpoint: 21 })).toThrow(/passes the cut/);
  });
});

describe('what the record becomes', () => {
  it('S2: settled once, by whoever comes first', () => {
    expect(settledRecord(FENCED)).toEqual(SETTLED);
    expect(settledRecord(SETTLED)).toBeUndefined();
    expect(settledRecord({ ...SETTLED, state: 'retired' })).toBeUndefined();
  });

  it('leaves the cursors of the collector alone', () => {
    expect(settledRecord(FENCED)).toMatchObject({ rewritten: 5, trimmed: 4, swept: 3 });
  });

  it('swept after it is settled, and once', () => {
    expect(sweptRecord(SETTLED)).toEqual({ ...SETTLED, tailSwept: true });
    expect(sweptRecord({ ...SETTLED, tailSwept: true })).toBeUndefined();
    expect(() => sweptRecord(FENCED)).toThrow(/follows/);
  });
});

describe('a slot that no bucket holds', () => {
  it('is lost while the record wants it covered, and in good order gone otherwise', () => {
    expect(isLost(10, FENCED)).toBe(true);
    expect(isLost(19, FENCED)).toBe(true);
    expect(isLost(9, FENCED)).toBe(false);
    expect(isLost(12, { ...FENCED, checkpoint: 13 })).toBe(false);
    expect(isLost(12, SETTLED)).toBe(false);
  });
});

describe('a sweep', () => {
  it('deletes sound flights of the epoch and nothing else', () => {
    const preamble = {} as never;
    expect(isSwept({ kind: 'flight', preamble })).toBe(true);
    expect(isSwept({ kind: 'poison', preamble })).toBe(false);
    expect(isSwept({ kind: 'foreign', preamble })).toBe(false);
    expect(isSwept({ kind: 'corrupt', reason: 'not a slot object' })).toBe(false);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  encodePoison,
  NO_EPOCH,
  parsePoison,
  type PoisonFields,
} from '../../../src/format/poison.ts';
import {
  anyCount,
  anyId,
  anyName,
  golden,
  GOLDEN_POISON,
  patched,
  resealHeader,
} from './samples.ts';

const poison = golden('poison-v1');
const HEADER = 160;

const anyFencer = fc.record({
  star: anyName,
  incarnation: anyName,
  epoch: fc.oneof(anyCount, fc.constant(NO_EPOCH)),
});
const anyPoison: fc.Arbitrary<PoisonFields> = fc.record({
  star: anyName,
  epoch: anyCount,
  slot: anyCount,
  nonce: anyId,
  fencedBy: anyFencer,
  atMillis: anyCount,
});

describe('encodePoison and parsePoison', () => {
  it('round-trip', () => {
    fc.assert(
      fc.property(anyPoison, (fields) => {
        const read = parsePoison(encodePoison(fields));
        if (!read.ok) throw new Error(read.reason);
        const { fencedBy, atMillis, ...slot } = fields;
        expect(read.poison).toEqual({ fencedBy, atMillis });
        expect(read.preamble).toMatchObject({ kind: 'poison', ...slot, released: 0, bodyBytes: 0 });
      }),
    );
  });

  it.each<[string, Partial<PoisonFields['fencedBy']>]>([
    ['an empty star', { star: '' }],
    ['a star of 64 characters', { star: 'a'.repeat(64) }],
    ['an empty incarnation', { incarnation: '' }],
    ['a very long incarnation', { incarnation: 'a'.repeat(1_000) }],
    ['an incarnation beyond ASCII', { incarnation: 'ä' }],
    ['an epoch below none', { epoch: -2 }],
    ['an unsafe epoch', { epoch: 2 ** 53 }],
  ])('refuse to write a fencer with %s', (_, change) => {
    const fencedBy = { ...GOLDEN_POISON.fencedBy, ...change };
    expect(() => encodePoison({ ...GOLDEN_POISON, fencedBy })).toThrow();
  });
});

describe('parsePoison', () => {
  it.each<[string, number, number[], string]>([
    ['an unknown flag', HEADER + 8, [3], 'unknown poison flag'],
    ['an epoch that is not there', HEADER + 8, [0], 'padding is not zero'],
    ['a byte in the padding', HEADER + 11, [1], 'padding is not zero'],
    ['a byte at the end of the padding', HEADER + 15, [1], 'padding is not zero'],
    ['an unsafe time', HEADER + 7, [1], 'number is not a safe integer'],
    ['an unsafe epoch', HEADER + 23, [1], 'number is not a safe integer'],
    ['names that are longer', HEADER + 9, [6], 'name lengths'],
    ['names that are shorter', HEADER + 10, [15], 'name lengths'],
    ['an empty star', HEADER + 9, [0, 21], 'fencer is not a name'],
    ['an empty incarnation', HEADER + 9, [21, 0], 'fencer is not a name'],
    ['a blank in a name', HEADER + 24, [0x20], 'fencer is not a name'],
  ])('refuses %s even with fitting checksums', (_, offset, values, reason) => {
    expect(parsePoison(resealHeader(patched(poison, offset, values)))).toEqual({
      ok: false,
      reason,
    });
  });

  it('refuses a flight', () => {
    expect(parsePoison(golden('flight-v1'))).toEqual({ ok: false, reason: 'not poison' });
  });

  it('accepts only what encodes to the same bytes again', () => {
    const offset = fc.integer({ min: HEADER, max: poison.length - 1 });
    fc.assert(
      fc.property(offset, fc.uint8Array({ minLength: 1, maxLength: 16 }), (at, noise) => {
        const object = resealHeader(patched(poison, at, [...noise].slice(0, poison.length - at)));
        const read = parsePoison(object);
        if (read.ok) expect(encodePoison({ ...GOLDEN_POISON, ...read.poison })).toEqual(object);
      }),
      { numRuns: 2_000 },
    );
  });
});

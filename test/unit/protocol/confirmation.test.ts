import { describe, expect, it } from 'vitest';
import { isConfirmed, voteOf } from '../../../src/protocol/confirmation.ts';

describe('what confirms an epoch for a request (L1)', () => {
  const request = { firstSlot: 7, arrived: 3 };

  it.each([
    // The flight in slot 6 was assigned before the request, however late it was acknowledged.
    [7, false],
    [8, true],
  ])('acknowledged below %i: %s', (released, confirmed) => {
    expect(isConfirmed(request, { kind: 'released', released }, 2)).toBe(confirmed);
  });

  it.each([
    // Requests 0 to 2 had arrived when the wave began; this one is number 3.
    [3, 3, false],
    [4, 3, true],
    [4, 2, true],
    [4, 1, false],
  ])('a wave begun after %i requests, clean in %i buckets: %s', (begun, clean, confirmed) => {
    expect(isConfirmed(request, { kind: 'wave', begun, clean }, 2)).toBe(confirmed);
  });

  it.each([
    ['absent', 'confirmed', 'clean'],
    ['absent', 'lost', 'silent'],
    ['absent', 'unknown', 'silent'],
    ['unknown', 'confirmed', 'silent'],
    ['flight', 'unknown', 'own'],
    ['poison', 'unknown', 'lost'],
    ['foreign', 'unknown', 'lost'],
    ['corrupt', 'unknown', 'lost'],
  ] as const)('a bucket that shows %s and an identity %s is %s', (found, identity, vote) => {
    expect(voteOf(found, identity)).toBe(vote);
  });
});

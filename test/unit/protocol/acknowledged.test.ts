import { describe, expect, it } from 'vitest';
import { acknowledgedBy, releasedBy } from '../../../src/protocol/acknowledged.ts';

describe('what proves that a slot was acknowledged (F1)', () => {
  it.each([
    // trimmed, checkpoint, cut, released, slot → who proves it
    [0, 5, undefined, undefined, 4, ['checkpoint']],
    [0, 5, undefined, undefined, 5, []],
    [0, 5, 9, undefined, 8, ['cut']],
    [0, 5, 9, undefined, 9, []],
    [0, 5, undefined, 8, 7, ['watermark']],
    [0, 5, undefined, 8, 8, []],
    [0, 5, 9, 8, 4, ['checkpoint', 'cut', 'watermark']],
    // Its copies were deleted in good order.
    [3, 5, 9, 8, 2, []],
    [3, 5, 9, 8, 3, ['checkpoint', 'cut', 'watermark']],
  ] as const)('%i %i %s %s: %i', (trimmed, checkpoint, cut, released, slot, by) => {
    const proofs = acknowledgedBy({ trimmed, checkpoint, cut }, slot, released);
    expect(proofs.map((proof) => proof.by)).toEqual(by);
  });

  it('a flight proves a window below its own slot, and its watermark', () => {
    expect(releasedBy({ slot: 10, released: 9 }, 4)).toBe(9);
    expect(releasedBy({ slot: 10, released: 0 }, 4)).toBe(7);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  gallop,
  isTight,
  narrow,
  probeSlots,
  PROBE_TUNING,
  split,
  type ProbeBounds,
} from '../../../src/protocol/probe.ts';

/** Waves until the bounds around the end of a chain are tight. */
function search(from: number, tail: number): { waves: number; bounds: ProbeBounds } {
  let bounds: ProbeBounds = { low: from - 1, high: null };
  let waves = 0;
  while (!isTight(bounds, PROBE_TUNING)) {
    waves++;
    bounds = narrow(
      bounds,
      probeSlots(bounds, PROBE_TUNING).map((slot) => ({
        slot,
        shows: slot < tail ? 'flight' : 'no-flight',
      })),
    );
  }
  return { waves, bounds };
}

describe('probe plan', () => {
  it('gallops in doubling steps', () => {
    expect(gallop(9, 3)).toEqual([10, 11, 13, 17]);
  });

  it('stays within safe integers', () => {
    expect(gallop(Number.MAX_SAFE_INTEGER - 2, 3)).toEqual([
      Number.MAX_SAFE_INTEGER - 1,
      Number.MAX_SAFE_INTEGER,
    ]);
  });

  it('splits evenly and looks at the upper bound again', () => {
    expect(split(0, 8, 3)).toEqual([2, 4, 6, 8]);
    expect(split(0, 2, 31)).toEqual([1, 2]);
  });

  it('finds the end of any chain in few waves, with the end between its bounds', () => {
    fc.assert(
      fc.property(fc.nat(2 ** 30), fc.nat(2 ** 21 - 1), (from, length) => {
        const { waves, bounds } = search(from, from + length);
        expect(waves).toBeLessThanOrEqual(4);
        expect(bounds.low).toBeLessThan(from + length);
        expect(bounds.high).toBeGreaterThanOrEqual(from + length);
      }),
    );
  });

  it('goes on beyond the reach of one gallop', () => {
    expect(search(0, 5 * 2 ** 21).bounds.low).toBeLessThan(5 * 2 ** 21);
    expect(search(0, 5 * 2 ** 21).waves).toBeLessThanOrEqual(6);
  });
});

describe('bounds after a wave', () => {
  it('follow the highest flight and the lowest absence above it', () => {
    expect(
      narrow({ low: 3, high: null }, [
        { slot: 4, shows: 'no-flight' },
        { slot: 8, shows: 'flight' },
        { slot: 16, shows: 'no-flight' },
        { slot: 32, shows: 'no-flight' },
      ]),
    ).toEqual({ low: 8, high: 16 });
  });

  it('learn nothing from slots that too few buckets answered', () => {
    expect(narrow({ low: 3, high: 9 }, [{ slot: 5, shows: 'nothing' }])).toEqual({
      low: 3,
      high: 9,
    });
  });

  it('drop an upper bound that the incumbent has passed', () => {
    expect(narrow({ low: 3, high: 9 }, [{ slot: 9, shows: 'flight' }])).toEqual({
      low: 9,
      high: null,
    });
  });

  it('are not tight without an upper bound', () => {
    expect(isTight({ low: 3, high: null }, PROBE_TUNING)).toBe(false);
    expect(isTight({ low: 3, high: 67 }, PROBE_TUNING)).toBe(true);
    expect(isTight({ low: 3, high: 68 }, PROBE_TUNING)).toBe(false);
  });
});

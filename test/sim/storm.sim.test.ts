import { describe, expect, it } from 'vitest';
import { SITUATIONS, type Situation } from './counters.ts';
import { belowFloor } from './floors.ts';
import { runStorm } from './storm.ts';
import { stormConfig } from './world-config.ts';

/** Four rounds over every shape: K/W of 1/1, 3/2, 3/3 and 5/3, with windows of 1, 4 and 16. */
const SEEDS = 48;
const SHAPES = 12;
const MINUTES_MAX = 10 * 60_000;

const totals = Object.fromEntries(SITUATIONS.map((name) => [name, 0])) as Record<Situation, number>;

describe('a storm over engines of several stars', () => {
  for (let shape = 0; shape < SHAPES; shape++) {
    const { buckets, copies, window } = stormConfig(shape);
    it(
      `keeps every invariant with ${copies} of ${buckets} copies and a window of ${window}`,
      async () => {
        for (let seed = shape; seed < SEEDS; seed += SHAPES) {
          const { counters } = await runStorm(seed);
          for (const name of SITUATIONS) totals[name] += counters.counts[name];
        }
      },
      MINUTES_MAX,
    );
  }

  it('reaches the situations that it is there for', () => {
    // A few seeds spread wide: a quarter of what many seeds must show.
    expect(belowFloor(totals, SEEDS / 4)).toEqual([]);
  });

  it.each([3, 5])(
    'has one history for one seed: %i',
    async (seed) => {
      const { hash, steps } = await runStorm(seed);
      expect(await runStorm(seed)).toMatchObject({ hash, steps });
    },
    MINUTES_MAX,
  );
});

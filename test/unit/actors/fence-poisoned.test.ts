/** Poison in slots that were acknowledged: refused and reported, never taken for the end (F1). */
import { describe, expect, it } from 'vitest';
import { checkCut, errorOf, FenceWorld } from '../../support/fence-world.ts';

/** The first wave of a fence looks at slots 1, 2, 4, 8, 16 ...: this one is met by a probe alone. */
const PROBED = 8;
const UNPROBED = 6;

async function poisoned(
  world: FenceWorld,
  slot: number,
  buckets: readonly number[],
): Promise<void> {
  await world.remove(slot, buckets);
  await world.plant(slot, buckets, world.poisonBytes(slot));
}

describe('poison below the slots that a flight proves released', () => {
  it('is refused where a probe met it, with the buckets; the epoch stays open', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(40);
      await poisoned(world, PROBED, [0, 1, 2]);
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer));
      expect(error).toMatchObject({
        code: 'ACKNOWLEDGED_SLOT_POISONED',
        kind: 'corrupt',
        details: { star: 'star-a', epoch: 7, slot: PROBED },
      });
      expect(error.details['provenTo']).toBeGreaterThan(PROBED);
      expect(String(error.details['buckets']).split(',').length).toBeGreaterThanOrEqual(2);
      expect(await world.record()).toMatchObject({ state: 'open', checkpoint: 0 });
      // Nothing was written: no slot of the chain or beyond was touched.
      expect(await world.cells(39)).toBe('fff');
      expect(await world.cells(40)).toBe('...');
      const { counters } = fencer.process.metrics.snapshot();
      expect(counters['fence.acknowledgedPoisoned']).toBe(1);
    });
  });

  it('is no end of the epoch where the walk does not look', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(40);
      await poisoned(world, UNPROBED, [0, 1]);
      expect((await world.fence(world.fencer('b'))).cut).toBe(40);
      expect(await world.record()).toMatchObject({ state: 'fenced', cut: 40 });
    });
  });

  it.each([
    ['in fewer than B buckets', [0]],
    ['in a bucket that was emptied, which does not count', [0, 1]],
  ])('%s it changes nothing', async (what, buckets) => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(40);
      if (buckets.length > 1) {
        world.world.bucket(1).wipe();
      }
      await poisoned(world, PROBED, buckets);
      expect((await world.fence(world.fencer('b'))).cut, what).toBe(40);
    });
  });

  it('at the watermark it is the end of the epoch, as ever', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(PROBED);
      // The highest flight was assigned when this slot was the first one not released.
      await world.plant(PROBED, [0, 1], world.poisonBytes(PROBED));
      await world.plant(PROBED + 1, [2], world.flightBytes(PROBED + 1, { released: PROBED }));
      expect((await world.fence(world.fencer('b'))).cut).toBe(PROBED);
      await checkCut(world, PROBED, PROBED);
    });
  });

  it('below the checkpoint it is not met: rows cover the slot', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open({ checkpoint: 20 });
      await world.plantChain(40);
      await poisoned(world, PROBED, [0, 1, 2]);
      expect((await world.fence(world.fencer('b'))).cut).toBe(40);
    });
  });

  it('is proven by the place of a flight alone, whatever watermark it carries', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(4);
      await world.plant(4, [0, 1, 2], world.poisonBytes(4));
      // Window 4: slot 8 is assigned only after slot 4 was released.
      await world.plant(8, [0, 1, 2], world.flightBytes(8, { released: 0 }));
      const error = await errorOf(world.fence(world.fencer('b')));
      expect(error).toMatchObject({
        code: 'ACKNOWLEDGED_SLOT_POISONED',
        details: { slot: 4, provenTo: 5 },
      });
      expect(await world.record()).toMatchObject({ state: 'open' });
    });
  });

  it('costs a sound chain no read and no round', async () => {
    const cost: number[][] = [];
    for (const planted of [false, true]) {
      const world = new FenceWorld();
      await world.run(async () => {
        await world.open();
        await world.plantChain(40);
        if (planted) await poisoned(world, UNPROBED, [0]);
        const { rounds, gets, puts } = await world.fence(world.fencer('b'));
        cost.push([rounds, gets, puts]);
      });
    }
    expect(cost[1]).toEqual(cost[0]);
    expect(cost[0]![0]).toBeLessThanOrEqual(10);
  });

  it('goes on by itself once an operator has put the copies back', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(40);
      await poisoned(world, PROBED, [0, 1, 2]);
      const fencer = world.fencer('b');
      await errorOf(world.fence(fencer));
      await world.remove(PROBED);
      await world.plant(PROBED, [0, 1, 2]);
      expect((await world.fence(fencer)).cut).toBe(40);
      await checkCut(world, 40, 40);
    });
  });
});

import { describe, expect, it } from 'vitest';
import { identityKey } from '../../../src/format/identity.ts';
import { CALM_BUCKETS } from '../../../src/testing/bucket-fates.ts';
import { CALM_METASTORE } from '../../../src/testing/meta-fates.ts';
import { checkCut, errorOf, FenceWorld } from '../../support/fence-world.ts';

const EVER = Number.POSITIVE_INFINITY;
const SLOTS = /^[0-9a-f]{4}\//;

describe('a bucket that does not do its part', () => {
  it('hangs: the others decide, and the fence waits for it once (bookkeeper#1067)', async () => {
    const world = new FenceWorld({ bucketProfile: { ...CALM_BUCKETS, timeoutMillis: 60_000 } });
    await world.run(async () => {
      await world.open();
      await world.plantChain(40);
      const rule = world.world.bucketScript.add({
        target: 'bucket-1',
        times: EVER,
        fate: { kind: 'hang' },
      });
      const fencer = world.fencer('b');
      const result = await world.fence(fencer);
      expect(result.cut).toBe(40);
      expect(result.millis).toBeLessThan(2_500);
      expect(await world.cells(40)).toBe('p.p');
      // Nothing is left waiting for it.
      rule.remove();
      expect(fencer.actors.undecided()).toEqual([]);
    });
  });

  it('hangs for writes alone: the next buckets take the poison', async () => {
    const world = new FenceWorld({ bucketProfile: { ...CALM_BUCKETS, timeoutMillis: 60_000 } });
    await world.run(async () => {
      await world.open();
      world.world.bucketScript.add({
        target: 'bucket-0',
        op: 'createOnly',
        times: EVER,
        fate: { kind: 'hang' },
      });
      const fencer = world.fencer('b');
      const result = await world.fence(fencer);
      expect(result.cut).toBe(0);
      expect(await world.cells(0)).toBe('.pp');
    });
  });

  it('refuses writes because it is full: the next buckets take the poison', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      world.world.bucketScript.add({
        target: 'bucket-1',
        op: 'createOnly',
        times: EVER,
        fate: { kind: 'refused' },
      });
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(1);
      expect(await world.cells(0)).toBe('f.f');
      expect(await world.cells(1)).toBe('p.p');
    });
  });

  it('answers 503 to 30 % of all requests: the cut stays the same (mountpoint-s3#789)', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const shares = { throttled: 0.3 };
      const world = new FenceWorld({
        seed,
        window: 8,
        bucketProfile: { ...CALM_BUCKETS, reads: shares, writes: shares },
      });
      await world.run(async () => {
        world.world.setProfiles(CALM_BUCKETS, CALM_METASTORE);
        await world.open();
        await world.plantChain(60);
        await world.plant(60, [seed % 3]);
        world.world.setProfiles({ ...CALM_BUCKETS, reads: shares, writes: shares }, CALM_METASTORE);
        const result = await world.fence(world.fencer('b'));
        expect(result.cut).toBe(61);
        await checkCut(world, 61, 60);
      });
    }
  });

  it('is unreachable at the deciding slot, and returns: the fence resumes by itself', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(3);
      await world.plant(3, [0]);
      await world.plant(3, [2], world.poisonBytes(3));
      world.world.bucket(1).goDown();
      const fencer = world.fencer('b');
      const waiting = world.fence(fencer);
      await world.sleep(60_000);
      expect(fencer.actors.undecided()).toMatchObject([{ slot: 3, buckets: ['bucket-1'] }]);
      expect(await world.record()).toMatchObject({ state: 'open' });
      world.world.bucket(1).recover();
      expect((await waiting).cut).toBe(4);
      expect(await world.cells(3)).toBe('ffp');
    });
  });

  it('is unreachable with W = 1: unwritten slots stay undecided until it returns', async () => {
    const world = new FenceWorld({ buckets: 2, copies: 1 });
    await world.run(async () => {
      await world.open();
      await world.plantChain(2);
      world.world.bucket(1).goDown();
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, { timeoutMillis: 10_000 }));
      expect(error).toMatchObject({ code: 'FENCE_UNDECIDED', details: { slot: 2 } });
      world.world.bucket(1).recover();
      expect((await world.fence(fencer)).cut).toBe(2);
    });
  });

  it('asks an undecided fence seldom: its pauses grow', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      await world.plant(0, [1], world.poisonBytes(0));
      world.world.bucket(2).goDown();
      const fencer = world.fencer('b');
      void world.fence(fencer).catch(() => undefined);
      await world.sleep(10_000);
      const rounds = (): number => fencer.process.metrics.snapshot().counters['fence.rounds']!;
      const before = rounds();
      await world.sleep(60_000);
      expect(rounds() - before).toBeLessThan(60);
      await fencer.actors.close();
    });
  });

  it('leaves nothing behind after an hour of waiting', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      await world.plant(0, [1], world.poisonBytes(0));
      const fencer = world.fencer('b');
      world.world.bucketScript.add({
        process: fencer.process.name,
        target: 'bucket-2',
        times: EVER,
        fate: { kind: 'hang' },
      });
      void world.fence(fencer).catch(() => undefined);
      await world.sleep(60_000);
      const before = world.world.scheduler.pending;
      await world.sleep(3_600_000);
      expect(world.world.scheduler.pending).toBeLessThanOrEqual(before + 10);
      await fencer.actors.close();
    });
  });
});

describe('a bucket that lost what it held (woodpecker#92)', () => {
  it('is no vote: with another one unreachable nothing is cut', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(4);
      // Slot 3 was acknowledged by buckets 0 and 1.
      await world.remove(3, [2]);
      world.world.bucket(1).wipe();
      world.world.bucket(0).goDown();
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, { timeoutMillis: 20_000 }));
      expect(error).toMatchObject({
        code: 'FENCE_UNDECIDED',
        details: { buckets: 'bucket-0,bucket-1' },
      });
      expect(await world.record()).toMatchObject({ state: 'open' });
      const { counters } = fencer.process.metrics.snapshot();
      expect(counters['bucket.identityLost']).toBeGreaterThan(0);
      world.world.bucket(0).recover();
      expect((await world.fence(fencer)).cut).toBe(4);
      expect(await world.cells(3)).toBe('f.f');
    });
  });

  it('keeps the one remaining copy of an acknowledged slot alive', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(4);
      await world.remove(3, [2]);
      world.world.bucket(1).wipe();
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(4);
      expect(await world.cells(3)).toBe('f.f');
      expect(await world.cells(4)).toBe('p.p');
    });
  });

  it('counts no poison that was put into it after the loss', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(2);
      await world.remove(1, [2]);
      world.world.bucket(0).goDown();
      // Bucket 1 is emptied between the fence's look at it and the poison that follows.
      world.world.metaScript.add({
        op: 'get',
        key: 'chains/',
        skip: 1,
        fate: () => {
          world.world.bucket(1).wipe();
          return { kind: 'pass' };
        },
      });
      await world.remove(1, [1]);
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, { timeoutMillis: 20_000 }));
      expect(error.code).toBe('FENCE_UNDECIDED');
      // One copy, one poison, one bucket gone: nobody may ever cut the slot, nor take it for whole.
      world.world.bucket(0).recover();
      const still = await errorOf(world.fence(fencer, { timeoutMillis: 20_000 }));
      expect(still).toMatchObject({ code: 'FENCE_UNDECIDED', details: { buckets: 'bucket-1' } });
      expect(await world.cells(1)).toBe('fpp');
      await fencer.actors.close();
    });
  });

  it('is no vote when it shows the identity of another set', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      const { set } = await world.open();
      await world.plantChain(2);
      await world.remove(1, [2]);
      const key = identityKey(set);
      const other = await world.world.bucket(0).store.readHead(key, 512);
      if (other.kind !== 'found') throw new Error('no identity');
      await world.world.bucket(1).store.delete(key);
      await world.world.bucket(1).store.createOnly(key, other.bytes);
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(2);
      expect(await world.cells(2)).toBe('p.p');
    });
  });
});

describe('objects that are not what they must be', () => {
  it('copies a sound flight, never one whose body is damaged', async () => {
    const world = new FenceWorld({ buckets: 5, copies: 3 });
    await world.run(async () => {
      await world.open();
      const flight = world.flightBytes(0);
      const damaged = flight.slice();
      damaged[damaged.length - 1]! ^= 1;
      await world.plant(0, [0], damaged);
      await world.plant(0, [1], flight);
      const fencer = world.fencer('b');
      const result = await world.fence(fencer);
      expect(result.cut).toBe(1);
      for (const bucket of [2, 3, 4]) expect(await world.bytes(0, bucket)).toEqual(flight);
      const { counters } = fencer.process.metrics.snapshot();
      expect(counters['fence.corruptObjects']).toBeGreaterThan(0);
    });
  });

  it('counts a truncated copy neither as flight nor as absence', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const flight = world.flightBytes(0);
      await world.plant(0, [0], flight.subarray(0, flight.length - 3));
      await world.plant(0, [1]);
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(1);
      expect(await world.bytes(0, 2)).toEqual(flight);
      expect(await world.bytes(0, 0)).toHaveLength(flight.length - 3);
    });
  });

  it('blocks like an unreachable bucket while damage holds the deciding vote', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const damaged = world.flightBytes(0);
      damaged[20]! ^= 1;
      await world.plant(0, [0], damaged);
      await world.plant(0, [1]);
      await world.plant(0, [2], world.poisonBytes(0));
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, { timeoutMillis: 5_000 }));
      expect(error).toMatchObject({ code: 'FENCE_UNDECIDED', details: { buckets: 'bucket-0' } });
      // An operator removes the damaged object: the fence goes on by itself.
      await world.remove(0, [0]);
      expect((await world.fence(fencer)).cut).toBe(1);
    });
  });

  it('takes no flight of another writer for the slot of this epoch (woodpecker f72209e)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(2);
      await world.plant(2, [0], world.flightBytes(2, { nonce: 'ee'.repeat(16) }));
      const fencer = world.fencer('b');
      const result = await world.fence(fencer);
      expect(result.cut).toBe(2);
      expect(await world.cells(2)).toBe('fpp');
      const { counters } = fencer.process.metrics.snapshot();
      expect(counters['fence.corruptObjects']).toBeGreaterThan(0);
    });
  });

  it('lets W identical copies decide and ignores the odd one (minio#21603)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0], world.flightBytes(0, { text: 'odd' }));
      await world.plant(0, [1, 2]);
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(1);
    });
  });

  it('never merges copies that differ when none has W', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0], world.flightBytes(0, { text: 'one' }));
      await world.plant(0, [1], world.flightBytes(0, { text: 'other' }));
      const error = await errorOf(world.fence(world.fencer('b'), { timeoutMillis: 5_000 }));
      expect(error).toMatchObject({ code: 'FENCE_UNDECIDED', details: { slot: 0 } });
      expect(await world.cells(0)).toBe('ffp');
    });
  });

  it('reports poison at a slot that a higher flight proves acknowledged, and publishes nothing', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(1);
      await world.plant(1, [0, 1], world.poisonBytes(1));
      await world.plant(3, [0, 1, 2], world.flightBytes(3, { released: 2 }));
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer));
      expect(error).toMatchObject({
        code: 'ACKNOWLEDGED_SLOT_POISONED',
        kind: 'corrupt',
        details: { slot: 1, provenTo: 2 },
      });
      expect(await world.record()).toMatchObject({ state: 'open' });
    });
  });

  it('reports poison at a slot that the checkpoint proves acknowledged', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(1);
      await world.plant(1, [0, 1], world.poisonBytes(1));
      // The checkpoint moves while the fence walks, and nothing was deleted.
      world.world.metaScript.add({
        op: 'put',
        key: 'chains/',
        fate: () => {
          void world.changeRecord({ checkpoint: 2 });
          return { kind: 'pass' };
        },
      });
      const error = await errorOf(world.fence(world.fencer('b')));
      expect(error).toMatchObject({
        code: 'ACKNOWLEDGED_SLOT_POISONED',
        details: { slot: 1, provenTo: 2 },
      });
      expect(await world.record()).toMatchObject({ state: 'open' });
    });
  });
});

describe('requests whose outcome is unknown', () => {
  it('looks for poison and copies whose answer was lost', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      world.world.bucketScript.add({
        op: 'createOnly',
        key: SLOTS,
        times: 3,
        fate: { kind: 'lost-response' },
      });
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(1);
      await checkCut(world, 1, 0);
    });
  });

  it('takes 409 for neither a copy nor an absence (opendal#6741)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      world.world.bucketScript.add({
        op: 'createOnly',
        key: SLOTS,
        times: 4,
        fate: { kind: 'error', status: 409 },
      });
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(1);
      await checkCut(world, 1, 0);
    });
  });

  it('waits out a metastore that is away, before and after the walk', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const fencer = world.fencer('b');
      world.world.metaScript.add({
        op: ['get', 'put'],
        times: 6,
        fate: { kind: 'unavailable' },
      });
      const result = await world.fence(fencer);
      expect(result.cut).toBe(0);
      await checkCut(world, 0, 0);
    });
  });

  it('publishes once although the answer of the write was lost', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      world.world.metaScript.add({ op: 'put', fate: { kind: 'lost-response' } });
      const result = await world.fence(world.fencer('b'));
      expect(result).toMatchObject({ cut: 0, alreadyFenced: false });
      await checkCut(world, 0, 0);
    });
  });

  it('publishes over a write that is applied a minute late', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      world.world.metaScript.add({ op: 'put', fate: { kind: 'late', afterMillis: 60_000 } });
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(0);
      await world.sleep(120_000);
      await checkCut(world, 0, 0);
    });
  });
});

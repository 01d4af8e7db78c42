import { describe, expect, it } from 'vitest';
import type { FenceProgress } from '../../../actors/fence.actor.ts';
import { CALM_BUCKETS } from '../../../src/testing/bucket-fates.ts';
import { checkCut, EPOCH, errorOf, FenceWorld, STAR } from '../../support/fence-world.ts';

const EVER = Number.POSITIVE_INFINITY;

describe('fence of a quiet epoch', () => {
  it('ends an epoch without flights at 0 (bookkeeper#2615)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const result = await world.fence(world.fencer('b'));
      expect(result).toMatchObject({
        cut: 0,
        alreadyFenced: false,
        rounds: 5,
        puts: 2,
        repairs: 0,
      });
      expect(result.record).toMatchObject({ state: 'fenced', cut: 0, fencedBy: { star: 'b' } });
      await checkCut(world, 0, 0);
      expect(await world.cells(0)).toBe('pp.');
    });
  });

  it('ends a chain at its first slot without a flight, within ten rounds', async () => {
    const world = new FenceWorld({ window: 16 });
    await world.run(async () => {
      await world.open();
      await world.plantChain(700);
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(700);
      expect(result.rounds).toBeLessThanOrEqual(10);
      expect(result.gets).toBeLessThanOrEqual(1_000);
      await checkCut(world, 700, 700);
    });
  });

  it('completes flights that fewer than W buckets hold, byte for byte', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(3);
      await world.plant(3, [2]);
      await world.plant(4, [1]);
      const result = await world.fence(world.fencer('b'));
      expect(result).toMatchObject({ cut: 5, repairs: 4 });
      await checkCut(world, 5, 3);
      for (let bucket = 0; bucket < 3; bucket++) {
        expect(await world.bytes(3, bucket)).toEqual(world.flightBytes(3));
      }
    });
  });

  it('starts at a checkpoint beyond everything the probe would find (bookkeeper#2615)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open({ checkpoint: 50, rewritten: 50, trimmed: 50 });
      const result = await world.fence(world.fencer('b'));
      expect(result.cut).toBe(50);
      expect(await world.cells(0)).toBe('...');
      expect(await world.cells(50)).toBe('pp.');
    });
  });

  it('stops at a single poison slot with one bucket', async () => {
    const world = new FenceWorld({ buckets: 1, copies: 1 });
    await world.run(async () => {
      await world.open();
      await world.plantChain(2);
      const result = await world.fence(world.fencer('b'));
      expect(result).toMatchObject({ cut: 2, puts: 1 });
      await checkCut(world, 2, 2);
    });
  });

  it('takes five rounds with a right hint', async () => {
    const world = new FenceWorld({ window: 16 });
    await world.run(async () => {
      await world.open();
      await world.plantChain(100);
      const { actors } = world.fencer('b');
      const result = await actors.fence({ star: STAR, epoch: EPOCH, tailHint: 100 });
      expect(result).toMatchObject({ cut: 100, rounds: 5 });
    });
  });
});

describe('a fence that others share', () => {
  it('is one actor for all who ask in a process', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(5);
      const fencer = world.fencer('b');
      const results = await Promise.all([
        world.fence(fencer),
        world.fence(fencer),
        world.fence(fencer),
      ]);
      expect(results.map(({ cut }) => cut)).toEqual([5, 5, 5]);
      expect(fencer.process.metrics.snapshot().counters['fence.published']).toBe(1);
      expect(results[1]).toBe(results[0]);
    });
  });

  it('is a read once the cut is recorded', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.fence(world.fencer('b'));
      const again = await world.fence(world.fencer('c'));
      expect(again).toMatchObject({ cut: 0, alreadyFenced: true, rounds: 0, gets: 0, puts: 0 });
    });
  });

  it('goes on after its caller gave up', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(5);
      const fencer = world.fencer('b');
      const controller = new AbortController();
      const given = errorOf(world.fence(fencer, { signal: controller.signal }));
      await world.sleep(10);
      controller.abort();
      expect((await given).code).toBe('ABORTED');
      await world.sleep(1_000);
      expect(await world.record()).toMatchObject({ state: 'fenced', cut: 5 });
    });
  });

  it('refuses a caller whose signal has fired', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const error = await errorOf(world.fence(world.fencer('b'), { signal: AbortSignal.abort() }));
      expect(error.code).toBe('ABORTED');
      expect(await world.record()).toMatchObject({ state: 'open' });
    });
  });

  it('reports its progress to each caller', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(3);
      await world.plant(3, [0]);
      const seen: FenceProgress[] = [];
      const { actors } = world.fencer('b');
      await actors.fence(
        { star: STAR, epoch: EPOCH },
        {
          onProgress: (progress) => seen.push(progress),
        },
      );
      const phases = new Set(seen.map(({ phase }) => phase));
      expect([...phases]).toEqual(['probing', 'walking', 'publishing', 'fenced']);
      expect(seen.at(-1)).toMatchObject({ phase: 'fenced', slot: 4, cut: 4 });
      const slots = seen.flatMap((progress) => progress.slots);
      expect(slots).toContainEqual({ slot: 3, verdict: 'repaired' });
      expect(slots).toContainEqual({ slot: 4, verdict: 'poisoned' });
      expect(slots.at(-1)).toEqual({ slot: 4, verdict: 'dead' });
      const rounds = seen.map((progress) => progress.rounds);
      expect(rounds).toEqual([...rounds].sort((a, b) => a - b));
    });
  });

  it('ends with CLOSED when the engine closes, and refuses new ones', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const fencer = world.fencer('b');
      const waiting = errorOf(world.fence(fencer));
      await world.sleep(5);
      await fencer.actors.close();
      expect((await waiting).code).toBe('CLOSED');
      expect((await errorOf(world.fence(fencer))).code).toBe('CLOSED');
      await fencer.actors.close();
    });
  });
});

describe('what cannot be fenced', () => {
  it('tells an unknown star from an unknown epoch', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const { actors } = world.fencer('b');
      expect((await errorOf(actors.fence({ star: STAR, epoch: 99 }))).code).toBe('EPOCH_UNKNOWN');
      expect((await errorOf(actors.fence({ star: 'nobody', epoch: 0 }))).code).toBe('STAR_UNKNOWN');
    });
  });

  it('is an epoch whose set is not registered', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open({ set: 'ff'.repeat(16) });
      const error = await errorOf(world.fence(world.fencer('b')));
      expect(error.code).toBe('METASTORE_CORRUPT');
    });
  });

  it('can be tried again after it failed', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const good = (await world.record()).set;
      await world.changeRecord({ set: 'ff'.repeat(16) });
      const fencer = world.fencer('b');
      await errorOf(world.fence(fencer));
      await world.changeRecord({ set: good });
      expect((await world.fence(fencer)).cut).toBe(0);
    });
  });
});

describe('a deadline', () => {
  const late = { timeoutMillis: 400 };

  it('passes while the record is read', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const rule = world.world.metaScript.add({ op: 'get', times: EVER, fate: { kind: 'never' } });
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, late));
      expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED', details: { phase: 'reading' } });
      rule.remove();
      expect((await world.fence(fencer)).cut).toBe(0);
    });
  });

  it('passes while the end of the chain is looked for', async () => {
    const world = new FenceWorld({ bucketProfile: { ...CALM_BUCKETS, timeoutMillis: 60_000 } });
    await world.run(async () => {
      await world.open();
      const fencer = world.fencer('b');
      const rule = world.world.bucketScript.add({
        op: 'readHead',
        times: EVER,
        fate: { kind: 'hang' },
      });
      const error = await errorOf(world.fence(fencer, late));
      expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED', details: { phase: 'probing' } });
      rule.remove();
      expect((await world.fence(fencer)).cut).toBe(0);
    });
  });

  it('passes while a slot is poisoned', async () => {
    const world = new FenceWorld({ bucketProfile: { ...CALM_BUCKETS, timeoutMillis: 60_000 } });
    await world.run(async () => {
      await world.open();
      const fencer = world.fencer('b');
      const rule = world.world.bucketScript.add({
        op: 'createOnly',
        times: EVER,
        fate: { kind: 'hang' },
      });
      const error = await errorOf(world.fence(fencer, late));
      expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED', details: { phase: 'walking' } });
      rule.remove();
      expect((await world.fence(fencer)).cut).toBe(0);
    });
  });

  it('passes while a flight is copied', async () => {
    const world = new FenceWorld({ bucketProfile: { ...CALM_BUCKETS, timeoutMillis: 60_000 } });
    await world.run(async () => {
      await world.open();
      await world.plant(0, [1]);
      const fencer = world.fencer('b');
      const rule = world.world.bucketScript.add({
        op: 'readRange',
        key: /^[0-9a-f]{4}\//,
        times: EVER,
        fate: { kind: 'hang' },
      });
      const error = await errorOf(world.fence(fencer, late));
      expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED', details: { phase: 'walking' } });
      rule.remove();
      expect((await world.fence(fencer)).cut).toBe(1);
    });
  });

  it('passes while the cut is published', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const fencer = world.fencer('b');
      const rule = world.world.metaScript.add({ op: 'put', times: EVER, fate: { kind: 'never' } });
      const error = await errorOf(world.fence(fencer, late));
      expect(error).toMatchObject({ code: 'DEADLINE_EXCEEDED', details: { phase: 'publishing' } });
      rule.remove();
      expect((await world.fence(fencer)).cut).toBe(0);
    });
  });

  it('names slot, buckets and age when nobody can decide, and the fence goes on', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plant(0, [0]);
      await world.plant(0, [1], world.poisonBytes(0));
      world.world.bucket(2).goDown();
      const fencer = world.fencer('b');
      const error = await errorOf(world.fence(fencer, { timeoutMillis: 30_000 }));
      expect(error).toMatchObject({
        code: 'FENCE_UNDECIDED',
        kind: 'undecided',
        details: { star: STAR, epoch: EPOCH, slot: 0, buckets: 'bucket-2' },
      });
      expect(Number(error.details['ageMillis'])).toBeGreaterThan(20_000);
      expect(fencer.actors.undecided()).toMatchObject([{ slot: 0, buckets: ['bucket-2'] }]);
      const gauge = (): number =>
        fencer.process.metrics.snapshot().gauges['fence.undecidedAgeMillis']!;
      expect(gauge()).toBeGreaterThan(20_000);
      world.world.bucket(2).recover();
      expect((await world.fence(fencer)).cut).toBe(1);
      expect(gauge()).toBe(0);
      expect(fencer.actors.undecided()).toEqual([]);
    });
  });
});

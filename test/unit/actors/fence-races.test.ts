import { describe, expect, it } from 'vitest';
import { Gate } from '../../../src/testing/fault-script.ts';
import { CALM_BUCKETS, ROUGH_BUCKETS } from '../../../src/testing/bucket-fates.ts';
import { ROUGH_METASTORE } from '../../../src/testing/meta-fates.ts';
import { slotKey } from '../../../src/protocol/keys.ts';
import { checkCut, EPOCH, FenceWorld, STAR } from '../../support/fence-world.ts';

const ORDERS = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
];

describe('fencers that race', () => {
  it('all find the same cut, whoever publishes it (F3)', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const world = new FenceWorld({ seed });
      await world.run(async () => {
        await world.open();
        await world.plantChain(5);
        await world.plant(5, [seed % 3]);
        const fencers = ['b', 'c', 'd'].map((name) => world.fencer(name));
        const results = await Promise.all(fencers.map((fencer) => world.fence(fencer)));
        expect(results.map(({ cut }) => cut)).toEqual([6, 6, 6]);
        expect(results.filter(({ alreadyFenced }) => !alreadyFenced)).toHaveLength(1);
        await checkCut(world, 6, 5);
      });
    }
  });

  it('finish what one left that died at any moment', async () => {
    for (let millis = 2; millis < 80; millis += 5) {
      const world = new FenceWorld({ seed: millis });
      await world.run(async () => {
        await world.open();
        await world.plantChain(5);
        await world.plant(5, [1]);
        const first = world.fencer('b');
        void world.fence(first).catch(() => undefined);
        await world.sleep(millis);
        first.process.crash();
        expect((await world.fence(world.fencer('c'))).cut).toBe(6);
        await checkCut(world, 6, 5);
      });
    }
  });

  it('agree when one repairs a slot while another poisons the next (bookkeeper#4163)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(2);
      await world.plant(2, [0]);
      const slow = world.fencer('b');
      const gate = new Gate(world.world.scheduler, 'copies of b');
      world.world.bucketScript.add({
        process: slow.process.name,
        op: 'createOnly',
        key: slotKey(STAR, EPOCH, 2),
        times: 2,
        fate: { kind: 'pass', requestGate: gate },
      });
      const repairing = world.fence(slow);
      await world.sleep(300);
      const other = await world.fence(world.fencer('c'));
      gate.open();
      expect((await repairing).cut).toBe(other.cut);
      expect(other.cut).toBe(3);
      await checkCut(world, 3, 2);
    });
  });

  it('adopt the recorded cut when it was settled and swept under them (slatedb#1718)', async () => {
    for (let millis = 5; millis < 70; millis += 4) {
      const world = new FenceWorld({ seed: millis });
      await world.run(async () => {
        await world.open();
        await world.plantChain(6);
        await world.plant(8, [0, 1]);
        const slow = world.fencer('b');
        const walking = world.fence(slow);
        await world.sleep(millis);
        slow.process.pause();
        // It may have come first.
        if ((await world.record()).state !== 'open') return;
        const { cut } = await world.fence(world.fencer('c'));
        await world.changeRecord({ state: 'settled', checkpoint: cut });
        await world.changeRecord({ rewritten: cut, trimmed: cut });
        for (let slot = 0; slot < cut; slot++) await world.remove(slot);
        for (let slot = cut; slot <= cut + world.window; slot++) {
          for (let bucket = 0; bucket < 3; bucket++) {
            if ((await world.cells(slot))[bucket] === 'f') await world.remove(slot, [bucket]);
          }
        }
        slow.process.wake();
        const result = await walking;
        expect(result.cut).toBe(cut);
        expect(cut).toBe(6);
        const { counters } = slow.process.metrics.snapshot();
        expect(counters['fence.disagreements']).toBeUndefined();
        expect(counters['fence.acknowledgedPoisoned']).toBeUndefined();
      });
    }
  });

  it('agree under every fault of buckets and metastore', async () => {
    let repairs = 0;
    let adopted = 0;
    for (let seed = 1; seed <= 12; seed++) {
      const world = new FenceWorld({ seed });
      await world.run(async () => {
        await world.open();
        await world.plantChain(4);
        await world.plant(4, [seed % 3]);
        await world.plant(6, [0]);
        world.world.setProfiles(ROUGH_BUCKETS, ROUGH_METASTORE);
        const fencers = ['b', 'c'].map((name) => world.fencer(name));
        const results = await Promise.all(fencers.map((fencer) => world.fence(fencer)));
        expect(new Set(results.map(({ cut }) => cut)).size).toBe(1);
        repairs += results.reduce((sum, result) => sum + result.repairs, 0);
        adopted += results.filter(({ alreadyFenced }) => alreadyFenced).length;
        world.world.heal();
        await checkCut(world, results[0]!.cut, 4);
      });
    }
    expect(repairs).toBeGreaterThan(0);
    expect(adopted).toBeGreaterThan(0);
  });
});

describe('a live incumbent', () => {
  it('is stopped at any pace, and nothing that it acknowledged is cut (F1, F2)', async () => {
    let poisoned = 0;
    let cutFlights = 0;
    let barriers = 0;
    for (let seed = 1; seed <= 24; seed++) {
      const world = new FenceWorld({ seed, window: 4 });
      const prng = world.world.scheduler.prng('pace');
      await world.run(async () => {
        await world.open();
        // From one slot in 40 ms to as fast as the window lets it.
        const pace = [40, 15, 5, 1][seed % 4]!;
        const incumbent = await world.incumbent({
          paceMillis: () => pace * prng.fraction() * 2 + 0.1,
          stubborn: seed % 3 === 0,
        });
        void incumbent.run();
        await world.sleep(50 + prng.below(100));
        const fencers = ['b', 'c'].map((name) => world.fencer(name));
        const results = await Promise.all(fencers.map((fencer) => world.fence(fencer)));
        const { cut } = results[0]!;
        expect(results[1]!.cut).toBe(cut);
        await world.sleep(2_000);
        incumbent.stop();
        await checkCut(world, cut, incumbent.released);
        if (incumbent.halted?.startsWith('poison')) poisoned++;
        if (incumbent.next > cut + 1) cutFlights++;
        for (const { process } of fencers) {
          barriers += process.metrics.snapshot().counters['fence.barriers'] ?? 0;
        }
        expect(results[0]!.rounds).toBeLessThanOrEqual(20);
      });
    }
    expect(poisoned).toBeGreaterThan(10);
    expect(cutFlights).toBeGreaterThan(0);
    expect(barriers).toBeGreaterThan(0);
  });

  it('wins the slot when its flight lands between the look and the poison (bookkeeper#2614)', async () => {
    for (const order of ORDERS) {
      for (let landed = 1; landed <= 3; landed++) {
        const world = new FenceWorld({ seed: landed });
        await world.run(async () => {
          await world.open();
          await world.plantChain(2);
          let done = false;
          // Between observation and poison the fence asks for the record.
          world.world.metaScript.add({
            op: 'get',
            key: 'chains/',
            skip: 1,
            fate: () => {
              if (!done) void world.plant(2, order.slice(0, landed));
              done = true;
              return { kind: 'pass' };
            },
          });
          const { cut } = await world.fence(world.fencer('b'));
          // A flight in the first bucket, or in all that poison could still take, completes the slot.
          const firstTwo = order.slice(0, landed);
          const isMet = firstTwo.includes(0) || firstTwo.includes(1) || landed >= 2;
          expect(cut).toBe(isMet ? 3 : 2 + (firstTwo.includes(2) ? 1 : 0));
          await checkCut(world, cut, landed >= 2 ? 3 : 2);
        });
      }
    }
  });

  it('finds its late flights harmless an hour later (slatedb#352, #1622)', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      const incumbent = await world.incumbent({ paceMillis: () => 3, stubborn: true });
      void incumbent.run();
      await world.sleep(100);
      incumbent.process.pause();
      const { cut } = await world.fence(world.fencer('b'));
      await world.changeRecord({ state: 'settled', checkpoint: cut });
      for (let slot = cut; slot <= cut + world.window; slot++) {
        for (let bucket = 0; bucket < 3; bucket++) {
          if ((await world.cells(slot))[bucket] === 'f') await world.remove(slot, [bucket]);
        }
      }
      await world.sleep(3_600_000);
      incumbent.process.wake();
      await world.sleep(5_000);
      incumbent.stop();
      expect(incumbent.released).toBeLessThanOrEqual(cut);
      expect((await world.cells(cut)).split('p').length - 1).toBeGreaterThanOrEqual(2);
      expect((await world.fence(world.fencer('c'))).cut).toBe(cut);
    });
  });

  it('is not met with a barrier in a fence of the own epoch', async () => {
    const world = new FenceWorld({ window: 4 });
    await world.run(async () => {
      await world.open();
      const incumbent = await world.incumbent({ paceMillis: () => 0.2 });
      void incumbent.run();
      await world.sleep(60);
      const { process, actors } = world.fencer('b');
      const fencing = actors.fence({ star: STAR, epoch: EPOCH, own: true });
      await world.sleep(200);
      incumbent.stop();
      const { cut } = await fencing;
      await checkCut(world, cut, incumbent.released);
      expect(process.metrics.snapshot().counters['fence.barriers'] ?? 0).toBe(0);
    });
  });

  it('is known for the own one by the record, whoever asks', async () => {
    const world = new FenceWorld({ window: 4 });
    await world.run(async () => {
      const { incarnation } = await world.open();
      const incumbent = await world.incumbent({ paceMillis: () => 0.2 });
      void incumbent.run();
      await world.sleep(60);
      const fencer = world.fencer(STAR, { incarnation });
      const fencing = world.fence(fencer);
      await world.sleep(200);
      incumbent.stop();
      const { cut } = await fencing;
      await checkCut(world, cut, incumbent.released);
      expect(fencer.process.metrics.snapshot().counters['fence.barriers'] ?? 0).toBe(0);
    });
  });

  it('is spared barriers from the moment an owner joins', async () => {
    const world = new FenceWorld({ window: 4 });
    await world.run(async () => {
      const record = await world.open();
      const incumbent = await world.incumbent({ paceMillis: () => 0.2 });
      void incumbent.run();
      await world.sleep(60);
      const { process, actors } = world.fencer('b', { incarnation: record.incarnation });
      const fencing = actors.fence({ star: STAR, epoch: EPOCH });
      const joined = actors.fence({ star: STAR, epoch: EPOCH, own: true });
      await world.sleep(200);
      incumbent.stop();
      expect((await fencing).cut).toBe((await joined).cut);
      expect(process.metrics.snapshot().counters['fence.barriers'] ?? 0).toBe(0);
    });
  });
});

describe('trimming under a walk (slatedb#1682)', () => {
  it('is never taken for the end of the chain, and no poison lands below the checkpoint', async () => {
    for (let millis = 1; millis < 60; millis += 4) {
      const world = new FenceWorld({ seed: millis });
      await world.run(async () => {
        await world.open();
        await world.plantChain(12);
        const fencing = world.fence(world.fencer('b'));
        await world.sleep(millis);
        await world.trim(9);
        const { cut } = await fencing;
        expect(cut).toBe(12);
        await checkCut(world, 12, 12);
        for (let slot = 0; slot < 9; slot++) expect(await world.cells(slot)).toBe('...');
      });
    }
  });

  it('goes on all the time while the incumbent writes, and the cuts hold', async () => {
    for (let seed = 1; seed <= 15; seed++) {
      const world = new FenceWorld({ seed, window: 4 });
      const prng = world.world.scheduler.prng('trim');
      await world.run(async () => {
        await world.open();
        const incumbent = await world.incumbent({ paceMillis: () => 2 + prng.below(6) });
        void incumbent.run();
        const trimmer = new AbortController();
        const trimming = (async () => {
          while (!trimmer.signal.aborted) {
            await world.sleep(1 + prng.below(15));
            const { state, trimmed } = await world.record();
            if (state !== 'open') return;
            if (incumbent.released > trimmed) await world.trim(incumbent.released);
          }
        })();
        await world.sleep(80);
        const fencers = ['b', 'c'].map((name) => world.fencer(name));
        const results = await Promise.all(fencers.map((fencer) => world.fence(fencer)));
        trimmer.abort();
        await trimming;
        await world.sleep(500);
        incumbent.stop();
        expect(results[0]!.cut).toBe(results[1]!.cut);
        const record = await world.record();
        expect(record.cut).toBeGreaterThanOrEqual(record.checkpoint);
        expect(incumbent.released).toBeLessThanOrEqual(results[0]!.cut);
      });
    }
  });

  it('makes the walk begin again when slots go between the check and the poison', async () => {
    const world = new FenceWorld();
    await world.run(async () => {
      await world.open();
      await world.plantChain(4);
      await world.remove(3);
      const fencer = world.fencer('b');
      const gate = new Gate(world.world.scheduler, 'poison of b');
      world.world.bucketScript.add({
        process: fencer.process.name,
        op: 'createOnly',
        fate: { kind: 'pass', requestGate: gate },
      });
      const fencing = world.fence(fencer);
      await world.sleep(100);
      // The writer fills slot 3 and goes on; everything up to 8 is absorbed and deleted.
      for (let slot = 3; slot < 10; slot++) await world.plant(slot, [0, 1, 2]);
      await world.trim(8);
      gate.open();
      const { cut } = await fencing;
      expect(cut).toBe(10);
      expect(fencer.process.metrics.snapshot().counters['fence.restarts']).toBe(1);
      await checkCut(world, 10, 10);
    });
  });
});

describe('a fast store', () => {
  it('does not make patience fire early', async () => {
    const instant = { minMillis: 0, spreadMillis: 0 };
    const world = new FenceWorld({
      window: 16,
      bucketProfile: { ...CALM_BUCKETS, request: instant, response: instant },
    });
    await world.run(async () => {
      await world.open();
      await world.plantChain(500);
      expect((await world.fence(world.fencer('b'))).cut).toBe(500);
    });
  });
});

/** Fences and takeovers in exact orders of events, as other systems got them wrong. */
import { describe, expect, it } from 'vitest';
import { encodePoison } from '../../src/format/poison.ts';
import { slotKey } from '../../src/protocol/keys.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { creates, play, Scenario, type Running } from './scenario.ts';

/** A leader of stream `s` with one acknowledged record in all three buckets. */
async function leader(scenario: Scenario, star: string): Promise<Running> {
  const running = await scenario.start(star);
  const stream = await scenario.open(running, 's');
  await scenario.append(running, stream);
  await scenario.until(
    () => scenario.harness.slots.slotsOf(star, 0).get(0)?.copies.size === 3,
    'the last copy',
  );
  return running;
}

describe('an incumbent that was away', () => {
  it('cannot acknowledge anything an hour after it was fenced, settled and swept', async () => {
    const { counters } = await play({}, async (scenario) => {
      const a = await leader(scenario, 'a');
      const stream = await scenario.open(a, 's');
      const request = new Gate(scenario.world.scheduler, 'old request');
      scenario.world.bucketScript.add({
        ...creates('flight'),
        process: a.process.name,
        times: 3,
        fate: { kind: 'pass', requestGate: request },
      });
      const outcome = scenario.append(a, stream, { timeoutMillis: 20_000 });
      await scenario.wait(100);
      a.process.pause();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      await scenario.wait(3_600_000);
      request.open();
      a.process.wake();
      expect((await outcome).kind).not.toBe('appended');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
    });
    expect(counters.counts.lateArrivalAboveCut).toBeGreaterThan(0);
  });

  const orders = [
    ['bucket-0', 'bucket-1', 'bucket-2'],
    ['bucket-0', 'bucket-2', 'bucket-1'],
    ['bucket-1', 'bucket-0', 'bucket-2'],
    ['bucket-1', 'bucket-2', 'bucket-0'],
    ['bucket-2', 'bucket-0', 'bucket-1'],
    ['bucket-2', 'bucket-1', 'bucket-0'],
  ];
  // Arrivals before, between and after the poison of the fence.
  for (const stepMillis of [3, 8, 20, 60]) {
    it.each(orders)(
      `races the fence with requests that arrive ${stepMillis} ms apart in order %s %s %s`,
      async (...order) => {
        await play({}, async (scenario) => {
          const a = await leader(scenario, 'a');
          const stream = await scenario.open(a, 's');
          const { scheduler } = scenario.world;
          const gates = new Map(order.map((name) => [name, new Gate(scheduler, name)]));
          for (const [target, requestGate] of gates) {
            scenario.world.bucketScript.add({
              ...creates('flight'),
              target,
              process: a.process.name,
              fate: { kind: 'pass', requestGate },
            });
          }
          const outcome = scenario.append(a, stream, { timeoutMillis: 4_000 });
          await scenario.wait(50);
          const fenceBegins = scenario.world.bucketScript.add({
            op: 'readHead',
            when: ({ process }) => process.startsWith('b.'),
            fate: { kind: 'pass' },
          });
          a.process.pause();
          const b = await scenario.start('b');
          const taking = scenario.open(b, 's');
          await scenario.until(() => fenceBegins.hits > 0, 'the fence');
          for (const name of order) {
            await scenario.wait(stepMillis);
            gates.get(name)!.open();
          }
          const taken = await taking;
          a.process.wake();
          await outcome;
          expect(await scenario.append(b, taken)).toMatchObject({ kind: 'appended' });
        });
      },
    );
  }
});

describe('a bucket that lost its objects', () => {
  it('votes for nothing: with another one away the fence waits, and nothing is cut', async () => {
    const scenario = new Scenario({});
    const script = async (): Promise<void> => {
      const a = await leader(scenario, 'a');
      const stream = await scenario.open(a, 's');
      // The last record is in the buckets 0 and 1 only.
      scenario.world.bucketScript.add({
        ...creates('flight'),
        process: a.process.name,
        target: 'bucket-2',
        times: 1_000,
        fate: { kind: 'lost-request' },
      });
      expect(await scenario.append(a, stream)).toMatchObject({ start: 1 });
      const b = await scenario.start('b');
      a.process.crash();
      scenario.world.bucket(0).wipe();
      scenario.world.bucket(1).goDown();
      const taking = scenario.open(b, 's');
      await scenario.wait(20_000);
      expect(scenario.harness.meta.epoch('a', 0)?.record.state).toBe('open');
      scenario.world.bucket(1).recover();
      const taken = await taking;
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
      expect(b.process.metrics.snapshot().counters['bucket.identityLost']).toBeGreaterThan(0);
    };
    // No reckoning by a new star: a start refuses the bucket that lost its identity.
    await scenario.harness.until(script(), 'the end of the scenario');
    expect(scenario.harness.counters.counts.repair).toBeGreaterThan(0);
  });
});

describe('a bucket that never answers', () => {
  it('does not keep a fence from what the other two decide', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario, 'a');
      const b = await scenario.start('b');
      a.process.crash();
      scenario.world.bucketScript.add({
        target: 'bucket-1',
        times: 100_000,
        fate: { kind: 'hang' },
      });
      const begun = scenario.world.scheduler.time;
      const taken = await scenario.open(b, 's');
      expect(scenario.world.scheduler.time - begun).toBeLessThan(20_000);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
    });
  });

  it('costs neither acknowledgements nor memory in an hour of appends', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario, 'a');
      const stream = await scenario.open(a, 's');
      scenario.world.bucketScript.add({
        target: 'bucket-1',
        times: 1_000_000,
        fate: { kind: 'hang' },
      });
      const pending: number[] = [];
      for (let round = 0; round < 60; round++) {
        expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended' });
        await scenario.wait(60_000);
        pending.push(scenario.world.scheduler.pending);
      }
      expect(Math.max(...pending.slice(-10))).toBeLessThanOrEqual(
        Math.max(...pending.slice(0, 20)) + 20,
      );
    });
  });
});

describe('buckets that were overdue in one wave', () => {
  // C: no flight is visible anywhere reachable, so an empty bucket is poisoned; that many poisons are
  // fewer than B and cut nothing that is acknowledged (F1).
  it('may cost poison in an empty bucket, never a committed slot', async () => {
    const { slots } = await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      scenario.world.bucketScript.add({
        ...creates('flight'),
        process: a.process.name,
        target: 'bucket-0',
        times: 1_000,
        fate: { kind: 'lost-request' },
      });
      for (let slot = 0; slot < 4; slot++) await scenario.append(a, stream);
      const b = await scenario.start('b');
      a.process.crash();
      for (const target of ['bucket-1', 'bucket-2']) {
        scenario.world.bucketScript.add({
          op: 'readHead',
          process: b.process.name,
          target,
          times: 40,
          fate: { kind: 'pass', responseMillis: 1_010 },
        });
      }
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 4 });
    });
    for (const slot of [0, 1, 2, 3]) {
      expect(slots.slotsOf('a', 0).get(slot)!.poisoned.size).toBeLessThanOrEqual(1);
    }
  });
});

describe('fencers that meet', () => {
  it('derive one cut while one of them repairs', async () => {
    const { counters } = await play({}, async (scenario) => {
      const a = await leader(scenario, 'a');
      const stream = await scenario.open(a, 's');
      for (const target of ['bucket-1', 'bucket-2']) {
        scenario.world.bucketScript.add({
          ...creates('flight'),
          target,
          times: 1_000,
          fate: { kind: 'lost-request' },
        });
      }
      void scenario.append(a, stream, { timeoutMillis: 2_000 });
      const b = await scenario.start('b');
      const c = await scenario.start('c');
      await scenario.wait(300);
      a.process.crash();
      scenario.world.bucketScript.clear();
      const restarted = scenario.start('a');
      const results = await Promise.all([scenario.open(b, 's'), restarted]);
      expect(await scenario.append(b, results[0])).toMatchObject({ start: 2 });
      c.process.crash();
    });
    expect(counters.counts.repair).toBeGreaterThan(0);
  });

  it('find no slot at all, or a checkpoint above where they would begin', async () => {
    const { meta } = await play({ settings: { absorbMillis: 10 } }, async (scenario) => {
      const empty = await scenario.start('a');
      empty.process.crash();
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.appendMany(a, stream, 40);
      await scenario.wait(1_000);
      a.process.crash();
      const again = await scenario.start('a');
      await again.engine.recovered({ timeoutMillis: 60_000 });
      const taken = await scenario.open(again, 's');
      expect(await scenario.append(again, taken)).toMatchObject({ start: 40 });
    });
    expect(meta.epoch('a', 0)?.record.cut).toBe(0);
  });

  it('finish a walk while a third of all reads is throttled', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario, 'a');
      const stream = await scenario.open(a, 's');
      await scenario.appendMany(a, stream, 60);
      const b = await scenario.start('b');
      a.process.crash();
      const prng = scenario.world.scheduler.prng('throttle');
      scenario.world.bucketScript.add({
        op: ['readHead', 'readRange'],
        times: 100_000,
        fate: () => (prng.chance(0.3) ? { kind: 'error', status: 503 } : undefined),
      });
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 61 });
    });
  });
});

describe('a fence of a full window', () => {
  it.each([1, 4, 16])(
    'places every flight once, below the cut or in the next epoch: window %i',
    async (window) => {
      const { counters } = await play({ window }, async (scenario) => {
        const a = await leader(scenario, 'a');
        const stream = await scenario.open(a, 's');
        // Somebody takes the star for dead and fences it under full load.
        scenario.world.bucketScript.add({
          ...creates('flight'),
          target: 'bucket-2',
          times: 1_000,
          fate: { kind: 'pass', requestMillis: 400 },
        });
        const load = Promise.all(
          Array.from({ length: 30 }, async (_, index) => {
            await scenario.wait(index * 3);
            return scenario.append(a, stream);
          }),
        );
        const b = await scenario.start('b');
        const fencing = b.engine;
        await scenario.wait(20);
        await poisonAhead(scenario, window);
        const outcomes = await load;
        expect(outcomes.filter(({ kind }) => kind === 'appended')).toHaveLength(30);
        await fencing.close();
      });
      expect(counters.counts.roll).toBeGreaterThan(0);
    },
  );
});

/** Poison in two buckets of the first slot that nobody has written yet. */
async function poisonAhead({ harness, world }: Scenario, window: number): Promise<void> {
  const slots = harness.slots.slotsOf('a', 0);
  const slot = Math.max(...slots.keys()) + Math.min(2, window);
  const { nonce, incarnation } = harness.meta.epoch('a', 0)!.record;
  const fencedBy = { star: 'b', incarnation, epoch: 0 };
  const bytes = encodePoison({ star: 'a', epoch: 0, slot, nonce, fencedBy, atMillis: 1 });
  for (const index of [0, 1]) {
    const bucket = world.bucket(index);
    const key = slotKey('a', 0, slot);
    const outcome = await bucket.store.createOnly(key, bytes);
    const call = { op: 'createOnly' as const, key, bytes, process: 'b.1', target: bucket.name };
    for (const observer of bucket.observers) {
      observer.bucketApplied?.({ ...call, serial: 0 }, outcome);
    }
  }
}

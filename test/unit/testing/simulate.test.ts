/** What users of asterlog/testing are promised. */
import { describe, expect, test } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import {
  simulate,
  ROUGH_BUCKETS,
  ROUGH_METASTORE,
  SimulationFailure,
} from '../../../src/testing/index.ts';
import type { BucketFate, Simulation } from '../../../src/testing/index.ts';

const settings = { copyQuorum: 2, sessionTimeoutMillis: 2_000 };
const flights = { op: 'createOnly', key: '/one/' } as const;

async function appended(sim: Simulation): Promise<number> {
  const { engine } = await sim.start({ ...settings, star: 'one' });
  const stream = await engine.open('orders');
  const { end } = await stream.append([{ body: 'kept' }]);
  return end.seqNum;
}

/** What a star that saw nothing of it reads. */
async function readByAnother(sim: Simulation): Promise<string[]> {
  const { engine } = await sim.start({ ...settings, star: 'reader' });
  const stream = await engine.open('orders', { whileHeld: 'wait', timeoutMillis: 60_000 });
  const bodies: string[] = [];
  for await (const { body } of stream.read()) bodies.push(Buffer.from(body).toString());
  return bodies;
}

describe('a call of a bucket', () => {
  const fates: readonly [string, BucketFate][] = [
    ['hangs', { kind: 'hang' }],
    ['hangs, though it was stored', { kind: 'hang', stored: true }],
    ['answers 503', { kind: 'error', status: 503 }],
    ['answers 409', { kind: 'error', status: 409 }],
    ['is lost', { kind: 'lost-request' }],
    ['loses its answer', { kind: 'lost-response' }],
    ['arrives a minute late', { kind: 'late', afterMillis: 60_000 }],
    ['is refused', { kind: 'refused' }],
  ];

  test.each(fates)(
    '%s: in one bucket it costs nothing, and nothing is lost',
    async (_name, fate) => {
      await simulate({}, async (sim) => {
        const rule = sim.bucketFaults.add({ ...flights, target: 'bucket-0', times: 9, fate });
        expect(await appended(sim)).toBe(1);
        expect(rule.hits).toBeGreaterThan(0);
        for (const process of sim.world.living) process.crash();
        await sim.sleep(120_000);
        expect(await readByAnother(sim)).toEqual(['kept']);
      });
    },
  );

  test('hangs in every bucket: the caller is told that the outcome is open, later all goes on', async () => {
    await simulate({}, async (sim) => {
      const { engine } = await sim.start({ ...settings, star: 'one' });
      const stream = await engine.open('orders');
      for (const bucket of sim.buckets) bucket.goDown();
      const before = sim.clock.monotonic();
      const error: unknown = await stream
        .append([{ body: 'perhaps' }], { timeoutMillis: 10_000 })
        .catch((cause: unknown) => cause);
      expect(EngineError.is(error) && error.sideEffects).toBe('possible');
      expect(sim.clock.monotonic() - before).toBeGreaterThanOrEqual(10_000);
      sim.heal();
      await stream.append([{ body: 'after' }], { timeoutMillis: 120_000 });
      expect(await stream.checkTail()).toMatchObject({ seqNum: 2 });
    });
  });
});

describe('what befalls the stores', () => {
  test('a bucket that is wiped costs nothing that two buckets hold', async () => {
    await simulate({}, async (sim) => {
      const two = await sim.start({ ...settings, star: 'two' });
      expect(await appended(sim)).toBe(1);
      sim.buckets[1]!.wipe();
      for (const process of sim.world.living) if (process !== two.process) process.crash();
      const stream = await two.engine.open('orders', { whileHeld: 'wait', timeoutMillis: 60_000 });
      expect(await stream.checkTail()).toMatchObject({ seqNum: 1 });
      // Who starts now is told: a wiped bucket is not quietly taken for an empty one.
      await expect(sim.start({ star: 'three' })).rejects.toMatchObject({ code: 'BUCKET_IDENTITY' });
    });
  });

  test('buckets that refuse every call for a minute keep a takeover waiting, and nothing is lost', async () => {
    await simulate({}, async (sim) => {
      const two = await sim.start({ ...settings, star: 'two' });
      expect(await appended(sim)).toBe(1);
      const rules = ['bucket-1', 'bucket-2'].map((target) =>
        sim.bucketFaults.add({ target, times: Infinity, fate: { kind: 'refused' } }),
      );
      for (const process of sim.world.living) if (process !== two.process) process.crash();
      const opening = two.engine.open('orders', { whileHeld: 'wait', timeoutMillis: 300_000 });
      await sim.sleep(60_000);
      for (const rule of rules) {
        expect(rule.hits).toBeGreaterThan(3);
        rule.remove();
      }
      expect(await (await opening).checkTail()).toMatchObject({ seqNum: 1 });
      two.process.crash();
      expect(await readByAnother(sim)).toEqual(['kept']);
    });
  });

  test('a metastore with old reads, late writes and lost answers', async () => {
    await simulate({ seed: 3 }, async (sim) => {
      const stale = sim.metaFaults.add({
        op: ['get', 'lastChild', 'floor'],
        times: 200,
        fate: { kind: 'pass', staleMillis: 5_000 },
      });
      const late = sim.metaFaults.add({
        op: 'put',
        key: 'writer',
        fate: { kind: 'late', afterMillis: 30_000 },
      });
      expect(await appended(sim)).toBe(1);
      expect([stale.hits > 0, late.hits]).toEqual([true, 1]);
      for (const process of sim.world.living) process.crash();
      expect(await readByAnother(sim)).toEqual(['kept']);
    });
  });

  test('a paused engine is taken over, and acknowledges nothing when it wakes', async () => {
    await simulate({}, async (sim) => {
      const one = await sim.start({ ...settings, star: 'one' });
      const stream = await one.engine.open('orders');
      await stream.append([{ body: 'kept' }]);
      one.process.pause();
      await sim.sleep(60_000);
      expect(await readByAnother(sim)).toEqual(['kept']);
      one.process.wake();
      const error: unknown = await stream
        .append([{ body: 'late' }])
        .catch((cause: unknown) => cause);
      expect(EngineError.is(error) && error.code).toBe('FENCED');
    });
  });

  test('engines forward to each other where asked to', async () => {
    await simulate({ forwarding: true }, async (sim) => {
      const one = await sim.start({ ...settings, star: 'one' });
      await one.engine.open('orders');
      const two = await sim.start({ ...settings, star: 'two' });
      const { start } = await (await two.engine.open('orders')).append([{ body: 'over there' }]);
      expect(start.seqNum).toBe(0);
    });
  });
});

describe('a simulation', () => {
  async function hashOf(seed: number): Promise<string> {
    return simulate({ seed }, async (sim) => {
      const { engine } = await sim.start({ ...settings, star: 'one' });
      sim.setProfiles(ROUGH_BUCKETS, ROUGH_METASTORE);
      const stream = await engine.open('orders', { timeoutMillis: 300_000 });
      for (let i = 0; i < 20; i++) {
        await stream.append([{ body: `${i}` }], { timeoutMillis: 60_000 }).catch(() => undefined);
      }
      return sim.world.scheduler.history.hash;
    });
  }

  test('is the same for the same seed, and another for another', async () => {
    const hash = await hashOf(5);
    expect(await hashOf(5)).toBe(hash);
    expect(await hashOf(6)).not.toBe(hash);
  });

  test('passes an hour of outage in no time', async () => {
    const startedAt = performance.now();
    await simulate({}, (sim) => sim.sleep(3_600_000));
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  test('rejects with what the test rejects with, and resolves with what it resolves with', async () => {
    const own = new Error('mine');
    await expect(simulate({}, () => Promise.reject(own))).rejects.toBe(own);
    await expect(simulate({}, () => Promise.resolve(7))).resolves.toBe(7);
  });

  test('that waits for what never happens says so, with its seed', async () => {
    const stuck = simulate({ seed: 9 }, () => new Promise(() => undefined));
    const error: unknown = await stuck.catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(SimulationFailure);
    expect(error).toMatchObject({ rule: 'idle', seed: 9, replay: 'simulate({ seed: 9 }, ...)' });
    expect((error as Error).message).toContain('real timers');
  });

  test('that goes on for ever ends at its limit', async () => {
    const endless = simulate({ maxMillis: 60_000 }, async (sim) => {
      for (;;) await sim.sleep(1_000);
    });
    await expect(endless).rejects.toMatchObject({ rule: 'time-limit' });
  });

  test('refuses settings as an engine does', async () => {
    const started = simulate({ buckets: 2 }, (sim) => sim.start({ copyQuorum: 3 }));
    await expect(started).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });
});

describe('what a test hands in wrongly is refused', () => {
  const invalid = { code: 'INVALID_OPTION' };

  test.each([Number.NaN, 1.5, Number.POSITIVE_INFINITY, '7'])('the seed %s', async (seed) => {
    const run = simulate({ seed: seed as number }, () => Promise.resolve());
    await expect(run).rejects.toMatchObject(invalid);
  });

  test('a process where its name is meant', async () => {
    await simulate({}, async (sim) => {
      const { process } = await sim.start();
      const name = process as unknown as string;
      const [bucket] = sim.buckets;
      for (const act of [
        () => bucket?.cutLink(name),
        () => bucket?.mendLink(name),
        () => {
          sim.metastore.isolate(name);
        },
        () => {
          sim.metastore.rejoin(name);
        },
      ]) {
        expect(act).toThrow(expect.objectContaining(invalid) as Error);
      }
    });
  });

  test('a fate that no call can have', async () => {
    await simulate({}, async (sim) => {
      const fate = { kind: 'lost' } as unknown as { kind: 'hang' };
      const refusal = expect.objectContaining(invalid) as Error;
      expect(() => sim.bucketFaults.add({ fate })).toThrow(refusal);
      // A fate of the other store.
      const never = { kind: 'never' } as unknown as { kind: 'hang' };
      expect(() => sim.bucketFaults.add({ fate: never })).toThrow(refusal);
      expect(() => sim.metaFaults.add({ fate: { kind: 'never' } })).not.toThrow();
      await Promise.resolve();
    });
  });
});

/** Breaks that storms of seeds found in the engine, each in its shortest form. */
import { describe, expect, it } from 'vitest';
import { Gate } from '../../src/testing/fault-script.ts';
import { ArenaPool } from '../../actors/arena-pool.ts';
import { Flight } from '../../actors/flight.ts';
import { othersBlind } from './lies.ts';
import type { Stream } from '../../src/engine/api.ts';
import { play, type Running, type Scenario } from './scenario.ts';

const OLD = { kind: 'pass', staleMillis: 3_600_000 } as const;

describe('an old read of the metastore', () => {
  it('that misses the record of a stream is not taken for damage', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const b = await scenario.start('b');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      await stream.close();
      const old = scenario.world.metaScript.add({
        op: 'get',
        process: b.process.name,
        key: /^streams\/[0-9a-f]+$/,
        fate: OLD,
      });
      const taken = await scenario.open(b, 's');
      expect(old.hits).toBe(1);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
    });
  });

  it('after a claim of unknown outcome does not give a tail that is too low', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream, { records: 5 });
      await stream.close();
      const b = await scenario.start('b');
      scenario.world.metaScript.add({
        op: 'put',
        key: '/writer',
        process: b.process.name,
        fate: { kind: 'lost-response' },
      });
      scenario.world.metaScript.add({
        op: 'lastChild',
        process: b.process.name,
        skip: 1,
        times: 5,
        fate: OLD,
      });
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 5 });
    });
  });

  it('that misses the mark of a release does not end the epoch of a living star', async () => {
    const { meta } = await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      const other = await scenario.open(a, 'other');
      await scenario.append(a, stream);
      await stream.close();
      const b = await scenario.start('b');
      const old = scenario.world.metaScript.add({
        op: 'lastChild',
        process: b.process.name,
        fate: OLD,
      });
      const taken = await scenario.open(b, 's');
      expect(old.hits).toBe(1);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      expect(await scenario.append(a, other)).toMatchObject({ kind: 'appended' });
      expect(scenario.harness.meta.epoch('a', 0)?.record.state).toBe('open');
    });
    expect(meta.epoch('a', 1)).toBeUndefined();
  });
});

describe('a mint whose answer is lost', () => {
  it('burns its number when others fenced the epoch before the star knew of it (M2)', async () => {
    const { meta } = await play({ mutate: othersBlind }, async (scenario) => {
      const b = await scenario.start('b', { collectMillis: 100 });
      scenario.world.metaScript.add({
        op: 'put',
        key: 'chains/a/0000000000000000',
        fate: { kind: 'lost-response' },
      });
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      expect(b.engine.metrics().counters['collector.settled']).toBe(1);
      const stream = await scenario.open(a, 's');
      expect(await scenario.append(a, stream)).toMatchObject({ start: 0 });
    });
    expect(meta.epoch('a', 0)?.record.cut).toBe(0);
    expect(meta.epoch('a', 1)).toBeDefined();
  });
});

describe('a stream that a successor deletes while its leader sleeps', () => {
  /** Star b takes the stream from the sleeping a and deletes it, rows and all. */
  async function deletedUnder(
    scenario: Scenario,
  ): Promise<{ readonly a: Running; readonly stream: Stream; readonly other: Stream }> {
    const settings = { sessionTimeoutMillis: 600_000, absorbMillis: 20 };
    const a = await scenario.start('a', settings);
    const stream = await scenario.open(a, 's');
    const other = await scenario.open(a, 'other');
    await scenario.append(a, stream, { records: 3 });
    await scenario.append(a, other);
    await scenario.wait(200);
    a.process.pause();
    const b = await scenario.start('b');
    await scenario.open(b, 's');
    await scenario.delete(b, 's', stream.id);
    a.process.wake();
    return { a, stream, other };
  }

  it('is lost to its callers, and the others go on', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const { a, stream, other } = await deletedUnder(scenario);
      expect(await scenario.append(a, other)).toMatchObject({ kind: 'appended', start: 1 });
      const outcome = await scenario.append(a, stream);
      expect(outcome).toMatchObject({ kind: 'failed', code: 'FENCED' });
    });
  });

  it('is given up without a word of rows that are missing (N)', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const { a, stream } = await deletedUnder(scenario);
      await expect(stream.close({ timeoutMillis: 20_000 })).resolves.toBeUndefined();
      expect((await a.engine.status()).departing).toEqual([]);
    });
  });
});

describe('an epoch that others fenced', () => {
  it('halts its writer as soon as the own collector finds it so (A3)', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000, collectMillis: 1_000 });
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.pause();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      a.process.wake();
      await scenario.until(
        () => scenario.harness.meta.epoch('a', 1) !== undefined,
        'the roll of a star that nobody asked for anything',
      );
    });
  });
});

describe('an old read of the sets', () => {
  it('makes no second set around the same buckets', async () => {
    await play({}, async (scenario) => {
      await scenario.start('a');
      const old = scenario.world.metaScript.add({ op: 'children', key: 'sets/', fate: OLD });
      await scenario.start('b');
      expect(old.hits).toBe(1);
      expect(scenario.world.metastore.journal.children('sets/')).toHaveLength(1);
    });
  });
});

describe('a leader that slept while a successor led', () => {
  it('loses the stream when its star rolls, and says so to its callers', async () => {
    const { counters } = await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      const stream = await scenario.open(a, 's');
      const other = await scenario.open(a, 'other');
      await scenario.append(a, stream);
      await scenario.append(a, other);
      a.process.pause();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken, { records: 3 })).toMatchObject({ start: 1 });
      await taken.close();
      a.process.wake();
      expect(await scenario.append(a, other)).toMatchObject({ kind: 'appended', start: 1 });
      const tail = await scenario.checkTail(a, stream);
      expect(tail).toMatchObject({ kind: 'failed', code: 'FENCED' });
    });
    expect(counters.counts.roll).toBe(1);
  });
});

describe('a confirmation that meets poison', () => {
  it('halts the writer at once, though a slow bucket has not answered', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.pause();
      const b = await scenario.start('b');
      await scenario.open(b, 's');
      const slow = new Gate(scenario.world.scheduler, 'slow');
      for (const target of ['bucket-1', 'bucket-2']) {
        scenario.world.bucketScript.add({
          op: 'readHead',
          process: a.process.name,
          target,
          fate: { kind: 'pass', responseGate: slow },
        });
      }
      a.process.wake();
      const tail = scenario.checkTail(a, stream, 5_000);
      await scenario.wait(100);
      // The checker of A3 watches that this batch gets no slot of the ended epoch.
      const outcome = scenario.append(a, stream, { timeoutMillis: 5_000 });
      await scenario.wait(100);
      slow.open();
      expect(await tail).not.toMatchObject({ kind: 'tail' });
      expect(await outcome).not.toMatchObject({ kind: 'appended' });
    });
  });
});

describe('payload memory', () => {
  it('is freed once when a waiter evicts a flight while it enters the cache', () => {
    const pool = new ArenaPool(4_096, 4_096);
    const flight = new Flight(pool, pool.acquire(4_096)!);
    const taken: unknown[] = [];
    pool.onRoom = () => {
      const arena = pool.acquire(4_096);
      if (arena !== undefined) taken.push(arena);
    };
    flight.letGo();
    expect(taken).toHaveLength(1);
    expect(pool.acquire(4_096)).toBeUndefined();
  });

  it('stays within its limit while no bucket answers for ten minutes, and serves again after', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      for (const bucket of scenario.world.buckets) bucket.goDown();
      const codes = new Set<string>();
      let peak = 0;
      const load = Promise.all(
        Array.from({ length: 60 }, async (_, client) => {
          for (let i = 0; i < 6; i++) {
            await scenario.wait(1_000 * client);
            const outcome = await scenario.append(a, stream, {
              records: 40,
              timeoutMillis: 20_000,
            });
            codes.add('code' in outcome ? outcome.code : outcome.kind);
            const { gauges } = a.process.metrics.snapshot();
            peak = Math.max(peak, gauges['pool.usedBytes'] ?? 0);
          }
        }),
      );
      await scenario.wait(600_000);
      await load;
      expect(peak).toBeLessThanOrEqual(4 * 1024 * 1024);
      expect([...codes].sort()).toEqual(expect.arrayContaining(['DEADLINE_EXCEEDED']));
      for (const bucket of scenario.world.buckets) bucket.recover();
      const again = await scenario.open(a, 's');
      expect(await scenario.append(a, again, { timeoutMillis: 120_000 })).toMatchObject({
        kind: 'appended',
      });
    });
  });
});

describe('wall clocks', () => {
  it.each([-3_600_000, 3_600_000])('may step by %i ms: nothing rests on them', async (step) => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.layers.clock.stepWall(step);
      expect(await scenario.append(a, stream)).toMatchObject({ start: 1 });
      const b = await scenario.start('b');
      a.process.crash();
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
    });
  });
});

describe('a lost answer of the metastore', () => {
  it.each(['chains/', '/writer', '/refs/', 'stars/', 'names/'])(
    'is found out by reading, whatever was written: %s',
    async (key) => {
      await play({ settings: { absorbMillis: 20 } }, async (scenario) => {
        scenario.world.metaScript.add({
          op: 'put',
          key,
          times: 3,
          fate: { kind: 'lost-response' },
        });
        const a = await scenario.start('a');
        const stream = await scenario.open(a, 's');
        await scenario.append(a, stream);
        await scenario.wait(20_000);
        await stream.close();
        const b = await scenario.start('b');
        const taken = await scenario.open(b, 's');
        expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      });
    },
  );
});

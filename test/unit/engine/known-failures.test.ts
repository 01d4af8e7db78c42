/** Failures of comparable systems that no other test plays; all of them: docs/known-failures.md. */
import { describe, expect, test } from 'vitest';
import type { ReadRecord } from '../../../src/engine/api.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import type { BucketStore } from '../../../src/ports/bucket-store.ts';
import { EngineWorld, errorOf } from '../../support/engine-world.ts';

/** Reads on until the read ends with an error. */
async function endOf(reader: AsyncIterator<ReadRecord>): Promise<EngineError> {
  for (;;) {
    try {
      if ((await reader.next()).done === true) break;
    } catch (error) {
      if (EngineError.is(error)) return error;
      throw error;
    }
  }
  throw new Error('the read ended without an error');
}

type Around = (call: string, keys: readonly string[], run: () => unknown) => unknown;

/** The bucket, something put around every call of it. */
function watched(bucket: BucketStore, around: Around): BucketStore {
  return new Proxy(bucket, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => {
        const keys = [args[0]].flat().filter((key) => typeof key === 'string');
        const run = (): unknown => (member as (...a: unknown[]) => unknown).apply(target, args);
        return around(String(name), keys, run);
      };
    },
  });
}

describe('a reader that follows the tail', () => {
  test('and was overtaken by a trim while its epoch was sealed is told so (restate#5049)', async () => {
    const engine = await new EngineWorld(3).start();
    const stream = await engine.open('orders');
    await stream.append([{ body: 'first' }]);
    const reader = stream
      .read({ from: 1, live: true, timeoutMillis: 20_000 })
      [Symbol.asyncIterator]();
    const parked = reader.next();
    await engine.roll();
    for (let i = 0; i < 6; i++) await stream.append([{ body: `record ${i}` }]);
    expect((await parked).value).toMatchObject({ seqNum: 1 });
    await stream.trim(5);
    const error = await endOf(reader);
    expect(error).toMatchObject({ code: 'TRIMMED', details: { first: 5 } });
    expect(Number(error.details['from'])).toBeLessThan(5);
  });

  test('meets a flight that somebody deleted: data loss with its records, no wait (litestream#1515)', async () => {
    const world = new EngineWorld(3);
    const first = await world.open({ copyQuorum: 2 });
    const stream = await first.open('orders');
    for (let i = 0; i < 3; i++) await stream.append([{ body: `record ${i}` }, { body: 'more' }]);
    await first.close();
    for (const bucket of world.memory) {
      const keys = [...bucket.objects().keys()].filter((key) => key.includes('/main/')).sort();
      await bucket.delete(keys[1]!);
    }
    const engine = await world.start({ copyQuorum: 2, star: 'other' });
    const again = await engine.open('orders');
    const read = again.read({ from: 0, live: true, timeoutMillis: 20_000 });
    const error = await endOf(read[Symbol.asyncIterator]());
    expect(error).toMatchObject({ code: 'DATA_LOSS', details: { start: 2, end: 4 } });
  });
});

describe('what an engine asks of its stores', () => {
  test('a limit of one update a key and second meets nothing: keys are written once (nextcloud#12537)', async () => {
    const world = new EngineWorld(3);
    const writes = new Map<string, number>();
    world.wrap = (bucket) =>
      watched(bucket, (call, keys, run) => {
        for (const key of keys) {
          if (call !== 'createOnly' && !call.startsWith('delete')) continue;
          const name = `${call} ${bucket.name} ${key}`;
          writes.set(name, (writes.get(name) ?? 0) + 1);
        }
        return run();
      });
    const engine = await world.start({ absorbBytes: 1, absorbMillis: 1 });
    const stream = await engine.open('orders');
    for (let i = 0; i < 40; i++) await stream.append([{ body: `record ${i}` }]);
    await engine.roll();
    await engine.close();
    const slots = [...writes].filter(([name]) => name.includes('/main/'));
    expect(slots.length).toBeGreaterThanOrEqual(40 * 3);
    expect(slots.filter(([, count]) => count > 1)).toEqual([]);
  });

  test('no list, whose order stores do not agree on, in the life of a stream (delta-kernel-rs#1753)', async () => {
    const world = new EngineWorld(3);
    const calls = new Map<string, number>();
    world.wrap = (bucket) =>
      watched(bucket, (call, _keys, run) => {
        calls.set(call, (calls.get(call) ?? 0) + 1);
        return run();
      });
    const first = await world.open({ copyQuorum: 2, absorbBytes: 1, absorbMillis: 1 });
    const stream = await first.open('orders');
    for (let i = 0; i < 5; i++) await stream.append([{ body: `record ${i}` }]);
    await first.roll();
    await stream.append([{ body: 'after the roll' }]);
    await first.kill();
    const engine = await world.start({ collectMillis: 100 });
    const again = await engine.open('orders');
    let records = 0;
    for await (const _ of again.read({ from: 0 })) records++;
    expect(records).toBe(6);
    await again.trim(6);
    await again.close();
    await engine.deleteStream('orders');
    await engine.recovered();
    expect(calls.get('createOnly')).toBeGreaterThan(6 * 2);
    expect(calls.get('list')).toBeUndefined();
  });

  test('thousands of appends and reads at once are bounded and all answered (aws-sdk-js-v3#7027)', async () => {
    const world = new EngineWorld(3);
    let [underWay, most] = [0, 0];
    world.wrap = (bucket) =>
      watched(bucket, async (call, _keys, run) => {
        if (call !== 'createOnly') return run();
        most = Math.max(most, ++underWay);
        await new Promise(setImmediate);
        const outcome = await run();
        underWay--;
        return outcome;
      });
    const settings = { window: 8, flightBytes: 4_096, poolBytes: 4 << 20 };
    const engine = await world.start(settings);
    const stream = await engine.open('orders');
    const body = 'x'.repeat(400);
    const wait = { timeoutMillis: 25_000 };
    const acks = Array.from({ length: 5_000 }, () => stream.append([{ body }], wait));
    const starts = (await Promise.all(acks)).map(({ start }) => start.seqNum);
    expect(new Set(starts).size).toBe(5_000);
    const reads = Array.from({ length: 5_000 }, async (_, from) => {
      for await (const record of stream.read({ from, limit: 1, ...wait })) return record.seqNum;
      return undefined;
    });
    expect(await Promise.all(reads)).toEqual(Array.from({ length: 5_000 }, (_, at) => at));
    expect(most).toBeGreaterThan(3);
    // A window, and third copies that lag behind acknowledged slots.
    expect(most).toBeLessThanOrEqual(2 * 8 * 3);
    expect(engine.metrics().gauges['pool.peakBytes']).toBeLessThanOrEqual(4 << 20);
  });
});

test('two openers that lose the race for a stream learn who leads it (slatedb#271)', async () => {
  const world = new EngineWorld(3);
  const engines = await Promise.all(
    ['one', 'two', 'three'].map((star) => world.start({ star, copyQuorum: 2 })),
  );
  const opened = await Promise.allSettled(engines.map((engine) => engine.open('orders')));
  const leaders = opened.filter(({ status }) => status === 'fulfilled');
  expect(leaders).toHaveLength(1);
  const holder = engines[opened.findIndex(({ status }) => status === 'fulfilled')]!.star;
  for (const [index, { status }] of opened.entries()) {
    if (status === 'fulfilled') continue;
    const error = await errorOf(engines[index]!.open('orders'));
    expect(error).toMatchObject({ code: 'STREAM_HELD', details: { star: holder } });
  }
});

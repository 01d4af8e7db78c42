import { describe, expect, it } from 'vitest';
import { MemoryBucketStore } from '../../../src/adapters/memory/bucket-store.ts';
import type { BucketStore } from '../../../src/ports/bucket-store.ts';
import { CALM_BUCKETS, ROUGH_BUCKETS, type BucketFate } from '../../../src/testing/bucket-fates.ts';
import { BucketServer } from '../../../src/testing/bucket-server.ts';
import { Gate } from '../../../src/testing/fault-script.ts';
import { FaultyBucketStore } from '../../../src/testing/faulty-bucket-store.ts';
import { Scheduler, type EventOwner } from '../../../src/testing/scheduler.ts';

const BYTES = new Uint8Array([1, 2, 3]);
const FOREVER = 10_000_000;

function setUp(seed = 1): {
  scheduler: Scheduler;
  server: BucketServer;
  bucket: FaultyBucketStore;
  process: { name: string; state: EventOwner['state'] };
  holds: (key: string) => boolean;
} {
  const scheduler = new Scheduler({ seed });
  let store = new MemoryBucketStore();
  const server = new BucketServer({
    name: 'b',
    scheduler,
    create: () => (store = new MemoryBucketStore({ name: 'b' })),
  });
  const process = { name: 'p', state: 'running' as EventOwner['state'] };
  const bucket = new FaultyBucketStore(server, { scheduler, owner: process });
  const holds = (key: string): boolean => store.objects().has(key);
  return { scheduler, server, bucket, process, holds };
}

/** Runs until the promise settles; undefined when it never does. */
async function result<T>(scheduler: Scheduler, promise: Promise<T>): Promise<T | undefined> {
  let outcome: { value: T } | undefined;
  void promise.then((value) => (outcome = { value }));
  await scheduler.run(() => outcome !== undefined || scheduler.time > FOREVER);
  return outcome?.value;
}

async function createUnder(
  fate: BucketFate,
): Promise<{ kind: string | undefined; stored: boolean; storedLater: boolean }> {
  const { scheduler, bucket, holds } = setUp();
  bucket.script.add({ op: 'createOnly', fate });
  const outcome = await result(scheduler, bucket.createOnly('k', BYTES));
  const stored = holds('k');
  await scheduler.run();
  return { kind: outcome?.kind, stored, storedLater: holds('k') };
}

describe('FaultyBucketStore', () => {
  it('passes calls on, each after a request and an answer', async () => {
    const { scheduler, bucket } = setUp();
    const outcome = await result(scheduler, bucket.createOnly('k', BYTES));
    expect(outcome).toEqual({ kind: 'created' });
    expect(scheduler.time).toBeGreaterThan(2);
    expect(await result(scheduler, bucket.createOnly('k', BYTES))).toMatchObject({
      kind: 'exists',
      head: BYTES,
      sizeBytes: 3,
    });
    expect(await result(scheduler, bucket.readHead('k', 2))).toMatchObject({
      kind: 'found',
      bytes: BYTES.subarray(0, 2),
    });
    expect(await result(scheduler, bucket.deleteMany(['k', 'l']))).toEqual([
      { kind: 'deleted' },
      { kind: 'absent' },
    ]);
    expect(await result(scheduler, bucket.readRange('k', 0, 1))).toEqual({ kind: 'absent' });
    expect(await result(scheduler, bucket.probe())).toEqual({ kind: 'accepted' });
  });

  it.each<[BucketFate, string, boolean, boolean]>([
    [{ kind: 'lost-request' }, 'unknown', false, false],
    [{ kind: 'lost-response' }, 'unknown', true, true],
    [{ kind: 'late', afterMillis: 3_600_000 }, 'unknown', false, true],
    [{ kind: 'hang', stored: true }, 'unknown', true, true],
    [{ kind: 'hang' }, 'unknown', false, false],
    [{ kind: 'error', status: 409 }, 'unknown', false, false],
    [{ kind: 'error', status: 500, stored: true }, 'unknown', true, true],
    [{ kind: 'refused' }, 'refused', false, false],
  ])('%j answers %s, stored then: %s, in the end: %s', async (fate, kind, stored, storedLater) => {
    expect(await createUnder(fate)).toEqual({ kind, stored, storedLater });
  });

  it('refuses reads, lists and deletions without a word about the object', async () => {
    const { scheduler, bucket } = setUp();
    bucket.script.add({ times: 4, fate: { kind: 'refused' } });
    const refused = { kind: 'unknown', cause: { code: 'BUCKET_REFUSED' } };
    expect(await result(scheduler, bucket.readHead('k', 2))).toMatchObject(refused);
    expect(await result(scheduler, bucket.list(''))).toMatchObject(refused);
    expect(await result(scheduler, bucket.delete('k'))).toMatchObject(refused);
    expect(await result(scheduler, bucket.deleteMany(['k', 'l']))).toMatchObject([
      refused,
      refused,
    ]);
  });

  it('gives up a call that hangs after the time-out of an adapter', async () => {
    const { scheduler, bucket } = setUp();
    bucket.script.add({ op: 'readHead', fate: { kind: 'hang' } });
    await result(scheduler, bucket.readHead('k', 1));
    expect(scheduler.time).toBe(CALM_BUCKETS.timeoutMillis);
  });

  it('answers an abort at once, while the request may still arrive with the bytes of the call', async () => {
    const { scheduler, bucket, server } = setUp();
    bucket.script.add({ fate: { kind: 'late', afterMillis: 0 } });
    const controller = new AbortController();
    const bytes = BYTES.slice();
    const outcome = bucket.createOnly('k', bytes, { signal: controller.signal });
    scheduler.schedule(1, 'abort', () => {
      controller.abort();
    });
    expect(await result(scheduler, outcome)).toMatchObject({
      kind: 'unknown',
      cause: { code: 'ABORTED' },
    });
    expect(scheduler.time).toBe(1);
    bytes.fill(9);
    await scheduler.run();
    expect(await server.store.readHead('k', 3)).toMatchObject({ bytes: BYTES });
  });

  it('catches memory that is used again before its call has ended', async () => {
    const { scheduler, bucket } = setUp();
    const bytes = BYTES.slice();
    void bucket.createOnly('k', bytes);
    bytes.fill(9);
    await expect(scheduler.run()).rejects.toThrow('memory: p b createOnly k');
  });

  it('reaches nobody while the bucket is down or the link is cut', async () => {
    const { scheduler, server, bucket, holds } = setUp();
    server.goDown();
    expect(await result(scheduler, bucket.createOnly('a', BYTES))).toMatchObject({
      kind: 'unknown',
    });
    server.recover();
    server.cutLink('p');
    expect(await result(scheduler, bucket.createOnly('b', BYTES))).toMatchObject({
      kind: 'unknown',
    });
    const other = new FaultyBucketStore(server, { scheduler });
    expect(await result(scheduler, other.createOnly('c', BYTES))).toEqual({ kind: 'created' });
    expect([holds('a'), holds('b'), holds('c')]).toEqual([false, false, true]);
  });

  it('may deliver what a process sent before it died, and never answers it', async () => {
    const arrived = new Set<boolean>();
    for (let seed = 0; seed < 20; seed++) {
      const { scheduler, bucket, process, holds } = setUp(seed);
      let answered = false;
      void bucket.createOnly('k', BYTES).then(() => (answered = true));
      process.state = 'dead';
      await scheduler.run();
      expect(answered).toBe(false);
      arrived.add(holds('k'));
    }
    expect(arrived.size).toBe(2);
  });

  it('lets a test put events in one exact order', async () => {
    const { scheduler, bucket, holds } = setUp();
    const request = new Gate(scheduler, 'request');
    const response = new Gate(scheduler, 'response');
    bucket.script.add({
      key: /^k$/,
      skip: 1,
      fate: { kind: 'pass', requestGate: request, responseGate: response },
    });
    await result(scheduler, bucket.readHead('k', 1));
    let answered = false;
    void bucket.createOnly('k', BYTES).then(() => (answered = true));
    await scheduler.runFor(100);
    expect([request.waiting, holds('k'), answered]).toEqual([1, false, false]);
    request.open();
    await scheduler.runFor(100);
    expect([response.waiting, holds('k'), answered]).toEqual([1, true, false]);
    response.open();
    await scheduler.runFor(100);
    expect(answered).toBe(true);
  });

  it('loses everything in a wipe and one bit in damage', async () => {
    const { scheduler, server, bucket } = setUp();
    await result(scheduler, bucket.createOnly('k', BYTES));
    expect(await server.flipBit('k', 8)).toBe(true);
    expect(await server.store.readHead('k', 3)).toMatchObject({ bytes: new Uint8Array([1, 3, 3]) });
    expect(await server.flipBit('other', 0)).toBe(false);
    server.wipe();
    expect(await result(scheduler, bucket.readHead('k', 3))).toEqual({ kind: 'absent' });
  });

  it('shows every call at its moments to the observers', async () => {
    const { scheduler, server, bucket } = setUp();
    const seen: string[] = [];
    server.observers.push({
      bucketSent: ({ op, key }) => seen.push(`sent ${op} ${key}`),
      bucketApplied: (_, outcome) => seen.push(`applied ${outcome.kind}`),
      bucketAnswered: (_, outcome) => seen.push(`answered ${outcome.kind}`),
    });
    bucket.script.add({ fate: { kind: 'lost-response' } });
    await result(scheduler, bucket.createOnly('k', BYTES));
    expect(seen).toEqual(['sent createOnly k', 'applied created', 'answered unknown']);
  });

  it('keeps the contract under all faults at once, the same way for the same seed', async () => {
    const run = async (seed: number): Promise<string> => {
      const scheduler = new Scheduler({ seed });
      const store: BucketStore = new MemoryBucketStore({ name: 'b' });
      const bucket = new FaultyBucketStore(store, { scheduler, profile: ROUGH_BUCKETS });
      const prng = scheduler.prng('work');
      const tally: Record<string, number> = {};
      let left = 300;
      const work = async (worker: number): Promise<void> => {
        while (left-- > 0) {
          const key = `k${prng.below(40)}`;
          const outcome = prng.chance(0.5)
            ? await bucket.createOnly(key, new Uint8Array([worker, left & 0xff]))
            : await bucket.readHead(key, 2);
          tally[outcome.kind] = (tally[outcome.kind] ?? 0) + 1;
        }
      };
      let done = false;
      void Promise.all([0, 1, 2, 3].map(work)).then(() => (done = true));
      await scheduler.run(() => done);
      expect(Object.keys(tally).sort()).toEqual(
        expect.arrayContaining(['absent', 'created', 'exists', 'found', 'unknown']),
      );
      return scheduler.history.hash;
    };
    expect(await run(11)).toBe(await run(11));
    expect(await run(11)).not.toBe(await run(12));
  });
});

import { describe, expect, test } from 'vitest';
import { DEFAULT_HEAD_READ_BYTES } from '../../../src/format/flight.ts';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { EngineError } from '../../../src/index.ts';
import type { BucketStore, CreateOutcome } from '../../../src/ports/bucket-store.ts';
import type { EngineSettings } from '../../../src/protocol/settings.ts';
import { bodiesOf, EngineWorld, errorOf } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

function engineOn(world: EngineWorld, settings: EngineSettings = {}): Promise<HostedEngine> {
  return world.start({ ...settings });
}

type Create = BucketStore['createOnly'];

/** Slot objects of the wrapped bucket go through `create`; identities and probes do not. */
function creating(
  bucket: BucketStore,
  create: (next: Create, ...args: Parameters<Create>) => ReturnType<Create>,
): BucketStore {
  return new Proxy(bucket, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      const bound = member.bind(target) as Create;
      if (name !== 'createOnly') return bound;
      return (...args: Parameters<Create>) =>
        args[0].includes('/main/') ? create(bound, ...args) : bound(...args);
    },
  });
}

const unknown = (message: string): CreateOutcome => ({
  kind: 'unknown',
  cause: new EngineError('BUCKET_UNAVAILABLE', message),
});

describe('answers that storage leaves open', () => {
  test('A4 stored but the answer lost: the read-back counts the copy, no second slot is used', async () => {
    const world = new EngineWorld(1);
    let lost = 0;
    world.wrap = (bucket) =>
      creating(bucket, async (next, ...args) => {
        await next(...args);
        lost++;
        return unknown('the answer was lost');
      });
    const engine = await engineOn(world, { copyQuorum: 1 });
    const stream = await engine.open('orders');
    for (let i = 0; i < 5; i++) await stream.append([{ body: `${i}` }]);
    expect(lost).toBe(5);
    expect((await engine.status()).next).toBe(5);
    expect(await bodiesOf(stream)).toEqual(['0', '1', '2', '3', '4']);
  });

  test('A4 a 409 or a lost request is sent again, byte for byte, until it is stored', async () => {
    const world = new EngineWorld(1);
    const sent = new Map<string, string>();
    let tries = 0;
    world.wrap = (bucket) =>
      creating(bucket, async (next, key, bytes, options) => {
        const text = Buffer.from(bytes).toString('hex');
        expect(sent.get(key) ?? text).toBe(text);
        sent.set(key, text);
        return ++tries % 3 === 0 ? next(key, bytes, options) : unknown('conflict');
      });
    const engine = await engineOn(world, { copyQuorum: 1 });
    const stream = await engine.open('orders');
    await Promise.all(['a', 'b', 'c'].map((body) => stream.append([{ body }])));
    expect(await bodiesOf(stream)).toEqual(['a', 'b', 'c']);
    expect(engine.metrics().counters['epoch.rolls']).toBeUndefined();
  });

  test('A2 memory of a flight is not reused while a bucket still reads it', async () => {
    const world = new EngineWorld(3);
    let compared = 0;
    const changed: string[] = [];
    world.wrap = (bucket, index) =>
      index < 2
        ? bucket
        : creating(bucket, async (next, key, bytes, options) => {
            const before = Buffer.from(bytes).toString('hex');
            await new Promise((resolve) => setTimeout(resolve, 20));
            compared++;
            if (Buffer.from(bytes).toString('hex') !== before) changed.push(key);
            return next(key, bytes, options);
          });
    const engine = await engineOn(world, { flightBytes: 4_096, poolBytes: 4 << 20 });
    const stream = await engine.open('orders');
    for (let i = 0; i < 30; i++) await stream.append([{ body: `${i}`.repeat(2_000) }]);
    await eventually(() => expect(compared).toBe(30));
    expect(changed).toEqual([]);
  });
});

describe('buckets that do not answer', () => {
  test('one hanging bucket of three does not keep anybody waiting, and its copies are made up', async () => {
    const world = new EngineWorld(3);
    let isAway = true;
    world.wrap = (bucket, index) =>
      index !== 1
        ? bucket
        : creating(bucket, (next, key, bytes, options) =>
            isAway
              ? new Promise((resolve) => {
                  const end = (): void => resolve(unknown('no answer'));
                  options?.signal?.addEventListener('abort', end);
                  setTimeout(end, 3_000);
                })
              : next(key, bytes, options),
          );
    const engine = await engineOn(world, { flightBytes: 64 << 10, poolBytes: 4 << 20 });
    const stream = await engine.open('orders');
    const body = 'x'.repeat(50_000);
    for (let i = 0; i < 120; i++) await stream.append([{ body }], { timeoutMillis: 10_000 });
    const { counters, gauges } = engine.metrics();
    expect(counters['flight.copiesGivenUp']).toBeGreaterThan(0);
    expect(gauges['epoch.copyDebt']).toBeGreaterThan(0);
    expect(gauges['pool.peakBytes']).toBeLessThanOrEqual(4 << 20);
    isAway = false;
    while (engine.metrics().gauges['epoch.copyDebt'] !== 0) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(engine.metrics().counters['flight.copiesMadeUp']).toBeGreaterThan(0);
  });

  test('with too few buckets an append waits, then says what storage said; it goes on when they return', async () => {
    const world = new EngineWorld(2);
    let isFull = true;
    const full = new EngineError('BUCKET_FULL', 'no space left');
    world.wrap = (bucket, index) =>
      index !== 0
        ? bucket
        : creating(bucket, async (next, ...args) =>
            isFull ? { kind: 'refused', cause: full } : next(...args),
          );
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    const ticket = await stream.submit([{ body: 'waits' }]);
    const error = await errorOf(ticket.ack({ timeoutMillis: 100 }));
    expect(error.code).toBe('DEADLINE_EXCEEDED');
    expect(error.sideEffects).toBe('possible');
    expect(error.details['storage']).toBe('BUCKET_FULL');
    isFull = false;
    expect((await ticket.ack({ timeoutMillis: 10_000 })).start.seqNum).toBe(0);
  });

  test('submit waits for memory in order, fails retryably at its deadline, and burns no number', async () => {
    const world = new EngineWorld(1);
    let isAway = true;
    world.wrap = (bucket) =>
      creating(bucket, async (next, ...args) => (isAway ? unknown('away') : next(...args)));
    const settings = { copyQuorum: 1, flightBytes: 1 << 20, poolBytes: 5 << 20 };
    const engine = await engineOn(world, settings);
    const stream = await engine.open('orders');
    const body = 'x'.repeat(1_000_000);
    const accepted = [];
    let refused: EngineError | undefined;
    while (refused === undefined) {
      try {
        accepted.push(await stream.submit([{ body }], { timeoutMillis: 100 }));
      } catch (error) {
        refused = error as EngineError;
      }
    }
    expect(refused).toMatchObject({ code: 'POOL_EXHAUSTED', sideEffects: 'none', retryable: true });
    expect(accepted.length).toBeGreaterThan(2);
    const controller = new AbortController();
    const waiting = stream.submit([{ body }], { signal: controller.signal });
    controller.abort();
    expect((await errorOf(waiting)).code).toBe('ABORTED');
    const next = stream.submit([{ body: 'next' }], { timeoutMillis: 20_000 });
    isAway = false;
    expect((await next).startSeqNum).toBe(accepted.length);
    await Promise.all(accepted.map((ticket) => ticket.ack({ timeoutMillis: 20_000 })));
    expect(engine.metrics().gauges['pool.peakBytes']).toBeLessThanOrEqual(5 << 20);
  });

  test('an open behind an undecided fence says which slot and which buckets, and ends when they return', async () => {
    const world = new EngineWorld(3);
    const first = await world.open({ copyQuorum: 2 });
    await (await first.open('orders')).append([{ body: 'kept' }]);
    await first.kill();
    let isAway = false;
    const away = new EngineError('BUCKET_UNAVAILABLE', 'away');
    world.wrap = (bucket, index) =>
      index === 0
        ? bucket
        : new Proxy(bucket, {
            get(target, name) {
              const member: unknown = Reflect.get(target, name);
              if (typeof member !== 'function') return member;
              return (...args: unknown[]) =>
                isAway && name !== 'close'
                  ? Promise.resolve({ kind: 'unknown', cause: away })
                  : (member as (...a: unknown[]) => unknown).apply(target, args);
            },
          });
    const second = await engineOn(world);
    isAway = true;
    await second.recovered({ timeoutMillis: 1 }).catch(() => undefined);
    const error = await errorOf(second.open('orders', { timeoutMillis: 1_500 }));
    if (error.code !== 'DEADLINE_EXCEEDED') {
      expect(error.code).toBe('FENCE_UNDECIDED');
      expect(error.details['buckets']).toContain('bucket-1');
    }
    isAway = false;
    const again = await second.open('orders', { timeoutMillis: 20_000 });
    expect(await bodiesOf(again)).toEqual(['kept']);
  });
});

describe('bytes that are not what they must be', () => {
  test('a read falls back to another copy, and says when none is good', async () => {
    const world = new EngineWorld(3);
    const first = await world.open({ copyQuorum: 3 });
    const stream = await first.open('orders');
    await stream.append([{ body: 'precious' }]);
    await first.close();
    const spoil = (index: number): void => {
      const bucket = world.memory[index]!;
      const key = [...bucket.objects().keys()].find((name) => name.includes('/main/'))!;
      bucket.flipBit(key, (bucket.objects().get(key)!.length - 3) * 8);
    };
    spoil(0);
    spoil(1);
    const engine = await engineOn(world, { copyQuorum: 3 });
    const again = await engine.open('orders');
    expect(await bodiesOf(again)).toEqual(['precious']);
    spoil(2);
    for (let i = 0; i < 3; i++) expect((await errorOf(bodiesOf(again))).code).toBe('DATA_LOSS');
    expect(engine.metrics().counters['read.badCopies']).toBeGreaterThan(0);
  });

  test('A3 another flight in our slot ends the epoch; it is no copy, and the batch goes on in the next one', async () => {
    const world = new EngineWorld(3);
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    await stream.append([{ body: 'mine' }]);
    const [key, bytes] = [...world.memory[0]!.objects()].find(([name]) => name.includes('/main/'))!;
    expect(bytes.length).toBeLessThan(DEFAULT_HEAD_READ_BYTES);
    const next = key.replace(/\d{16}$/, (slot) => (Number(slot) + 1).toString().padStart(16, '0'));
    world.memory[1]!.plant(next, bytes);
    await stream.append([{ body: 'next' }]);
    expect(await bodiesOf(stream)).toEqual(['mine', 'next']);
    expect(engine.metrics().counters['epoch.lostSlots']).toBe(1);
  });

  test('a bucket wiped under a running writer is not counted any more', async () => {
    const world = new EngineWorld(3);
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    await stream.append([{ body: 'before' }]);
    world.memory[2]!.wipe();
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    for (let i = 0; i < 3; i++) await stream.append([{ body: `${i}` }]);
    expect(engine.metrics().counters['bucket.identityLost']).toBeGreaterThan(0);
    expect(await bodiesOf(stream)).toEqual(['before', '0', '1', '2']);
  });
});

describe('serving', () => {
  test('L2 nothing is served from the moment the release is sent', async () => {
    const world = new EngineWorld(3);
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    await stream.append([{ body: 'x' }]);
    const other = await engine.open('orders');
    await stream.close();
    const closing = other.close();
    for (const call of [other.checkTail(), other.append([{ body: 'y' }]), bodiesOf(other)]) {
      expect((await errorOf(call)).code).toBe('CLOSED');
    }
    await closing;
  });
});

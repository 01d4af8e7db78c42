/** Two engines on one metastore: the one that does not lead a stream forwards to the one that does. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MemoryPeerNetwork } from '../../../../src/adapters/memory/peers.ts';
import { Http2Peers } from '../../../../src/adapters/peers/http2-peers.ts';
import type { Ack, ReadRecord, Stream } from '../../../../src/engine/api.ts';
import { HostedEngine } from '../../../../src/engine/host.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import type { BucketStore } from '../../../../src/ports/bucket-store.ts';
import type { Peers } from '../../../../src/ports/peers.ts';
import type { EngineSettings } from '../../../../src/protocol/settings.ts';
import { EngineWorld } from '../../../support/engine-world.ts';

const TOKEN = 'a secret of all engines';

async function errorOf(run: Promise<unknown>): Promise<EngineError> {
  try {
    await run;
  } catch (error) {
    if (EngineError.is(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

async function bodies(stream: Stream, options = {}): Promise<string[]> {
  const found: string[] = [];
  for await (const record of stream.read(options)) found.push(Buffer.from(record.body).toString());
  return found;
}

/** A gate in front of every write of a bucket: shut, acknowledgements wait. */
class Gate {
  #open: Promise<void> = Promise.resolve();
  #release: () => void = () => undefined;

  shut(): void {
    this.#open = new Promise((resolve) => {
      this.#release = resolve;
    });
  }

  open(): void {
    this.#release();
    this.#open = Promise.resolve();
  }

  wrap(bucket: BucketStore): BucketStore {
    return new Proxy(bucket, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        if (name !== 'createOnly') return value.bind(target) as unknown;
        return async (...args: unknown[]) => {
          await this.#open;
          return (value as (...a: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  }
}

const transports: [string, () => () => Peers][] = [
  [
    'memory',
    () => {
      const network = new MemoryPeerNetwork();
      return () => network.join({ token: TOKEN });
    },
  ],
  ['HTTP/2', () => () => new Http2Peers({ host: '127.0.0.1', port: 0, token: TOKEN })],
];

describe.each(transports)('forwarding over %s', (_, transport) => {
  let world: EngineWorld;
  let gate: Gate;
  let makePeers: () => Peers;
  let engines: HostedEngine[];
  let leader: HostedEngine;
  let follower: HostedEngine;

  async function start(star: string, settings: EngineSettings = {}): Promise<HostedEngine> {
    const engine = await world.open(
      { star, sessionTimeoutMillis: 2_000, ...settings },
      { peers: makePeers() },
    );
    engines.push(engine);
    return engine;
  }

  beforeEach(async () => {
    world = new EngineWorld();
    gate = new Gate();
    makePeers = transport();
    engines = [];
    leader = await start('leader');
    follower = await start('follower');
    world.wrap = (bucket) => bucket;
  });

  afterEach(async () => {
    gate.open();
    await Promise.all(engines.map((engine) => engine.kill()));
  });

  test('appends, reads, checks the tail, trims and fences at the holder', async () => {
    const own = await leader.open('orders');
    await own.append([{ body: 'first' }]);
    const other = await follower.open('orders');
    expect([other.name, other.id, other.mode]).toEqual([own.name, own.id, own.mode]);
    const ack = await other.append([
      { body: 'second', headers: [['k', 'v']], timestamp: 7 },
      { body: 'third' },
    ]);
    expect(ack.start.seqNum).toBe(1);
    expect(ack.end.seqNum).toBe(3);
    expect((await other.checkTail()).seqNum).toBe(3);
    expect(await other.checkTail()).toEqual(await own.checkTail());
    const [, second] = await records(other);
    expect(Buffer.from(second!.headers[0]![0]).toString()).toBe('k');
    await other.fence('token');
    await other.trim(1);
    const left = await records(other, { from: 1 });
    expect(left.map(({ seqNum }) => seqNum)).toEqual([1, 2, 3, 4]);
    expect(left.map(({ command }) => command?.kind)).toEqual([
      undefined,
      undefined,
      'fence',
      'trim',
    ]);
    expect(await bodies(other, { from: 1, ignoreCommands: true })).toEqual(['second', 'third']);
    expect(follower.metrics().counters['forward.appends']).toBe(3);
    expect(leader.metrics().counters['peers.appends']).toBe(3);
    expect((await follower.status()).openStreams).toEqual([]);
    await other.close();
    // It led before and leads after: a handle elsewhere is nothing to it.
    await own.append([{ body: 'more' }]);
  });

  async function records(stream: Stream, options = {}): Promise<ReadRecord[]> {
    const found: ReadRecord[] = [];
    for await (const record of stream.read(options)) found.push(record);
    return found;
  }

  test('answers as the holder does: bad batches, conditions, positions, tokens', async () => {
    const own = await leader.open('orders');
    await own.append([{ body: 'a' }]);
    const other = await follower.open('orders');
    const same = async (run: (stream: Stream) => Promise<unknown>): Promise<void> => {
      const answer = (stream: Stream) => errorOf((async () => run(stream))());
      const [near, far] = [await answer(own), await answer(other)];
      expect(JSON.parse(JSON.stringify(far))).toEqual(JSON.parse(JSON.stringify(near)));
    };
    await same((stream) => stream.append([]));
    await same((stream) => stream.append([{ body: 'x', timestamp: -1 }]));
    await same((stream) => stream.append([{ body: 'x' }], { matchSeqNum: 7 }));
    await same((stream) => stream.append([{ body: 'x' }], { fencingToken: 'other' }));
    await same((stream) => stream.append([{ body: 'x' }], { unknown: 1 } as never));
    await same((stream) => stream.trim(-1));
    await same((stream) => stream.fence('t'.repeat(37)));
    await same((stream) => bodies(stream, { from: 9 }));
    await same((stream) => bodies(stream, { from: 1, tailOffset: 1 }));
    await other.append([{ body: 'b' }], { matchSeqNum: 1, fencingToken: '' });
    await other.trim(1);
    await same((stream) => bodies(stream, { from: 0 }));
    expect((await errorOf(follower.open('orders', { fencingToken: 'none' }))).code).toBe(
      'FENCING_TOKEN_MISMATCH',
    );
  });

  test('a handle under a token ends with a newer token, and goes on under its own', async () => {
    const own = await leader.open('orders');
    await own.fence('one');
    const mine = await follower.open('orders', { fencingToken: 'one' });
    const old = await follower.open('orders', { fencingToken: 'one' });
    await mine.fence('two');
    await mine.append([{ body: 'under two' }]);
    expect((await errorOf(old.append([{ body: 'under one' }]))).code).toBe(
      'FENCING_TOKEN_MISMATCH',
    );
    await leader.close();
    await mine.append([{ body: 'after the takeover' }]);
    expect(await bodies(mine, { ignoreCommands: true })).toEqual([
      'under two',
      'after the takeover',
    ]);
  });

  test('keeps the order of what is submitted without waiting', async () => {
    await leader.open('orders');
    const other = await follower.open('orders');
    const acks = await Promise.all(
      Array.from({ length: 500 }, async (__, index) => {
        const ticket = await other.submit([{ body: `${index}` }]);
        return (await ticket.ack()).start.seqNum;
      }),
    );
    expect(acks).toEqual(acks.map((___, index) => index));
    expect(await bodies(other)).toEqual(acks.map((___, index) => `${index}`));
  });

  test('follows the tail, and stops when the reader does', async () => {
    const own = await leader.open('orders');
    await own.append([{ body: 'old' }]);
    const other = await follower.open('orders');
    const seen: string[] = [];
    const reading = (async () => {
      for await (const record of other.read({ tailOffset: 1, live: true })) {
        seen.push(Buffer.from(record.body).toString());
        if (seen.length === 4) return;
      }
    })();
    await expect.poll(() => seen).toEqual(['old']);
    for (const body of ['x', 'y', 'z']) await own.append([{ body }]);
    await reading;
    expect(seen).toEqual(['old', 'x', 'y', 'z']);
    await expect.poll(() => leader.metrics().gauges['peers.channels']).toBe(1);
  });

  test('a slow reader holds up nobody and little memory', async () => {
    const own = await leader.open('orders');
    const body = 'r'.repeat(100_000);
    for (let index = 0; index < 100; index++) await own.append([{ body }]);
    const other = await follower.open('orders');
    const iterator = other.read()[Symbol.asyncIterator]();
    await iterator.next();
    await other.append([{ body: 'meanwhile' }]);
    expect((await other.checkTail()).seqNum).toBe(101);
    let count = 1;
    while ((await iterator.next()).done !== true) count++;
    expect(count).toBe(101);
  });

  test('a leader that closes finishes what is under way; the follower leads next', async () => {
    await leader.open('orders');
    const other = await follower.open('orders');
    const acks: Promise<Ack>[] = [];
    let closing: Promise<void> | undefined;
    for (let index = 0; index < 300; index++) {
      acks.push(other.append([{ body: `${index}` }]));
      if (index === 150) closing = leader.close();
      if (index % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await closing;
    const starts = (await Promise.all(acks)).map(({ start }) => start.seqNum);
    expect(starts).toEqual(starts.map((__, index) => index));
    expect(await bodies(other)).toEqual(starts.map((__, index) => `${index}`));
    expect((await follower.status()).openStreams).toMatchObject([{ name: 'orders', tail: 300 }]);
    await other.close();
    expect((await follower.status()).openStreams).toEqual([]);
  });

  test('a live read goes on over a change of the holder, without a gap or a repetition', async () => {
    const own = await leader.open('orders');
    const other = await follower.open('orders');
    const seen: number[] = [];
    const reading = (async () => {
      for await (const { seqNum } of other.read({ from: 0, live: true })) {
        seen.push(seqNum);
        if (seen.length === 20) return;
      }
    })();
    for (let index = 0; index < 10; index++) await own.append([{ body: `${index}` }]);
    await leader.close();
    for (let index = 10; index < 20; index++) await other.append([{ body: `${index}` }]);
    await reading;
    expect(seen).toEqual(Array.from({ length: 20 }, (__, index) => index));
  });

  test('a leader that dies: what was sent is indeterminate or acknowledged, never lost or twice', async () => {
    await leader.open('orders');
    const other = await follower.open('orders');
    const outcomes: Promise<[string, Ack | EngineError]>[] = [];
    const append = async (body: string): Promise<[string, Ack | EngineError]> => {
      try {
        return [body, await other.append([{ body }])];
      } catch (error) {
        return [body, error as EngineError];
      }
    };
    for (let index = 0; index < 200; index++) {
      outcomes.push(append(`${index}`));
      if (index === 100) void leader.kill();
      if (index % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const all = await Promise.all(outcomes);
    const stored = await bodies(other);
    expect(new Set(stored).size).toBe(stored.length);
    expect(stored).toEqual([...stored].sort((a, b) => Number(a) - Number(b)));
    for (const [body, outcome] of all) {
      if (outcome instanceof Error) {
        expect(['INDETERMINATE', 'CLOSED', 'FENCED']).toContain(outcome.code);
        if (outcome.sideEffects === 'none') expect(stored).not.toContain(body);
      } else expect(stored[outcome.start.seqNum]).toBe(body);
    }
    expect(all.at(-1)![1]).not.toBeInstanceOf(Error);
  });

  test('a holder that is not there is refused in time, by its name, and nothing is appended', async () => {
    await leader.open('orders');
    const other = await follower.open('orders');
    // A third engine leads on after its way to others was cut: it is alive and cannot be reached.
    const third = makePeers();
    const alone = await world.open(
      { star: 'alone', sessionTimeoutMillis: 2_000 },
      { peers: third },
    );
    engines.push(alone);
    await alone.open('lonely');
    await third.close();
    const error = await errorOf(follower.open('lonely', { timeoutMillis: 2_000 }));
    expect(error.code).toBe('STREAM_HELD');
    expect(error.retryable).toBe(true);
    expect(error.details).toMatchObject({ star: 'alone', why: 'PEER_UNAVAILABLE' });
    await other.append([{ body: 'others are not concerned' }]);
  });

  test('an engine that does not listen is named, and nobody tries to reach it', async () => {
    const silent = await world.open({ star: 'silent' });
    engines.push(silent);
    await silent.open('quiet');
    const error = await errorOf(follower.open('quiet'));
    expect(error.code).toBe('STREAM_HELD');
    expect(error.details['star']).toBe('silent');
    expect(error.details['address']).toBeUndefined();
    // It does not forward either, but says where the holder is.
    await leader.open('orders');
    const held = await errorOf(silent.open('orders'));
    expect([held.code, held.details['star']]).toEqual(['STREAM_HELD', 'leader']);
    expect(held.details['address']).toMatch(/:\d+$/);
  });

  test('deadlines and signals end every wait', async () => {
    world.wrap = (bucket) => gate.wrap(bucket);
    const slow = await start('slow', { poolBytes: 4 << 20, flightBytes: 256 << 10 });
    await slow.open('narrow');
    const other = await follower.open('narrow');
    gate.shut();
    const body = 'b'.repeat(200_000);
    const tickets = [];
    for (let index = 0; index < 200; index++) {
      try {
        tickets.push(await other.submit([{ body }], { timeoutMillis: 2_000 }));
      } catch (error) {
        expect((error as EngineError).code).toBe('POOL_EXHAUSTED');
        break;
      }
    }
    expect(tickets.length).toBeGreaterThan(5);
    expect(tickets.length).toBeLessThan(30);
    // One that waits for the holder's memory, given up by its signal.
    const controller = new AbortController();
    const waiting = errorOf(other.submit([{ body }], { signal: controller.signal }));
    setTimeout(() => controller.abort(), 20);
    const aborted = await waiting;
    expect(aborted.code).toBe('ABORTED');
    expect((await errorOf(tickets[0]!.ack({ timeoutMillis: 20 }))).code).toBe('DEADLINE_EXCEEDED');
    expect(
      (await errorOf(other.append([{ body: '' }], { signal: AbortSignal.abort() }))).code,
    ).toBe('ABORTED');
    expect((await errorOf(bodies(other, { live: true, timeoutMillis: 30 }))).code).toBe(
      'DEADLINE_EXCEEDED',
    );
    const live = new AbortController();
    const reading = errorOf(bodies(other, { live: true, signal: live.signal }));
    live.abort();
    expect((await reading).code).toBe('ABORTED');
    expect((await errorOf(other.close({ timeoutMillis: 20 }))).code).toBe('DEADLINE_EXCEEDED');
    gate.open();
  });

  test('closed handles and engines take nothing more', async () => {
    await leader.open('orders');
    const other = await follower.open('orders');
    const ticket = await other.submit([{ body: 'a' }]);
    await other.close();
    expect((await ticket.ack()).start.seqNum).toBe(0);
    expect((await errorOf(other.append([{ body: 'b' }]))).code).toBe('CLOSED');
    expect((await errorOf(other.checkTail())).code).toBe('CLOSED');
    await other.close();
    const second = await follower.open('orders');
    const late = await second.submit([{ body: 'c' }]);
    await follower.close();
    expect((await late.ack()).start.seqNum).toBe(1);
    expect((await errorOf(second.append([{ body: 'd' }]))).code).toBe('CLOSED');
    await expect.poll(() => leader.metrics().gauges['peers.channels']).toBe(0);
  });

  test('a stream that was deleted and made again is another one', async () => {
    const own = await leader.open('orders');
    const other = await follower.open('orders');
    await other.append([{ body: 'a' }]);
    await own.close();
    await leader.deleteStream('orders');
    await leader.open('orders');
    expect((await errorOf(other.append([{ body: 'b' }]))).code).toBe('STREAM_DELETED');
    const again = await follower.open('orders');
    expect((await again.append([{ body: 'c' }])).start.seqNum).toBe(0);
  });
});

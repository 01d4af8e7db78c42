/** One channel to a holder that says what the test wants it to say. */
import { describe, expect, test } from 'vitest';
import { MemoryPeerNetwork } from '../../../../src/adapters/memory/peers.ts';
import { systemClock } from '../../../../src/adapters/system/clock.ts';
import { PeerMemory } from '../../../../src/engine/forwarding/peer-memory.ts';
import { RemoteSession } from '../../../../src/engine/forwarding/remote-session.ts';
import { readRemotely } from '../../../../src/engine/forwarding/remote-read.ts';
import {
  decodePeerMessage,
  encodePeerMessage,
  type PeerMessage,
  type SmallPeerMessage,
} from '../../../../src/format/peer-message.ts';
import { EngineError } from '../../../../src/lib/errors.ts';
import type { PeerChannel } from '../../../../src/ports/peers.ts';
import { checkBatch } from '../../../../src/protocol/batch.ts';

const GREETING = { basin: 'default', name: 'orders', fencingToken: undefined };
const ID = '0123456789abcdef0123456789abcdef';
const batch = (body: string) => checkBatch([{ body }], false);

async function errorOf(run: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await run.then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown,
  );
  if (EngineError.is(error)) return error;
  throw error;
}

class Holder {
  readonly heard: PeerMessage[] = [];
  readonly channel: PeerChannel;
  #waiting: (() => void)[] = [];
  ended = false;

  constructor(channel: PeerChannel) {
    this.channel = channel;
    void this.#listen();
  }

  async #listen(): Promise<void> {
    try {
      for (let message = await this.channel.receive(); message !== undefined;) {
        this.heard.push(decodePeerMessage(message));
        for (const wake of this.#waiting.splice(0)) wake();
        message = await this.channel.receive();
      }
    } catch {
      // Broken off.
    }
    this.ended = true;
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** The messages of a type, once there are so many. */
  async hears<T extends PeerMessage['type']>(type: T, count = 1): Promise<PeerMessage[]> {
    for (;;) {
      const found = this.heard.filter((message) => message.type === type);
      if (found.length >= count) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  async call(index = 0): Promise<number> {
    const appends = await this.hears('append', index + 1);
    return (appends[index] as { readonly call: number }).call;
  }

  say(message: SmallPeerMessage): void {
    void this.channel.send(encodePeerMessage(message));
  }
}

async function session(memoryBytes = 8 << 20) {
  const network = new MemoryPeerNetwork();
  const [near, far] = [network.join({ token: 't' }), network.join({ token: 't' })];
  const channels: PeerChannel[] = [];
  const { address } = await far.listen((channel) => channels.push(channel));
  const memory = new PeerMemory(memoryBytes);
  const host = {
    peers: near,
    clock: systemClock(),
    defaultTimeoutMillis: undefined,
    memoryOf: () => memory,
  };
  const opening = RemoteSession.open(host, address, GREETING, { timeoutMillis: 2_000 });
  await expect.poll(() => channels.length).toBe(1);
  const holder = new Holder(channels[0]!);
  await holder.hears('hello');
  return { network, address, host, memory, holder, opening, channels };
}

async function opened(memoryBytes?: number) {
  const parts = await session(memoryBytes);
  parts.holder.say({ type: 'opened', id: ID, mode: 'any' });
  return { ...parts, session: await parts.opening };
}

const NOT_LED = new EngineError('STREAM_HELD', 'not here');
const accepted = (call: number, startSeqNum: number) =>
  ({ type: 'accepted', call, startSeqNum, endSeqNum: startSeqNum + 1 }) as const;
const position = (seqNum: number) => ({ seqNum, timestamp: 5 });

describe('opening', () => {
  test('says which stream, and fails as the holder says', async () => {
    const { holder, opening } = await session();
    expect(holder.heard[0]).toEqual({
      type: 'hello',
      purpose: 'append',
      basin: 'default',
      name: 'orders',
    });
    holder.say({ type: 'failed', call: 0, error: NOT_LED });
    expect((await errorOf(opening)).code).toBe('STREAM_HELD');
  });

  test('ends the channel when the answer is none, or none comes', async () => {
    const wrong = await session();
    wrong.holder.say({ type: 'end' });
    expect((await errorOf(wrong.opening)).code).toBe('PEER_PROTOCOL');
    expect(wrong.holder.channel.isOver).toBe(true);
    const gone = await session();
    gone.holder.channel.end();
    expect((await errorOf(gone.opening)).code).toBe('PEER_PROTOCOL');
    const noise = await session();
    void noise.holder.channel.send(Uint8Array.of(99, 1, 2));
    expect((await errorOf(noise.opening)).code).toBe('PEER_PROTOCOL');
    const late = await session();
    expect((await errorOf(late.opening)).code).toBe('DEADLINE_EXCEEDED');
    expect(late.holder.channel.isOver).toBe(true);
  });
});

describe('appends', () => {
  test('resolve when accepted, and once more when acknowledged', async () => {
    const { session: remote, holder, memory } = await opened();
    const submitting = remote.submit(batch('a'), { timeoutMillis: 10_000, matchSeqNum: 7 });
    const call = await holder.call();
    // The holder is given a little less, so that its answer is here in time.
    expect(holder.heard[1]).toMatchObject({ timeoutMillis: 9_750, matchSeqNum: 7 });
    expect(memory.bytes).toBeGreaterThan(0);
    holder.say(accepted(call, 7));
    const ticket = await submitting;
    expect([ticket.startSeqNum, ticket.endSeqNum, memory.bytes]).toEqual([7, 8, 0]);
    expect((await errorOf(ticket.ack({ timeoutMillis: 5 }))).code).toBe('DEADLINE_EXCEEDED');
    holder.say({ type: 'acked', call, start: position(7), end: position(8), tail: position(9) });
    expect(await ticket.ack()).toMatchObject({ start: position(7), tail: position(9) });
  });

  test('fail as the holder says, before they are accepted and after', async () => {
    const { session: remote, holder } = await opened();
    const refused = errorOf(remote.submit(batch('a'), {}));
    const dropped = remote.submit(batch('b'), {});
    const [first, second] = [await holder.call(0), await holder.call(1)];
    holder.say({ type: 'failed', call: first, error: new EngineError('CLOSED', 'closed') });
    expect((await refused).code).toBe('CLOSED');
    holder.say(accepted(second, 0));
    const ticket = await dropped;
    holder.say({ type: 'failed', call: second, error: new EngineError('FENCED', 'dropped') });
    expect((await errorOf(ticket.ack())).code).toBe('FENCED');
  });

  test('are indeterminate when the connection breaks, and refused without effect after it', async () => {
    const { session: remote, holder, memory, network, address } = await opened();
    const waiting = errorOf(remote.submit(batch('a'), {}));
    const taken = remote.submit(batch('b'), {});
    holder.say(accepted(await holder.call(1), 0));
    const ticket = await taken;
    const tail = errorOf(remote.checkTail({}));
    network.cut(address);
    for (const lost of [await waiting, await errorOf(ticket.ack())]) {
      expect([lost.code, lost.sideEffects]).toEqual(['INDETERMINATE', 'possible']);
    }
    expect([(await tail).code, (await tail).sideEffects]).toEqual(['PEER_UNAVAILABLE', 'none']);
    expect(memory.bytes).toBe(0);
    const late = await errorOf(remote.submit(batch('c'), {}));
    expect([late.code, late.sideEffects]).toEqual(['PEER_UNAVAILABLE', 'none']);
  });

  test.each([
    ['noise', (holder: Holder) => void holder.channel.send(Uint8Array.of(1, 2, 3))],
    ['a message of the other side', (holder: Holder) => holder.say({ type: 'cancel', call: 1 })],
    ['the end', (holder: Holder) => holder.channel.end()],
  ])('are indeterminate when the holder answers with %s', async (_, say) => {
    const { session: remote, holder } = await opened();
    const waiting = errorOf(remote.submit(batch('a'), {}));
    await holder.call();
    say(holder);
    expect((await waiting).code).toBe('INDETERMINATE');
    expect((await errorOf(remote.submit(batch('b'), {}))).sideEffects).toBe('none');
  });

  test('end by deadline and signal, tell the holder, and a late answer changes nothing', async () => {
    const { session: remote, holder, memory } = await opened();
    const late = await errorOf(remote.submit(batch('a'), { timeoutMillis: 20 }));
    expect([late.code, late.sideEffects]).toEqual(['INDETERMINATE', 'possible']);
    const controller = new AbortController();
    const waiting = errorOf(remote.submit(batch('b'), { signal: controller.signal }));
    const second = await holder.call(1);
    controller.abort();
    const aborted = await waiting;
    expect([aborted.code, aborted.sideEffects]).toEqual(['ABORTED', 'possible']);
    expect(await holder.hears('cancel', 2)).toEqual([
      { type: 'cancel', call: await holder.call(0) },
      { type: 'cancel', call: second },
    ]);
    holder.say(accepted(second, 0));
    expect((await errorOf(remote.checkTail({ timeoutMillis: 20 }))).code).toBe('DEADLINE_EXCEEDED');
    expect(memory.bytes).toBe(0);
    await remote.close({ timeoutMillis: 100 });
  });

  test('wait for memory when too many bytes are not accepted', async () => {
    const { session: remote, holder } = await opened(1_000);
    let told = 0;
    remote.onRoom = () => told++;
    const big = batch('x'.repeat(800));
    expect(remote.hasRoom(big)).toBe(true);
    void remote.submit(big, {});
    expect(remote.hasRoom(batch('x'.repeat(200)))).toBe(false);
    await holder.call();
    const before = told;
    holder.say(accepted(await holder.call(), 0));
    await expect.poll(() => told).toBeGreaterThan(before);
    expect(remote.hasRoom(big)).toBe(true);
  });

  test('wait for the transport, here, where they are known not to have been sent', async () => {
    const { session: remote, network, address } = await opened();
    network.silence(address);
    const big = batch('x'.repeat(100_000));
    let sent = 0;
    for (; sent < 100 && remote.hasRoom(big); sent++) remote.submit(big, {}).catch(() => undefined);
    expect(sent).toBeLessThan(5);
    remote.abandon(NOT_LED);
  });
});

describe('the end of a session', () => {
  test('a holder that sends it away is answered to the last, then left', async () => {
    const { session: remote, holder } = await opened();
    const under = remote.submit(batch('a'), {});
    const call = await holder.call();
    let told = false;
    remote.onRoom = () => {
      told = true;
    };
    holder.say({ type: 'failed', call: 0, error: new EngineError('CLOSED', 'closing') });
    await expect.poll(() => told).toBe(true);
    const refused = await errorOf(remote.submit(batch('b'), {}));
    expect([refused.code, refused.sideEffects]).toEqual(['CLOSED', 'none']);
    expect(holder.ended).toBe(false);
    holder.say(accepted(call, 0));
    const ticket = await under;
    expect(holder.ended).toBe(false);
    holder.say({ type: 'acked', call, start: position(0), end: position(1), tail: position(1) });
    await ticket.ack();
    await expect.poll(() => holder.ended).toBe(true);
  });

  test('a close waits for what is under way, and not beyond its deadline', async () => {
    const { session: remote, holder } = await opened();
    const under = remote.submit(batch('a'), {});
    const call = await holder.call();
    const closing = remote.close({ timeoutMillis: 5_000 });
    holder.say(accepted(call, 0));
    await under;
    holder.say({ type: 'acked', call, start: position(0), end: position(1), tail: position(1) });
    await closing;
    await expect.poll(() => holder.ended).toBe(true);
    const stuck = await opened();
    const lost = errorOf(stuck.session.submit(batch('a'), {}));
    expect((await errorOf(stuck.session.close({ timeoutMillis: 20 }))).code).toBe(
      'DEADLINE_EXCEEDED',
    );
    expect((await lost).code).toBe('INDETERMINATE');
  });
});

describe('reads', () => {
  async function reading(live = false) {
    const parts = await opened();
    const starts: number[] = [];
    const records = readRemotely(parts.host, parts.address, GREETING, {
      from: 3,
      live,
      limit: 10,
      onStart: (start) => starts.push(start),
    });
    const first = records.next();
    await expect.poll(() => parts.channels.length).toBe(2);
    const holder = new Holder(parts.channels[1]!);
    await holder.hears('read');
    return { ...parts, records, first, reader: holder, starts };
  }

  test('ask for what was asked, tell where they begin, and end with the holder', async () => {
    const { reader, first, starts } = await reading();
    expect(reader.heard).toMatchObject([
      { type: 'hello', purpose: 'read' },
      { type: 'read', start: 'from', position: 3, limit: 10, live: false },
    ]);
    reader.say({ type: 'started', position: 3 });
    reader.say({ type: 'end' });
    expect(await first).toEqual({ done: true, value: undefined });
    expect(starts).toEqual([3]);
  });

  test.each([
    ['an error of the holder', { type: 'failed', call: 0, error: NOT_LED } as const, 'STREAM_HELD'],
    ['a message of the other side', { type: 'cancel', call: 0 } as const, 'PEER_PROTOCOL'],
  ])('end with %s', async (_, answer, code) => {
    const { reader, first } = await reading();
    const failed = errorOf(first);
    reader.say(answer);
    expect((await failed).code).toBe(code);
    await expect.poll(() => reader.ended).toBe(true);
  });

  test('that are cut off have no effect and may go on elsewhere', async () => {
    const { reader, first } = await reading();
    const failed = errorOf(first);
    reader.channel.end();
    const error = await failed;
    expect([error.code, error.sideEffects]).toEqual(['PEER_UNAVAILABLE', 'none']);
  });
});

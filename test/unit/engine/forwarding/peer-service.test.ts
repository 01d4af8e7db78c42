/** What an engine answers to channels of others, whatever they say. */
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { MemoryPeerNetwork, type MemoryPeers } from '../../../../src/adapters/memory/peers.ts';
import type { Stream } from '../../../../src/engine/api.ts';
import type { HostedEngine } from '../../../../src/engine/host.ts';
import { encodePeerAppend } from '../../../../src/format/peer-append.ts';
import {
  decodePeerMessage,
  encodePeerMessage,
  PEER_TYPES,
  type PeerMessage,
  type SmallPeerMessage,
} from '../../../../src/format/peer-message.ts';
import type { PeerChannel } from '../../../../src/ports/peers.ts';
import { checkBatch } from '../../../../src/protocol/batch.ts';
import { EngineWorld } from '../../../support/engine-world.ts';

let network: MemoryPeerNetwork;
let client: MemoryPeers;
let address: string;
let engine: HostedEngine;
let stream: Stream;

beforeEach(async () => {
  network = new MemoryPeerNetwork();
  client = network.join({ token: 't' });
  const peers = network.join({ token: 't' });
  ({ address } = peers);
  engine = await new EngineWorld(1).open({ star: 'holder' }, { peers });
  stream = await engine.open('orders');
});

afterEach(() => engine.kill());

function append(call: number, body: string, records = [{ body }]): Uint8Array {
  const { encodedBytes } = checkBatch(records, false);
  const timeoutMillis = undefined;
  return encodePeerAppend({ type: 'append', call, timeoutMillis, records, encodedBytes });
}

async function channel(
  ...messages: readonly (SmallPeerMessage | Uint8Array)[]
): Promise<PeerChannel> {
  const opened = await client.open(address);
  for (const message of messages) say(opened, message);
  return opened;
}

function say(to: PeerChannel, message: SmallPeerMessage | Uint8Array): void {
  void to.send(message instanceof Uint8Array ? message : encodePeerMessage(message));
}

/** Everything that is answered until the other side ends. */
async function answers(from: PeerChannel): Promise<PeerMessage[]> {
  const heard: PeerMessage[] = [];
  for (;;) {
    const message = await from.receive().catch(() => undefined);
    if (message === undefined) return heard;
    heard.push(decodePeerMessage(message));
  }
}

const hello = (change: object = {}): SmallPeerMessage => ({
  type: 'hello',
  purpose: 'append',
  basin: 'default',
  name: 'orders',
  ...change,
});

const codeOf = (message: PeerMessage | undefined): string | undefined =>
  message?.type === 'failed' ? message.error.code : message?.type;

describe('a channel', () => {
  test.each([
    ['that begins with something else', { type: 'end' } as const, 'PEER_PROTOCOL'],
    ['that begins with noise', Uint8Array.of(77, 1, 2), 'PEER_PROTOCOL'],
    [
      'of another version',
      Uint8Array.of(PEER_TYPES.hello, 2, 0, 0, 0, 0, 0, 0, 0),
      'PEER_PROTOCOL',
    ],
    ['for a stream that nobody leads here', hello({ name: 'others' }), 'STREAM_HELD'],
    ['for another basin', hello({ basin: 'other' }), 'STREAM_HELD'],
    ['under another token', hello({ fencingToken: 'no' }), 'FENCING_TOKEN_MISMATCH'],
  ])('%s is answered and ended', async (_, first, code) => {
    const opened = await channel(first);
    expect((await answers(opened)).map(codeOf)).toEqual([code]);
    await expect.poll(() => engine.metrics().gauges['peers.channels']).toBe(0);
  });

  test('for a read asks for one', async () => {
    const opened = await channel(hello({ purpose: 'read' }), { type: 'cancel', call: 1 });
    expect((await answers(opened)).map(codeOf)).toEqual(['PEER_PROTOCOL']);
  });

  test('answers calls in their order, cancels what waits, and ends when the other side does', async () => {
    const opened = await channel(hello(), append(1, 'a'), append(2, 'b'), {
      type: 'checkTail',
      call: 3,
      timeoutMillis: 1_000,
    });
    say(opened, { type: 'cancel', call: 99 });
    const heard: PeerMessage[] = [];
    while (heard.filter(({ type }) => type === 'acked' || type === 'tail').length < 3) {
      heard.push(decodePeerMessage((await opened.receive())!));
    }
    const of = (type: PeerMessage['type']) => heard.filter((message) => message.type === type);
    expect(of('accepted')).toMatchObject([
      { call: 1, startSeqNum: 0 },
      { call: 2, startSeqNum: 1 },
    ]);
    expect(of('acked')).toMatchObject([{ call: 1 }, { call: 2 }]);
    opened.end();
    expect(await answers(opened)).toEqual([]);
    await expect.poll(() => engine.metrics().gauges['peers.channels']).toBe(0);
  });

  test('is broken off by a call of a number in use, or a message of the other side', async () => {
    const twice = await channel(hello(), append(1, 'a'), append(1, 'b'));
    expect((await answers(twice)).map(codeOf)).toContain('PEER_PROTOCOL');
    const wrong = await channel(hello(), {
      type: 'tail',
      call: 1,
      tail: { seqNum: 1, timestamp: 1 },
    });
    expect((await answers(wrong)).map(codeOf)).toEqual(['opened', 'PEER_PROTOCOL']);
  });

  test('that goes away takes its waiting batches with it, and nothing else', async () => {
    const opened = await channel(hello(), append(1, 'a'));
    await opened.receive();
    opened.destroy();
    await expect.poll(() => engine.metrics().gauges['peers.channels']).toBe(0);
    expect(engine.metrics().gauges['peers.unacceptedBytes']).toBe(0);
    await stream.append([{ body: 'own' }]);
  });

  test('with any bytes on it harms nobody', async () => {
    const noise = fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 200 }),
      fc
        .tuple(fc.nat(14), fc.uint8Array({ maxLength: 60 }))
        .map(([type, rest]) => Buffer.concat([Uint8Array.of(type), rest])),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.constantFrom('append', 'read'),
        fc.array(noise, { maxLength: 6 }),
        async (greets, purpose, messages) => {
          const first = greets ? [hello({ purpose })] : [];
          const opened = await channel(...first, ...messages);
          opened.end();
          for (const message of await answers(opened)) expect(message.type).toBeTypeOf('string');
        },
      ),
      { numRuns: 300 },
    );
    await expect.poll(() => engine.metrics().gauges['peers.channels']).toBe(0);
    const { start } = await stream.append([{ body: 'still here' }]);
    expect(start.seqNum).toBe((await stream.checkTail()).seqNum - 1);
  });

  test('waits while the engine holds too much that is not accepted', async () => {
    // Nothing is read from a channel whose answers are not taken.
    const opened = await channel(hello());
    await opened.receive();
    for (let call = 1; call <= 5_000; call++) void opened.send(append(call, 'x'.repeat(100)));
    await expect.poll(() => engine.metrics().counters['peers.appends'] ?? 0).toBeGreaterThan(0);
    let count = 0;
    while (count < 5_000) {
      const message = decodePeerMessage((await opened.receive())!);
      if (message.type === 'acked') count++;
    }
    expect((await stream.checkTail()).seqNum).toBe(5_000);
  });
});

/** What every transport between engines must keep, whatever it is made of. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import { PEER_MESSAGE_BYTES_MAX } from '../../../src/format/peer-frame.ts';
import type { PeerChannel, Peers } from '../../../src/ports/peers.ts';

export interface PeersWorld {
  /** Three engines that may meet; the last one has another token. */
  readonly near: Peers;
  readonly far: Peers;
  readonly stranger: Peers;
  /** Breaks what stands between near and far, as the death of a process does. */
  cut(address: string): void;
  dispose(): Promise<void>;
}

export const message = (text: string): Uint8Array => new TextEncoder().encode(text);
export const textOf = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : Buffer.from(bytes).toString();

export async function errorOf(run: Promise<unknown>): Promise<EngineError> {
  try {
    await run;
  } catch (error) {
    if (EngineError.is(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

/** The channels that an engine was asked for, in order. */
export class Accepted {
  readonly #channels: PeerChannel[] = [];
  #waiting: ((channel: PeerChannel) => void)[] = [];
  count = 0;

  readonly accept = (channel: PeerChannel): void => {
    this.count++;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#channels.push(channel);
    else waiting(channel);
  };

  next(): Promise<PeerChannel> {
    const channel = this.#channels.shift();
    if (channel !== undefined) return Promise.resolve(channel);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

export function peersContract(name: string, make: () => Promise<PeersWorld>): void {
  describe(`${name} keeps the contract of peers`, () => {
    let world: PeersWorld;
    let accepted: Accepted;
    let address: string;

    beforeEach(async () => {
      world = await make();
      accepted = new Accepted();
      ({ address } = await world.far.listen(accepted.accept));
    });
    afterEach(() => world.dispose());

    async function pair(): Promise<readonly [PeerChannel, PeerChannel]> {
      const near = await world.near.open(address);
      return [near, await accepted.next()];
    }

    it('carries messages both ways, whole and in order', async () => {
      const [near, far] = await pair();
      for (let index = 0; index < 500; index++) void near.send(message(`there ${index}`));
      for (let index = 0; index < 500; index++) {
        expect(textOf(await far.receive())).toBe(`there ${index}`);
      }
      await far.send(message('back'));
      expect(textOf(await near.receive())).toBe('back');
    });

    it('carries messages of one byte and of the greatest size', async () => {
      const [near, far] = await pair();
      const great = new Uint8Array(PEER_MESSAGE_BYTES_MAX).map((_, index) => index % 251);
      void near.send(Uint8Array.of(7));
      void near.send(great);
      expect([...(await far.receive())!]).toEqual([7]);
      expect(Buffer.compare((await far.receive())!, great)).toBe(0);
    });

    it('keeps the messages of two channels apart, over one connection', async () => {
      const [near, far] = await pair();
      const [other, farOther] = await pair();
      void near.send(message('a'));
      void other.send(message('b'));
      expect(textOf(await farOther.receive())).toBe('b');
      expect(textOf(await far.receive())).toBe('a');
      expect(world.near.connections).toEqual({ accepted: 0, opened: 1 });
      expect(world.far.connections).toEqual({ accepted: 1, opened: 0 });
    });

    it('lets a sender wait for a side that does not receive, and no other channel with it', async () => {
      const [near, far] = await pair();
      const [other, farOther] = await pair();
      const chunk = new Uint8Array(512 * 1024);
      let sent = 0;
      const sending = (async () => {
        for (; sent < 40; sent++) await near.send(chunk);
      })();
      await other.send(message('goes on'));
      expect(textOf(await farOther.receive())).toBe('goes on');
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(sent).toBeLessThan(12);
      for (let index = 0; index < 40; index++) await far.receive();
      await sending;
      expect(sent).toBe(40);
    });

    it('tells the end of a side, which may go on receiving', async () => {
      const [near, far] = await pair();
      void near.send(message('last'));
      near.end();
      expect(textOf(await far.receive())).toBe('last');
      expect(await far.receive()).toBeUndefined();
      await far.send(message('answer'));
      far.end();
      expect(textOf(await near.receive())).toBe('answer');
      expect(await near.receive()).toBeUndefined();
      expect(near.isOver).toBe(true);
      expect((await errorOf(near.send(message('late')))).code).toBe('PEER_UNAVAILABLE');
    });

    it('tells the other side of a destroyed channel, and leaves the others alone', async () => {
      const [near, far] = await pair();
      const [other, farOther] = await pair();
      const waiting = errorOf(far.receive());
      near.destroy();
      near.destroy();
      expect((await waiting).code).toBe('PEER_UNAVAILABLE');
      expect((await errorOf(near.receive())).code).toBe('PEER_UNAVAILABLE');
      expect(far.isOver).toBe(true);
      await other.send(message('lives'));
      expect(textOf(await farOther.receive())).toBe('lives');
    });

    it('wakes who waits for room or for a message when the connection breaks', async () => {
      const [near, far] = await pair();
      const receiving = errorOf(near.receive());
      const sending = errorOf(
        (async () => {
          for (;;) await near.send(new Uint8Array(512 * 1024));
        })(),
      );
      await far.receive();
      world.cut(address);
      expect((await receiving).code).toBe('PEER_UNAVAILABLE');
      const lost = await sending;
      expect(lost.code).toBe('PEER_UNAVAILABLE');
      expect(lost.retryable).toBe(true);
      expect(near.isOver).toBe(true);
      const [again, farAgain] = await pair();
      await again.send(message('again'));
      expect(textOf(await farAgain.receive())).toBe('again');
    });

    it('refuses another token, tells nobody, and prints none', async () => {
      const error = await errorOf(world.stranger.open(address));
      expect(error.code).toBe('PEER_REFUSED');
      expect(JSON.stringify(error)).not.toContain('token-of');
      expect(accepted.count).toBe(0);
    });

    it('reports an address where nobody listens, and one that is none', async () => {
      await world.far.close();
      expect((await errorOf(world.near.open(address))).code).toBe('PEER_UNAVAILABLE');
      expect((await errorOf(world.near.open('no address'))).code).toBe('PEER_UNAVAILABLE');
    });

    it('gives up by a signal that has fired', async () => {
      const signal = AbortSignal.abort();
      expect((await errorOf(world.near.open(address, { signal }))).code).toBe('ABORTED');
      expect(accepted.count).toBe(0);
    });

    it('ends its channels when it is closed, twice as well', async () => {
      const [near, far] = await pair();
      const waiting = errorOf(near.receive());
      await Promise.all([world.far.close(), world.far.close()]);
      await far.receive().catch(() => undefined);
      expect((await waiting).code).toBe('PEER_UNAVAILABLE');
      await expect.poll(() => world.far.connections).toEqual({ accepted: 0, opened: 0 });
    });
  });
}

/**
 * What this engine does for others: appends, checks of the tail and reads of the streams that it
 * leads. It opens nothing for them: what it does not lead it refuses, and they ask their own gate.
 */
import { decodePeerMessage, encodePeerMessage, type PeerHello } from '../../format/peer-message.ts';
import { peerProtocolError } from '../../format/peer-frame.ts';
import { EngineError, toEngineError } from '../../lib/errors.ts';
import { waitFor } from '../../lib/wait.ts';
import type { PeerChannel, Peers } from '../../ports/peers.ts';
import type { StarPorts } from '../../../actors/ports.ts';
import type { StarActor } from '../../../actors/star.actor.ts';
import type { StreamActor } from '../../../actors/stream.actor.ts';
import { AppendService } from './append-service.ts';
import { PeerMemory } from './peer-memory.ts';
import { serveRead } from './read-service.ts';

/** Batches of all peers together that were received and not accepted; beyond it nothing is received. */
const UNACCEPTED_BYTES_MAX = 64 * 1024 * 1024;
/** How long engines that are sent away may take to go. */
const FAREWELL_MILLIS = 1_000;
/** An engine that opened a channel says at once what for. */
const GREETING_MILLIS = 5_000;

export class PeerService {
  readonly #ports: StarPorts;
  readonly #memory = new PeerMemory(UNACCEPTED_BYTES_MAX);
  readonly #channels = new Set<PeerChannel>();
  #star: StarActor | undefined;
  #closed = false;
  #onGone: () => void = () => undefined;

  constructor(ports: StarPorts, peers: Peers) {
    this.#ports = ports;
    ports.metrics.gauge('peers.connections', () => peers.connections.accepted);
    ports.metrics.gauge('peers.channels', () => this.#channels.size);
    ports.metrics.gauge('peers.unacceptedBytes', () => this.#memory.bytes);
  }

  /** Until then every stream is led by somebody else. */
  serve(star: StarActor): void {
    this.#star = star;
  }

  readonly accept = (channel: PeerChannel): void => {
    if (this.#closed) channel.destroy();
    else void this.#serve(channel);
  };

  /**
   * Sends everybody away and waits a moment until they have gone: what is on its way to here is still
   * answered, so that they know that it was not accepted.
   */
  async close(error: EngineError): Promise<void> {
    this.#closed = true;
    const farewell = encodePeerMessage({ type: 'failed', call: 0, error });
    for (const channel of this.#channels) if (!channel.isOver) void channel.send(farewell);
    const wait = { timeoutMillis: FAREWELL_MILLIS };
    await waitFor(this.#ports.clock, this.#untilGone(), wait, 'close').catch(() => undefined);
    this.kill();
  }

  kill(): void {
    this.#closed = true;
    for (const channel of this.#channels) channel.destroy();
  }

  async #untilGone(): Promise<void> {
    while (this.#channels.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onGone = resolve;
      });
    }
  }

  async #serve(channel: PeerChannel): Promise<void> {
    this.#channels.add(channel);
    try {
      const wait = { timeoutMillis: GREETING_MILLIS };
      const first = await waitFor(this.#ports.clock, channel.receive(), wait, 'greeting');
      if (first === undefined) return;
      const hello = decodePeerMessage(first);
      if (hello.type !== 'hello') throw peerProtocolError('a channel begins with a greeting');
      const actor = this.#leader(hello);
      if (hello.purpose === 'read') await serveRead(channel, this.#star!, actor);
      else await new AppendService(channel, this.#ports, actor, this.#memory).run(hello);
    } catch (cause) {
      this.#refuse(channel, toEngineError(cause));
    } finally {
      channel.end();
      this.#channels.delete(channel);
      this.#onGone();
    }
  }

  #leader({ basin, name }: PeerHello): StreamActor {
    const star = this.#star;
    const actor = star?.settings.basin === basin ? star.streams.get(name) : undefined;
    if (actor?.isLeading === true) return actor;
    throw new EngineError('STREAM_HELD', 'this engine does not lead the stream', {
      details: { name, by: star?.settings.star },
      retryAfterMillis: 100,
    });
  }

  #refuse(channel: PeerChannel, error: EngineError): void {
    const { code, message } = error;
    this.#ports.metrics.counter('peers.refused').add();
    this.#ports.log.debug({ code, message }, 'a channel of another engine ended');
    if (!channel.isOver) void channel.send(encodePeerMessage({ type: 'failed', call: 0, error }));
  }
}

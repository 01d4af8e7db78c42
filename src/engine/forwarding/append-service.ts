/**
 * One stream that this engine leads, served to another one over a channel: batches are submitted in
 * the order in which they arrive, each answer goes back as soon as it is there.
 */
import {
  decodePeerMessage,
  encodePeerMessage,
  type PeerHello,
  type PeerMessage,
  type SmallPeerMessage,
} from '../../format/peer-message.ts';
import type { PeerAppend } from '../../format/peer-append.ts';
import { peerProtocolError } from '../../format/peer-frame.ts';
import { toEngineError } from '../../lib/errors.ts';
import { forManyListeners } from '../../lib/many-listeners.ts';
import { waitFor } from '../../lib/wait.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import type { StarPorts } from '../../../actors/ports.ts';
import type { AppendBatch } from '../../../actors/append-batch.ts';
import type { StreamActor } from '../../../actors/stream.actor.ts';
import { StreamSession } from '../../../actors/stream-sessions.ts';
import type { PeerMemory } from './peer-memory.ts';

/** Calls of one channel that are not answered; beyond it nothing more is received. */
const CALLS_MAX = 4_096;
const ROOM_LOOK_MILLIS = 1_000;
/** A token that is not the stream's is refused after a confirmation, which may take so long. */
const JOIN_MILLIS = 5_000;
/** The caller keeps the deadline of an acknowledgement; here one is waited for as long as it takes. */
const ANY_MILLIS = 2 ** 31 - 1;

export class AppendService {
  readonly #channel: PeerChannel;
  readonly #ports: StarPorts;
  readonly #actor: StreamActor;
  readonly #memory: PeerMemory;
  readonly #over = forManyListeners(new AbortController());
  /** Calls that are not answered, by their numbers; what was accepted cannot be cancelled any more. */
  readonly #calls = new Map<number, AbortController>();
  #session: StreamSession | undefined;
  #wake: (() => void) | undefined;
  #lastSent: Promise<void> = Promise.resolve();

  constructor(channel: PeerChannel, ports: StarPorts, actor: StreamActor, memory: PeerMemory) {
    this.#channel = channel;
    this.#ports = ports;
    this.#actor = actor;
    this.#memory = memory;
  }

  /** @throws EngineError FENCING_TOKEN_MISMATCH, REJECTION_UNCONFIRMED; PEER_PROTOCOL */
  async run({ fencingToken }: PeerHello): Promise<void> {
    this.#session = new StreamSession(fencingToken, () => undefined);
    await this.#actor.join(this.#session, { timeoutMillis: JOIN_MILLIS });
    const { stream, config } = this.#actor.record;
    this.#send({ type: 'opened', id: stream, mode: config.mode });
    try {
      for (;;) {
        await this.#room();
        const message = await this.#channel.receive();
        if (message === undefined) return;
        this.#handle(decodePeerMessage(message), message.length);
      }
    } finally {
      this.#actor.part(this.#session);
      this.#over.abort();
      for (const controller of this.#calls.values()) controller.abort();
    }
  }

  #handle(message: PeerMessage, bytes: number): void {
    switch (message.type) {
      case 'append':
        void this.#append(message, bytes, this.#begin(message.call));
        return;
      case 'checkTail':
        void this.#checkTail(message.call, message.timeoutMillis, this.#begin(message.call));
        return;
      case 'cancel':
        this.#calls.get(message.call)?.abort();
        return;
      default:
        throw peerProtocolError('a message of the other side', { type: message.type });
    }
  }

  async #append(message: PeerAppend, bytes: number, signal: AbortSignal): Promise<void> {
    const { call, records, timeoutMillis, matchSeqNum, fencingToken } = message;
    const conditions = {
      ...(matchSeqNum === undefined ? {} : { matchSeqNum }),
      ...(fencingToken === undefined ? {} : { fencingToken }),
    };
    const { metrics } = this.#ports;
    metrics.counter('peers.appends').add();
    metrics.counter('peers.appendBytes').add(bytes);
    this.#memory.take(bytes);
    let batch: AppendBatch;
    try {
      this.#throwIfEnded();
      batch = await this.#actor.submit(records, {
        ...conditions,
        session: this.#session,
        signal,
        timeoutMillis: timeoutMillis ?? ANY_MILLIS,
      });
    } catch (error) {
      this.#finish(call, { type: 'failed', call, error: toEngineError(error) });
      return;
    } finally {
      this.#memory.release(bytes);
    }
    const { startSeqNum, endSeqNum } = batch;
    this.#send({ type: 'accepted', call, startSeqNum, endSeqNum });
    try {
      const ack = await batch.ack({ signal: this.#over.signal, timeoutMillis: ANY_MILLIS });
      this.#finish(call, { type: 'acked', call, ...ack });
    } catch (error) {
      this.#finish(call, { type: 'failed', call, error: toEngineError(error) });
    }
  }

  async #checkTail(
    call: number,
    timeoutMillis: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      this.#throwIfEnded();
      const wait = { signal, timeoutMillis };
      await waitFor(this.#ports.clock, this.#actor.confirm(), wait, 'checkTail');
      this.#finish(call, { type: 'tail', call, tail: this.#actor.tailPosition });
    } catch (error) {
      this.#finish(call, { type: 'failed', call, error: toEngineError(error) });
    }
  }

  /** A newer token ended what was opened under an older one. */
  #throwIfEnded(): void {
    if (this.#session?.ended !== undefined) throw this.#session.ended;
  }

  #begin(call: number): AbortSignal {
    if (this.#calls.has(call)) throw peerProtocolError('a call of a number in use', { call });
    const controller = new AbortController();
    this.#calls.set(call, controller);
    return controller.signal;
  }

  #finish(call: number, answer: SmallPeerMessage): void {
    this.#calls.delete(call);
    this.#send(answer);
    this.#tell();
  }

  #send(message: SmallPeerMessage): void {
    if (this.#channel.isOver) return;
    this.#lastSent = this.#channel.send(encodePeerMessage(message)).catch(() => undefined);
  }

  /** Nothing is received while answers pile up, or batches wait that were received before. */
  async #room(): Promise<void> {
    await this.#lastSent;
    while (this.#calls.size >= CALLS_MAX || !this.#memory.hasRoom(0)) {
      if (this.#channel.isOver) return;
      // Nobody tells that the other side went away: then its batches hold the room of others.
      const look = this.#ports.clock.setTimeout(this.#tell, ROOM_LOOK_MILLIS);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        this.#memory.wait(this.#tell);
      });
      this.#ports.clock.clearTimeout(look);
      this.#memory.forget(this.#tell);
    }
  }

  readonly #tell = (): void => {
    this.#wake?.();
    this.#wake = undefined;
  };
}

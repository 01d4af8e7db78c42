/**
 * One stream at the engine that leads it, over a channel of its own: appends in order, checks of the
 * tail. Whatever was sent and not answered when the channel ends is indeterminate (A5).
 */
import {
  decodePeerMessage,
  encodePeerMessage,
  type PeerMessage,
} from '../../format/peer-message.ts';
import { appendMessageBytes, encodePeerAppend } from '../../format/peer-append.ts';
import { peerProtocolError } from '../../format/peer-frame.ts';
import type { StoredRecord } from '../../format/records.ts';
import type { TimerHandle } from '../../lib/clock.ts';
import { EngineError, toEngineError } from '../../lib/errors.ts';
import {
  abortedError,
  deadlineError,
  deferred,
  throwIfAborted,
  waitFor,
  type WaitOptions,
} from '../../lib/wait.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import type { CheckedBatch } from '../../protocol/batch.ts';
import type { ReadRequest } from '../../../actors/stream-reader.ts';
import type { AppendOptions, Position, Stream, Ticket } from '../api.ts';
import { connect, greet, type Greeting, type RemoteHost } from './remote-host.ts';
import { readRemotely } from './remote-read.ts';
import { RemoteTicket } from './remote-ticket.ts';
import type { Target } from './target.ts';

/** The holder is told a little less than the caller gave, so that its answer is here in time. */
const MARGIN_SHARE = 0.1;
const MARGIN_MILLIS_MAX = 250;

/** Beyond this a batch waits here, where it is known not to have been sent. */
const CROWDING_BYTES_MAX = 256 * 1024;

interface Unaccepted {
  resolve(ticket: RemoteTicket): void;
  reject(error: EngineError): void;
}

export class RemoteSession implements Target {
  readonly id: string;
  readonly mode: Stream['mode'];
  readonly address: string;
  onRoom = (): void => undefined;
  readonly #host: RemoteHost;
  readonly #greeting: Greeting;
  readonly #channel: PeerChannel;
  readonly #unaccepted = new Map<number, Unaccepted>();
  readonly #tickets = new Map<number, RemoteTicket>();
  readonly #tails = new Map<number, ReturnType<typeof deferred<Position>>>();
  readonly #quiet: (() => void)[] = [];
  readonly #tellRoom = (): void => this.onRoom();
  #calls = 0;
  /** Handed to the transport, which has not said that there is room again. */
  #crowding = 0;
  /** Takes no more calls; those under way are still answered. */
  #retired: EngineError | undefined;
  #isOver = false;

  private constructor(
    host: RemoteHost,
    address: string,
    greeting: Greeting,
    opened: { readonly channel: PeerChannel; readonly id: string; readonly mode: Stream['mode'] },
  ) {
    this.#host = host;
    this.address = address;
    this.#greeting = greeting;
    this.#channel = opened.channel;
    this.id = opened.id;
    this.mode = opened.mode;
    void this.#listen();
  }

  /** @throws EngineError PEER_UNAVAILABLE, PEER_REFUSED; what the holder answers; ABORTED, DEADLINE_EXCEEDED */
  static async open(
    host: RemoteHost,
    address: string,
    greeting: Greeting,
    options: WaitOptions,
  ): Promise<RemoteSession> {
    const channel = await connect(host, address, options);
    try {
      void channel.send(greet('append', greeting));
      const first = await waitFor(host.clock, channel.receive(), options, 'open');
      const answer = first === undefined ? undefined : decodePeerMessage(first);
      if (answer?.type === 'failed') throw answer.error;
      if (answer?.type !== 'opened') throw peerProtocolError('no answer to a greeting');
      return new RemoteSession(host, address, greeting, { channel, ...answer });
    } catch (error) {
      channel.destroy();
      throw error;
    }
  }

  hasRoom(batch: CheckedBatch): boolean {
    if (this.#retired !== undefined) return true;
    if (this.#crowding >= CROWDING_BYTES_MAX) return false;
    const memory = this.#host.memoryOf(this.address);
    if (memory.hasRoom(appendMessageBytes(batch.encodedBytes, batch.records.length))) return true;
    memory.wait(this.#tellRoom);
    return false;
  }

  submit(batch: CheckedBatch, request: AppendOptions): Promise<Ticket> {
    const { signal, timeoutMillis, matchSeqNum, fencingToken } = request;
    try {
      throwIfAborted(signal, 'submit');
      this.#throwIfOver();
      const call = this.#nextCall();
      const message = encodePeerAppend({
        type: 'append',
        call,
        timeoutMillis: timeoutMillis === undefined ? undefined : lessMargin(timeoutMillis),
        matchSeqNum,
        fencingToken,
        records: batch.records,
        encodedBytes: batch.encodedBytes,
      });
      return new Promise<Ticket>((resolve, reject) => {
        this.#expect(call, message.length, { signal, timeoutMillis, resolve, reject });
        this.#send(message);
      });
    } catch (error) {
      return Promise.reject(toEngineError(error));
    }
  }

  async checkTail(options: WaitOptions): Promise<Position> {
    throwIfAborted(options.signal, 'checkTail');
    this.#throwIfOver();
    const call = this.#nextCall();
    const tail = deferred<Position>();
    this.#tails.set(call, tail);
    const { timeoutMillis } = options;
    this.#send(encodePeerMessage({ type: 'checkTail', call, timeoutMillis }));
    try {
      return await waitFor(this.#host.clock, tail.promise, options, 'checkTail');
    } finally {
      if (this.#tails.delete(call)) {
        this.#cancel(call);
        this.#tellIfQuiet();
      }
    }
  }

  read(
    request: ReadRequest,
    onStart: (position: number) => void,
  ): AsyncGenerator<readonly StoredRecord[], void, void> {
    return readRemotely(this.#host, this.address, this.#greeting, { ...request, onStart });
  }

  async close(options: WaitOptions): Promise<void> {
    try {
      await waitFor(this.#host.clock, this.#untilQuiet(), options, 'close');
      this.#channel.end();
    } catch (error) {
      this.abandon(toEngineError(error));
      throw error;
    }
  }

  abandon(error: EngineError): void {
    this.#channel.destroy();
    this.#end(error);
  }

  #expect(
    call: number,
    bytes: number,
    waiting: WaitOptions & {
      readonly resolve: (ticket: Ticket) => void;
      readonly reject: (error: EngineError) => void;
    },
  ): void {
    const { signal, timeoutMillis, resolve, reject } = waiting;
    const { clock } = this.#host;
    const memory = this.#host.memoryOf(this.address);
    memory.take(bytes);
    let timer: TimerHandle | undefined;
    const settle = (): void => {
      this.#unaccepted.delete(call);
      if (timer !== undefined) clock.clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      memory.release(bytes);
      this.#tellIfQuiet();
    };
    const unaccepted: Unaccepted = {
      resolve: (ticket) => {
        settle();
        resolve(ticket);
      },
      reject: (error) => {
        settle();
        reject(error);
      },
    };
    const giveUp = (error: EngineError): void => {
      this.#cancel(call);
      unaccepted.reject(error);
    };
    const onAbort = (): void =>
      giveUp(
        new EngineError('ABORTED', 'submit was given up by its signal after it was sent', {
          cause: abortedError(signal!, 'submit').cause,
          sideEffects: 'possible',
        }),
      );
    if (timeoutMillis !== undefined) {
      timer = clock.setTimeout(
        () => giveUp(this.#indeterminate(deadlineError('submit', timeoutMillis))),
        timeoutMillis,
      );
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#unaccepted.set(call, unaccepted);
  }

  async #listen(): Promise<void> {
    try {
      for (;;) {
        const message = await this.#channel.receive();
        if (message === undefined) break;
        this.#handle(decodePeerMessage(message));
      }
      this.#channel.end();
      this.#end(this.#unavailable());
    } catch (error) {
      this.#channel.destroy();
      this.#end(toEngineError(error));
    }
  }

  #handle(message: PeerMessage): void {
    switch (message.type) {
      case 'accepted': {
        const ticket = new RemoteTicket(message, this.#host);
        const unaccepted = this.#unaccepted.get(message.call);
        // Whoever gave it up before has its answer already.
        if (unaccepted === undefined) return;
        this.#tickets.set(message.call, ticket);
        unaccepted.resolve(ticket);
        return;
      }
      case 'acked':
        this.#tickets.get(message.call)?.resolve(message);
        this.#forgetTicket(message.call);
        return;
      case 'tail':
        this.#tails.get(message.call)?.resolve(message.tail);
        this.#tails.delete(message.call);
        this.#tellIfQuiet();
        return;
      case 'failed':
        if (message.call === 0) this.#retire(message.error);
        else this.#failed(message.call, message.error);
        return;
      default:
        throw peerProtocolError('a message of the other side', { type: message.type });
    }
  }

  #failed(call: number, error: EngineError): void {
    const unaccepted = this.#unaccepted.get(call);
    const tail = this.#tails.get(call);
    if (unaccepted !== undefined) unaccepted.reject(error);
    else if (tail !== undefined) {
      this.#tails.delete(call);
      tail.reject(error);
      this.#tellIfQuiet();
    } else {
      this.#tickets.get(call)?.reject(error);
      this.#forgetTicket(call);
    }
  }

  #forgetTicket(call: number): void {
    this.#tickets.delete(call);
    this.#tellIfQuiet();
  }

  /** The holder wants no more of it: it goes when everything under way is answered. */
  #retire(reason: EngineError): void {
    if (this.#retired !== undefined) return;
    this.#retired = reason.sideEffects === 'none' ? reason : this.#unavailable(reason);
    void this.#untilQuiet().then(() => this.#channel.end());
    this.onRoom();
  }

  #end(reason: EngineError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#retired ??= reason.sideEffects === 'none' ? reason : this.#unavailable(reason);
    const lost = this.#indeterminate(reason);
    for (const unaccepted of [...this.#unaccepted.values()]) unaccepted.reject(lost);
    for (const ticket of this.#tickets.values()) ticket.reject(lost);
    for (const tail of this.#tails.values()) tail.reject(this.#retired);
    this.#tickets.clear();
    this.#tails.clear();
    this.#host.memoryOf(this.address).forget(this.#tellRoom);
    this.#tellIfQuiet();
    this.onRoom();
  }

  #send(message: Uint8Array): void {
    this.#crowding += message.length;
    const goOn = (): void => {
      this.#crowding -= message.length;
      this.onRoom();
    };
    this.#channel.send(message).then(goOn, goOn);
  }

  #cancel(call: number): void {
    if (!this.#isOver) this.#send(encodePeerMessage({ type: 'cancel', call }));
  }

  #nextCall(): number {
    this.#calls = (this.#calls + 1) % 0xffff_ffff;
    return this.#calls;
  }

  #throwIfOver(): void {
    if (this.#channel.isOver) this.#end(this.#unavailable());
    if (this.#retired !== undefined) throw this.#retired;
  }

  #untilQuiet(): Promise<void> {
    return new Promise((resolve) => {
      this.#quiet.push(resolve);
      this.#tellIfQuiet();
    });
  }

  #tellIfQuiet(): void {
    if (this.#unaccepted.size + this.#tickets.size + this.#tails.size > 0) return;
    for (const resolve of this.#quiet.splice(0)) resolve();
  }

  #unavailable(cause?: EngineError): EngineError {
    return new EngineError('PEER_UNAVAILABLE', 'the engine that led the stream is not there', {
      details: { address: this.address },
      ...(cause === undefined ? {} : { cause }),
    });
  }

  #indeterminate(cause: EngineError): EngineError {
    return new EngineError('INDETERMINATE', 'the holder of the stream did not answer', {
      sideEffects: 'possible',
      details: { address: this.address, why: cause.code },
      cause,
    });
  }
}

function lessMargin(timeoutMillis: number): number {
  return timeoutMillis - Math.min(MARGIN_MILLIS_MAX, timeoutMillis * MARGIN_SHARE);
}

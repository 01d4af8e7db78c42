/** A channel over one stream of an HTTP/2 connection; its flow control is the channel's window. */
import { constants, type Http2Stream } from 'node:http2';
import { PEER_END_FRAME, peerFrameHead, PeerFrameSplitter } from '../../format/peer-frame.ts';
import { EngineError } from '../../lib/errors.ts';
import type { PeerChannel } from '../../ports/peers.ts';

export class Http2Channel implements PeerChannel {
  readonly #stream: Http2Stream;
  readonly #peer: string;
  readonly #splitter = new PeerFrameSplitter();
  readonly #arrived: Uint8Array[] = [];
  #roomWaiters: (() => void)[] = [];
  #wake: (() => void) | undefined;
  #failure: EngineError | undefined;
  #otherEnded = false;
  #ended = false;
  #corked = false;

  /** @param peer - names the other side in errors. */
  constructor(stream: Http2Stream, peer: string) {
    this.#stream = stream;
    this.#peer = peer;
    stream.on('data', (chunk: Uint8Array) => this.#onData(chunk));
    stream.on('end', () => {
      // Node reports the end of a stream that was reset or cut off, too.
      if (!this.#splitter.hasEnded) this.#fail(undefined);
      this.#otherEnded = true;
      this.#tell();
    });
    stream.on('error', (cause) => this.#fail(cause));
    stream.on('drain', () => this.#tellRoom());
    stream.on('close', () => {
      if (!(this.#ended && this.#otherEnded)) this.#fail(undefined);
      this.#tell();
      this.#tellRoom();
    });
  }

  get isOver(): boolean {
    return this.#failure !== undefined || (this.#ended && this.#otherEnded);
  }

  send(message: Uint8Array): Promise<void> {
    const sent = this.#send(message);
    // Whoever does not wait for room learns of the end by what it receives.
    sent.catch(() => undefined);
    return sent;
  }

  async #send(message: Uint8Array): Promise<void> {
    const stream = this.#stream;
    if (this.#failure !== undefined || this.#ended || !stream.writable) throw this.#overError();
    if (!this.#corked) {
      // What is sent in one turn leaves together.
      this.#corked = true;
      stream.cork();
      process.nextTick(() => {
        this.#corked = false;
        stream.uncork();
      });
    }
    stream.write(peerFrameHead(message));
    stream.write(message);
    while (stream.writableNeedDrain && !this.#hasFailed()) {
      await new Promise<void>((resolve) => this.#roomWaiters.push(resolve));
    }
    if (this.#hasFailed()) throw this.#overError();
  }

  async receive(): Promise<Uint8Array | undefined> {
    for (;;) {
      const message = this.#arrived.shift();
      if (message !== undefined) return message;
      if (this.#failure !== undefined) throw this.#overError();
      if (this.#otherEnded) return undefined;
      this.#stream.resume();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stream.end(PEER_END_FRAME);
  }

  destroy(): void {
    this.#fail(undefined);
    this.#arrived.length = 0;
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  #onData(chunk: Uint8Array): void {
    if (this.#failure !== undefined) return;
    try {
      this.#arrived.push(...this.#splitter.push(chunk));
    } catch (error) {
      this.#failure = EngineError.is(error) ? error : this.#overError();
      this.#stream.close(constants.NGHTTP2_PROTOCOL_ERROR);
    }
    if (this.#arrived.length > 0) this.#stream.pause();
    this.#tell();
  }

  #fail(cause: unknown): void {
    this.#failure ??= unavailable(this.#peer, 'the connection to another engine broke', cause);
    this.#tell();
    this.#tellRoom();
  }

  #tell(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  #tellRoom(): void {
    const waiters = this.#roomWaiters;
    this.#roomWaiters = [];
    for (const resolve of waiters) resolve();
  }

  /** Changes while a promise is awaited, which the compiler does not see. */
  #hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  #overError(): EngineError {
    return (
      this.#failure ?? unavailable(this.#peer, 'the channel to another engine is over', undefined)
    );
  }
}

export function unavailable(address: string, summary: string, cause: unknown): EngineError {
  const code = (cause as { code?: unknown } | undefined)?.code;
  return new EngineError('PEER_UNAVAILABLE', summary, {
    details: { address, why: typeof code === 'string' ? code : undefined },
    ...(cause === undefined ? {} : { cause }),
    retryAfterMillis: 250,
  });
}

/** The one connection to an engine at an address, opened when a channel is wanted. */
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { EngineError } from '../../lib/errors.ts';
import { abortedError, deadlineError, type WaitOptions } from '../../lib/wait.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import { Http2Channel, unavailable } from './http2-channel.ts';
import { keepAlive, PEER_PATH } from './http2-session.ts';
import { SESSION_MEMORY_MIB, type PeerLimits } from './limits.ts';
import { authorizationOf } from './token.ts';

export class PeerConnection {
  readonly address: string;
  readonly #session: ClientHttp2Session;
  readonly #limits: PeerLimits;
  #channels = 0;
  #failure: unknown;
  #idle: NodeJS.Timeout | undefined;

  constructor(address: string, limits: PeerLimits, onOver: (over: PeerConnection) => void) {
    this.address = address;
    this.#limits = limits;
    const session = connect(`http://${address}`, {
      maxSessionMemory: SESSION_MEMORY_MIB,
      settings: { enablePush: false, initialWindowSize: limits.windowBytes },
    });
    this.#session = session;
    const giveUp = setTimeout(() => session.destroy(), limits.connectMillis);
    const stopPings = keepAlive(session, limits.pingMillis);
    // Made once the other side has spoken HTTP/2, not as soon as a socket is open.
    session.on('remoteSettings', () => clearTimeout(giveUp));
    session.on('connect', () => {
      session.setLocalWindowSize(4 * limits.windowBytes);
    });
    session.on('error', (cause) => {
      this.#failure = cause;
    });
    session.on('close', () => {
      clearTimeout(giveUp);
      clearTimeout(this.#idle);
      stopPings();
      onOver(this);
    });
  }

  /** False once no further channel can be opened. */
  get isUsable(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /** @throws EngineError PEER_UNAVAILABLE, PEER_REFUSED, ABORTED, DEADLINE_EXCEEDED */
  open(token: string, options: WaitOptions): Promise<PeerChannel> {
    clearTimeout(this.#idle);
    const stream = this.#session.request(
      {
        [constants.HTTP2_HEADER_METHOD]: constants.HTTP2_METHOD_POST,
        [constants.HTTP2_HEADER_PATH]: PEER_PATH,
        [constants.HTTP2_HEADER_AUTHORIZATION]: authorizationOf(token),
      },
      { endStream: false },
    );
    this.#channels++;
    stream.on('close', () => {
      this.#channels--;
      if (this.#channels > 0) return;
      this.#idle = setTimeout(() => this.#session.close(), this.#limits.idleMillis).unref();
    });
    return this.#answered(stream, options);
  }

  destroy(): void {
    this.#session.destroy();
  }

  #answered(stream: ClientHttp2Stream, options: WaitOptions): Promise<PeerChannel> {
    const { signal, timeoutMillis } = options;
    return new Promise<PeerChannel>((resolve, reject) => {
      const finish = (outcome: EngineError | PeerChannel): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        if (!EngineError.is(outcome)) {
          resolve(outcome);
          return;
        }
        stream.on('error', () => undefined);
        stream.close(constants.NGHTTP2_CANCEL);
        reject(outcome);
      };
      const onAbort = (): void => finish(abortedError(signal!, 'connect'));
      const timer =
        timeoutMillis === undefined
          ? undefined
          : setTimeout(() => finish(deadlineError('connect', timeoutMillis)), timeoutMillis);
      signal?.addEventListener('abort', onAbort, { once: true });
      const broke = (cause?: unknown): void =>
        finish(
          unavailable(this.address, 'another engine cannot be reached', cause ?? this.#failure),
        );
      stream.on('error', broke);
      stream.on('close', () => broke());
      stream.on('response', (headers) => {
        const status = headers[':status'];
        stream.removeListener('error', broke);
        if (status === constants.HTTP_STATUS_OK) finish(new Http2Channel(stream, this.address));
        else finish(refused(this.address, status));
      });
    });
  }
}

function refused(address: string, status: number | undefined): EngineError {
  const summary =
    status === constants.HTTP_STATUS_UNAUTHORIZED
      ? 'the engine there wants another token'
      : 'the engine there does not speak this version';
  return new EngineError('PEER_REFUSED', summary, { details: { address, status } });
}

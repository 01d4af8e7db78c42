/**
 * The listening side: accepts channels of engines that show the token, within bounds. Whoever does
 * not show it is answered before anything of its body is kept.
 */
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { EngineError } from '../../lib/errors.ts';
import type { Log } from '../../ports/log.ts';
import type { PeerChannel } from '../../ports/peers.ts';
import { Http2Channel } from './http2-channel.ts';
import { keepAlive, PEER_PATH } from './http2-session.ts';
import { SESSION_MEMORY_MIB, type PeerLimits } from './limits.ts';
import { authorizes } from './token.ts';

export interface PeerServerOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly log: Log;
  readonly limits: PeerLimits;
  readonly accept: (channel: PeerChannel) => void;
}

export class PeerServer {
  readonly #options: PeerServerOptions;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();

  private constructor(options: PeerServerOptions) {
    const { limits } = options;
    this.#options = options;
    this.#server = createServer({
      maxSessionMemory: SESSION_MEMORY_MIB,
      settings: {
        enablePush: false,
        initialWindowSize: limits.windowBytes,
        maxConcurrentStreams: limits.channelsPerConnection,
        maxHeaderListSize: limits.headerBytes,
      },
    });
    this.#server.maxConnections = limits.connections;
    this.#server.on('session', (session) => this.#onSession(session));
  }

  /** @throws EngineError INVALID_OPTION when the place cannot be had. */
  static async listen(options: PeerServerOptions): Promise<PeerServer> {
    const server = new PeerServer(options);
    const { host, port } = options;
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', (cause: NodeJS.ErrnoException) => {
        reject(
          new EngineError('INVALID_OPTION', 'no peer can be listened for there', {
            details: { option: 'listen', host, port, why: cause.code },
            cause,
          }),
        );
      });
      server.#server.listen({ host, port }, resolve);
    });
    server.#server.on('error', ({ message }) => options.log.warn({ message }, 'peer server'));
    return server;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : this.#options.port;
  }

  get connectionCount(): number {
    return this.#sessions.size;
  }

  /** What was sent may still go out for a moment. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    const timer = setTimeout(() => {
      for (const session of this.#sessions) session.destroy();
    }, this.#options.limits.flushMillis);
    await closed;
    clearTimeout(timer);
  }

  #onSession(session: ServerHttp2Session): void {
    const { limits, log } = this.#options;
    const remote = remoteOf(session);
    this.#sessions.add(session);
    session.on('error', ({ message }) => log.warn({ remote, message }, 'a peer broke off'));
    session.setLocalWindowSize(4 * limits.windowBytes);
    const stopPings = keepAlive(session, limits.pingMillis);
    let channels = 0;
    let timer = setTimeout(() => {
      log.warn({ remote }, 'a connection showed no token in time');
      session.destroy();
    }, limits.headerMillis).unref();
    session.on('close', () => {
      this.#sessions.delete(session);
      clearTimeout(timer);
      stopPings();
    });
    session.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      stream.on('error', () => undefined);
      const status = this.#judge(headers);
      if (status !== constants.HTTP_STATUS_OK) {
        log.warn({ remote, status }, 'a peer was refused');
        this.#refuse(session, stream, status);
        return;
      }
      clearTimeout(timer);
      channels++;
      stream.on('close', () => {
        channels--;
        if (channels > 0 || session.closed) return;
        timer = setTimeout(() => session.close(), limits.idleMillis).unref();
      });
      stream.respond({ [constants.HTTP2_HEADER_STATUS]: status });
      this.#options.accept(new Http2Channel(stream, remote));
    });
  }

  /** The token first: without it nothing is said about anything else. */
  #judge(headers: IncomingHttpHeaders): number {
    if (!authorizes(headers.authorization, this.#options.token)) {
      return constants.HTTP_STATUS_UNAUTHORIZED;
    }
    const isKnown =
      headers[constants.HTTP2_HEADER_METHOD] === constants.HTTP2_METHOD_POST &&
      headers[constants.HTTP2_HEADER_PATH] === PEER_PATH;
    return isKnown ? constants.HTTP_STATUS_OK : constants.HTTP_STATUS_NOT_FOUND;
  }

  #refuse(session: ServerHttp2Session, stream: ServerHttp2Stream, status: number): void {
    // Without a listener this drops what arrives.
    stream.resume();
    stream.respond({ [constants.HTTP2_HEADER_STATUS]: status }, { endStream: true });
    stream.close(constants.NGHTTP2_NO_ERROR);
    session.close();
    setTimeout(() => session.destroy(), this.#options.limits.flushMillis).unref();
  }
}

function remoteOf(session: ServerHttp2Session): string {
  const { remoteAddress = 'unknown', remotePort = 0 } = session.socket;
  return `${remoteAddress}:${remotePort}`;
}

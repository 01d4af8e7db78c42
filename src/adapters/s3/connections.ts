import { buildConnector, Pool, type Dispatcher } from 'undici';
import type { BucketAddress } from './address.ts';
import { BodyTracker } from './body-tracker.ts';
import { Exchange, type Reply, type RequestOptions } from './exchange.ts';

export interface ConnectionOptions {
  readonly address: BucketAddress;
  /** At least as many as calls at once, so that none waits for the end of another. */
  readonly connections: number;
  readonly connectTimeoutMillis: number;
  /** For the head of an answer, and between two parts of its body. */
  readonly answerTimeoutMillis: number;
  /** Certificates (PEM) that are trusted instead of those of the system. */
  readonly ca?: string | undefined;
}

/** Shorter than servers keep an idle connection open: a request on one they close may be lost. */
const KEEP_ALIVE_MILLIS = 4_000;
/** Where the server says how long it keeps one open, so much earlier. */
const KEEP_ALIVE_MARGIN_MILLIS = 2_000;

/**
 * The connections to one bucket. One request at a time on each: with more, an answer that is late
 * delays those behind it, and a connection that breaks has them sent again without asking.
 */
export class Connections {
  readonly #pool: Pool;
  readonly #bodies = new BodyTracker();

  constructor(options: ConnectionOptions) {
    const { address, ca, connectTimeoutMillis: timeout } = options;
    const connect = buildConnector({ timeout, ...(ca === undefined ? {} : { ca }) });
    this.#pool = new Pool(address.origin, {
      connections: options.connections,
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MILLIS,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MILLIS,
      headersTimeout: options.answerTimeoutMillis,
      bodyTimeout: options.answerTimeoutMillis,
      connect: (to, done) => {
        connect(to, (...[error, socket]) => {
          if (error !== null) return done(error, null);
          this.#bodies.watch(socket);
          done(null, socket);
        });
      },
    });
  }

  /**
   * Sends one request, once. Resolves when nothing of its body is in use any more.
   *
   * @throws what the network said, after the connection was ended; `abort` ends it too.
   */
  send(request: RequestOptions, onExchange?: (exchange: Exchange) => void): Promise<Reply> {
    const exchange = new Exchange(request, this.#bodies);
    onExchange?.(exchange);
    const { method, path, headers, body } = request;
    const options: Dispatcher.DispatchOptions = {
      path,
      method,
      headers: headers as string[],
      body: body ?? null,
      // Also what could be: whether to send again is decided by who knows what an answer means.
      idempotent: false,
    };
    this.#pool.dispatch(options, exchange);
    return exchange.reply;
  }

  /** Ends all connections; what is under way fails. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** Calls from this engine to those that lead the streams it was asked for. */
import { EngineError } from '../../lib/errors.ts';
import type { WaitOptions } from '../../lib/wait.ts';
import type { Peers } from '../../ports/peers.ts';
import type { CheckedBatch } from '../../protocol/batch.ts';
import type { ResolvedSettings } from '../../protocol/settings.ts';
import type { StarPorts } from '../../../actors/ports.ts';
import type { StarActor } from '../../../actors/star.actor.ts';
import type { OpenOptions, Stream } from '../api.ts';
import { StreamHandle } from '../stream-handle.ts';
import { ForwardedStream } from './forwarded-stream.ts';
import { LocalTarget } from './local-target.ts';
import { PeerMemory } from './peer-memory.ts';
import type { RemoteHost } from './remote-host.ts';
import { RemoteSession } from './remote-session.ts';
import { isMoved, type Target } from './target.ts';

/** Bytes that are on their way to one engine and not accepted by it; beyond it batches wait. */
const PEER_BYTES_MAX = 8 * 1024 * 1024;
/** An attempt to reach the holder; callers keep their own deadlines. */
const CONNECT_MILLIS = 5_000;

/** What one forwarded handle needs of its engine. */
export interface ForwardedHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  /** One attempt: this engine as the leader, or the holder that the gate names. */
  find(fencingToken: string | undefined, signal: AbortSignal): Promise<Target>;
  count(batch: CheckedBatch): void;
  forget(stream: ForwardedStream): void;
}

export class Forwarder {
  readonly #star: StarActor;
  readonly #remote: RemoteHost;
  readonly #memories = new Map<string, PeerMemory>();
  readonly #streams = new Set<ForwardedStream>();

  constructor(peers: Peers, star: StarActor) {
    this.#star = star;
    const { ports, settings } = star;
    this.#remote = {
      peers,
      clock: ports.clock,
      defaultTimeoutMillis: settings.defaultTimeoutMillis || undefined,
      memoryOf: (address) => this.#memoryOf(address),
    };
    ports.metrics.gauge('forward.streams', () => this.#streams.size);
    ports.metrics.gauge('forward.connections', () => peers.connections.opened);
    ports.metrics.gauge('forward.unacceptedBytes', () =>
      [...this.#memories.values()].reduce((sum, { bytes }) => sum + bytes, 0),
    );
  }

  /**
   * A handle of a stream that another engine holds, or held a moment ago.
   *
   * @throws EngineError as `Engine.open` does; PEER_REFUSED
   */
  async open(name: string, options: OpenOptions): Promise<Stream> {
    const { fencingToken, ...wait } = options;
    const { ports, settings } = this.#star;
    const stream = new ForwardedStream(
      {
        ports,
        settings,
        find: (token, signal) => this.#find(name, token, signal),
        count: (batch) => {
          ports.metrics.counter('forward.appends').add();
          ports.metrics.counter('forward.appendBytes').add(batch.meteredBytes);
        },
        forget: (closed) => this.#streams.delete(closed),
      },
      name,
      fencingToken,
    );
    this.#streams.add(stream);
    try {
      return await stream.opened(wait);
    } catch (error) {
      await stream.close().catch(() => undefined);
      throw error;
    }
  }

  /** Waits for what forwarded handles have under way. */
  async closeStreams(options: WaitOptions): Promise<void> {
    await Promise.all([...this.#streams].map((stream) => stream.close(options)));
  }

  /** Lets go at once of everything. */
  abandonAll(error: EngineError): void {
    for (const stream of [...this.#streams]) stream.abandon(error);
  }

  async #find(
    name: string,
    fencingToken: string | undefined,
    signal: AbortSignal,
  ): Promise<Target> {
    const { metrics } = this.#star.ports;
    metrics.counter('forward.searches').add();
    try {
      const request = fencingToken === undefined ? { signal } : { signal, fencingToken };
      return new LocalTarget(this.#star, await StreamHandle.open(this.#star, name, request));
    } catch (refusal) {
      const address = holderOf(refusal);
      if (address === undefined) throw refusal;
      const { basin } = this.#star.settings;
      try {
        const wait = { signal, timeoutMillis: CONNECT_MILLIS };
        const greeting = { basin, name, fencingToken };
        return await RemoteSession.open(this.#remote, address, greeting, wait);
      } catch (cause) {
        // The gate names a holder that is not there (any more): come back, it will name another.
        if (isMoved(cause) || isLate(cause)) throw unreachable(refusal as EngineError, cause);
        throw cause;
      }
    }
  }

  #memoryOf(address: string): PeerMemory {
    const known = this.#memories.get(address);
    if (known !== undefined) return known;
    const memory = new PeerMemory(PEER_BYTES_MAX);
    this.#memories.set(address, memory);
    return memory;
  }
}

/** Where the engine that holds the stream is reached, if the refusal says so. */
export function holderOf(refusal: unknown): string | undefined {
  if (!EngineError.is(refusal) || refusal.code !== 'STREAM_HELD') return undefined;
  const { address } = refusal.details;
  return typeof address === 'string' ? address : undefined;
}

function isLate(cause: unknown): boolean {
  return EngineError.is(cause) && cause.code === 'DEADLINE_EXCEEDED';
}

function unreachable(refusal: EngineError, cause: unknown): EngineError {
  const { summary, details, retryAfterMillis } = refusal;
  return new EngineError('STREAM_HELD', summary, {
    details: { ...details, why: EngineError.is(cause) ? cause.code : undefined },
    ...(retryAfterMillis === undefined ? {} : { retryAfterMillis }),
    cause,
  });
}

/** The engine on ports that somebody else made: the component factory, or the simulator. */
import { assert } from '../lib/assert.ts';
import { EngineError } from '../lib/errors.ts';
import { checkWaitOptions, throwIfAborted, waitFor, type WaitOptions } from '../lib/wait.ts';
import type { MetricsSnapshot } from '../lib/metrics.ts';
import { epochsPrefix } from '../protocol/keys.ts';
import {
  epochRecord,
  parseRecordValue,
  type EpochRecord,
  type StreamConfig,
  type StreamRecord,
} from '../protocol/records.ts';
import { checkQuorum, type ResolvedSettings } from '../protocol/settings.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';
import type { Peers } from '../ports/peers.ts';
import { listStreamRecords, lookUpStream, registerStream } from '../../actors/names.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { StarActor, type StarOptions } from '../../actors/star.actor.ts';
import { notFoundError } from '../../actors/stream-errors.ts';
import type { StreamActor } from '../../actors/stream.actor.ts';
import type {
  DepartureStatus,
  DrainOptions,
  DrainProgress,
  Engine,
  EngineStatus,
  EpochStatus,
  ListStreamsOptions,
  OpenOptions,
  RecoverySummary,
  RollOptions,
  Stream,
  StreamInfo,
  StreamPage,
} from './api.ts';
import {
  checkDrainOptions,
  checkListOptions,
  checkOpenOptions,
  checkRollOptions,
  checkStarName,
  checkStreamConfig,
} from './checks.ts';
import { DeferredOpens } from './deferred-opens.ts';
import { checkComponents, type Components } from './components.ts';
import { holderOf } from './forwarding/forwarder.ts';
import { PeerLinks } from './forwarding/peer-links.ts';
import { PeerService } from './forwarding/peer-service.ts';
import { checkStreamName } from './names.ts';
import { StreamHandle, withDefaultTimeout } from './stream-handle.ts';

export interface HostOptions extends Omit<StarOptions, 'address'>, WaitOptions {
  /** Ways to other engines: appends and reads of streams that they lead are forwarded to them. */
  readonly peers?: Peers | undefined;
  /** Releases what the ports hold; called once when the engine has ended. */
  readonly release?: () => Promise<void>;
  /** Opens the buckets of a descriptor beside those that are open; for a roll to another set. */
  readonly openBuckets?: (components: Components) => Promise<readonly BucketStore[]>;
}

/**
 * Starts a star on the ports and answers its engine. The engine closes nothing of the ports itself.
 *
 * @throws EngineError STAR_IN_USE, BUCKET_IDENTITY, BUCKET_REFUSED, BUCKET_UNAVAILABLE,
 *   METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED, DEADLINE_EXCEEDED
 */
export async function openEngine(
  ports: StarPorts,
  settings: ResolvedSettings,
  options: HostOptions = {},
): Promise<HostedEngine> {
  const { peers } = options;
  try {
    throwIfAborted(options.signal, 'start');
    const service = peers === undefined ? undefined : new PeerService(ports, peers);
    // Bound before the star registers: the lease record tells where.
    const listener = await peers?.listen(service!.accept);
    const star = new StarActor(ports, settings, { ...options, address: listener?.address });
    await star.start(options);
    service?.serve(star);
    const links = peers === undefined ? undefined : new PeerLinks(star, peers, service!);
    return new HostedEngine(star, options, links);
  } catch (error) {
    await peers?.close();
    await options.release?.();
    throw error;
  }
}

export class HostedEngine implements Engine {
  readonly star: string;
  readonly #star: StarActor;
  readonly #options: Pick<HostOptions, 'release' | 'openBuckets'>;
  readonly #links: PeerLinks | undefined;
  readonly #deferred: DeferredOpens;
  #closing: Promise<void> | undefined;

  constructor(
    star: StarActor,
    options: Pick<HostOptions, 'release' | 'openBuckets'>,
    links?: PeerLinks,
  ) {
    this.#star = star;
    this.#deferred = new DeferredOpens(star);
    this.#links = links;
    this.star = star.settings.star;
    this.#options = options;
  }

  async open(name: string, options: OpenOptions = {}): Promise<Stream> {
    this.#throwIfClosed();
    checkOpenOptions(options);
    checkStreamName(name);
    throwIfAborted(options.signal, 'open');
    const { fencingToken } = options;
    const token = fencingToken === undefined ? {} : { fencingToken };
    return this.#deferred.run(name, this.#withDefault(options), (wait) =>
      this.#openOnce(name, { ...wait, ...token }),
    );
  }

  async #openOnce(name: string, request: OpenOptions): Promise<Stream> {
    try {
      return await StreamHandle.open(this.#star, name, request);
    } catch (error) {
      if (this.#links === undefined || holderOf(error) === undefined) throw error;
      return this.#links.forwarder.open(name, request);
    }
  }

  async createStream(
    name: string,
    config: Partial<StreamConfig> = {},
    options: WaitOptions = {},
  ): Promise<StreamInfo> {
    this.#throwIfClosed();
    this.#star.throwIfNotServing();
    checkStreamName(name);
    const request = {
      basin: this.#star.settings.basin,
      name,
      config: { ...this.#star.defaultConfig, ...checkStreamConfig(config) },
    };
    const { created, record } = await this.#within('createStream', options, (wait) =>
      registerStream(this.#star.ports, request, wait),
    );
    if (!created) {
      throw new EngineError('STREAM_EXISTS', 'a stream has this name already', {
        details: { name },
      });
    }
    return infoOf(record);
  }

  async listStreams(options: ListStreamsOptions = {}): Promise<StreamPage> {
    this.#throwIfClosed();
    const request = { basin: this.#star.settings.basin, ...checkListOptions(options) };
    const { signal, timeoutMillis } = options;
    const { records, more } = await this.#within('listStreams', { signal, timeoutMillis }, (wait) =>
      listStreamRecords(this.#star.ports, request, wait),
    );
    return { streams: records.map(infoOf), more };
  }

  async deleteStream(name: string, options: WaitOptions = {}): Promise<void> {
    this.#throwIfClosed();
    this.#star.throwIfNotServing();
    checkStreamName(name);
    checkWaitOptions(options);
    const wait = this.#withDefault(options);
    const { ports, settings } = this.#star;
    const record = await this.#within('deleteStream', options, (inner) =>
      lookUpStream(ports, settings.basin, name, inner),
    );
    if (record === undefined) {
      throw notFoundError(name);
    }
    // T5: only who leads may delete; the Finish writes deleted in place of released.
    const actor = await this.#star.open(name, wait, 'refuse');
    actor.finish('deleted');
    await actor.ended(wait);
    if (actor.left === 'deleted') return;
    throw new EngineError('FENCED', 'the stream was not deleted: this engine stopped leading it', {
      details: { name },
    });
  }

  async recovered(options: WaitOptions = {}): Promise<RecoverySummary> {
    this.#throwIfClosed();
    checkWaitOptions(options);
    throwIfAborted(options.signal, 'recovery');
    return this.#star.recovered(options);
  }

  async roll(request: RollOptions = {}): Promise<{ readonly epoch: number }> {
    this.#throwIfClosed();
    const { copyQuorum, window, components } = checkRollOptions(request);
    throwIfAborted(request.signal, 'roll');
    const { settings } = this.#star;
    let buckets: readonly BucketStore[] | undefined;
    if (components !== undefined) {
      const open = this.#options.openBuckets;
      assert(open !== undefined, 'an engine on given ports has the buckets it was given');
      buckets = await open(checkComponents(components));
    }
    const count = buckets?.length ?? this.#star.epoch().record.buckets;
    checkQuorum(copyQuorum ?? settings.copyQuorum, count, 'roll.copyQuorum');
    const epoch = await this.#star.roll(
      { copyQuorum, window, buckets },
      this.#withDefault(request),
    );
    return { epoch };
  }

  async handoff(
    name: string,
    star: string,
    options: WaitOptions = {},
  ): Promise<{ readonly tail: number }> {
    this.#throwIfClosed();
    checkWaitOptions(options);
    checkStreamName(name);
    checkStarName(star);
    throwIfAborted(options.signal, 'handoff');
    this.#star.throwIfNotServing();
    return this.#star.departures.handoff(name, star, this.#withDefault(options));
  }

  async drain(options: DrainOptions = {}): Promise<DrainProgress> {
    this.#throwIfClosed();
    checkDrainOptions(options);
    throwIfAborted(options.signal, 'drain');
    this.#star.throwIfNotServing();
    return this.#star.departures.drain(this.#withDefault(options));
  }

  metrics(): MetricsSnapshot {
    return this.#star.ports.metrics.snapshot();
  }

  async status(options: WaitOptions = {}): Promise<EngineStatus> {
    this.#throwIfClosed();
    const epochs = await this.#within('status', options, (wait) =>
      readEpochs(this.#star.ports.metastore, this.star, wait.signal),
    );
    const { writer, record } = this.#star.epoch();
    const { halted } = this.#star;
    return {
      star: this.star,
      epoch: record.epoch,
      incarnation: record.incarnation,
      epochs,
      openStreams: [...this.#star.streams.values()]
        .filter((actor) => actor.isLeading)
        .map(({ name, tail }) => ({ name, tail: tail.end, absorbed: tail.coveredEnd })),
      deferred: this.#deferred.list(),
      departing: departuresOf(this.#star.streams.values()),
      next: writer.next,
      released: writer.released,
      checkpoint: writer.checkpoint,
      ...(halted === undefined ? {} : { halted }),
    };
  }

  /** Idempotent; a later call waits for the same close. */
  async close(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    throwIfAborted(options.signal, 'close');
    const wait = this.#withDefault(options);
    this.#closing ??= this.#close(wait).finally(() => this.#options.release?.());
    await waitFor(this.#star.ports.clock, this.#closing, { signal: options.signal }, 'close');
  }

  /** Ends without a Finish, as a crash would, but tidily: for tests and fatal errors. */
  async kill(): Promise<void> {
    this.#closing ??= Promise.all([this.#star.kill(), this.#links?.kill()])
      .then(() => undefined)
      .finally(() => this.#options.release?.());
    // A close that abandoned streams has told whoever called it.
    await this.#closing.catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Others are served until the streams are released; then they find out who leads by themselves. */
  async #close(wait: WaitOptions): Promise<void> {
    try {
      await Promise.all([this.#star.close(wait), this.#links?.forwarder.closeStreams(wait)]);
    } finally {
      await this.#links?.close();
    }
  }

  #withDefault<T extends WaitOptions>(options: T): T {
    return withDefaultTimeout(options, this.#star.settings.defaultTimeoutMillis);
  }

  #within<T>(
    what: string,
    options: WaitOptions,
    run: (wait: WaitOptions) => Promise<T>,
  ): Promise<T> {
    checkWaitOptions(options);
    throwIfAborted(options.signal, what);
    const wait = this.#withDefault(options);
    return waitFor(this.#star.ports.clock, run({ signal: options.signal }), wait, what);
  }

  #throwIfClosed(): void {
    if (this.#closing === undefined) return;
    throw new EngineError('CLOSED', 'the engine was closed', { details: { star: this.star } });
  }
}

function departuresOf(actors: Iterable<StreamActor>): DepartureStatus[] {
  const departing: DepartureStatus[] = [];
  for (const { name, departure } of actors) {
    if (departure !== undefined) departing.push({ name, ...departure });
  }
  // In limbo first, then the oldest.
  return departing.sort((a, b) =>
    a.state === b.state ? a.sinceMillis - b.sinceMillis : a.state === 'limbo' ? -1 : 1,
  );
}

export function infoOf(record: StreamRecord): StreamInfo {
  const { name, stream, createdAtMillis, config } = record;
  return { name, id: stream, createdAtMillis, config };
}

/** Every epoch of the star's chain, oldest first. */
export async function readEpochs(
  metastore: Metastore,
  star: string,
  signal?: AbortSignal,
): Promise<EpochStatus[]> {
  const entries = await metastore.children(epochsPrefix(star), { signal });
  return entries.map((entry) => statusOf(parseRecordValue(epochRecord, entry.key, entry.value)));
}

function statusOf(record: EpochRecord): EpochStatus {
  const { star, epoch, state, buckets, copyQuorum, window, checkpoint, cut, tailSwept } = record;
  return {
    star,
    epoch,
    state,
    buckets,
    copyQuorum,
    window,
    checkpoint,
    tailSwept,
    ...(cut === undefined ? {} : { cut }),
  };
}

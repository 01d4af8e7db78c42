/**
 * A roll: mint, fence the own old epoch, and let the flights that the cut left over go on in the new
 * one, in order, once their streams have entered it; batches of a stream that was lost are dropped
 * (R1-R4). Repeats while new epochs are lost too. Source: DESIGN "Roll (R)".
 */
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import { deferred, sleep, type Deferred } from '../src/lib/wait.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import type { EpochActor } from './epoch.actor.ts';
import { dropFlight, type StrandedFlight } from './epoch-writer.ts';
import type { Flight } from './flight.ts';
import type { StarPorts } from './ports.ts';
import type { StreamActor } from './stream.actor.ts';

const RETRY = { firstMillis: 50, maxMillis: 5_000 };
/** Streams that enter a new epoch at a time when nobody waits for them. */
const ENTER_PARALLEL = 32;

/** What a roll may change; the rest stays as it is. */
export interface RollRequest {
  readonly copyQuorum?: number | undefined;
  readonly window?: number | undefined;
  readonly buckets?: readonly BucketStore[] | undefined;
}

export interface RollHost {
  readonly ports: StarPorts;
  readonly streams: ReadonlyMap<string, StreamActor>;
  epoch(): EpochActor;
  /** Waits for a registered incarnation first (M0). */
  mint(signal: AbortSignal): Promise<EpochActor>;
  /** The new epoch is the star's from now on. */
  useEpoch(epoch: EpochActor): void;
}

export class StarRoll {
  readonly #host: RollHost;
  readonly #controller = forManyListeners(new AbortController());
  #rolling: Deferred<void> | undefined;
  /** Left over by a cut and not yet adopted, in order. */
  #stranded: StrandedFlight[] = [];

  constructor(host: RollHost) {
    this.#host = host;
  }

  /** Nothing is admitted meanwhile: batches wait, they do not fail (R2). */
  get isRolling(): boolean {
    return this.#rolling !== undefined;
  }

  rolled(): Promise<void> {
    return this.#rolling?.promise ?? Promise.resolve();
  }

  /** Marks the beginning; false when a roll is under way already. */
  begin(): boolean {
    if (this.#rolling !== undefined) return false;
    this.#rolling = deferred<void>();
    return true;
  }

  /**
   * Rolls until the star has an epoch that lives; `end` must follow before anything else may run.
   * Waits while metastore or buckets are away, or the star is not registered.
   *
   * @throws EngineError ABORTED after `stop`, and what cannot be retried.
   */
  async run(): Promise<void> {
    const { ports } = this.#host;
    const started = ports.clock.monotonic();
    do {
      const old = this.#host.epoch();
      const target = await this.#retry('mint', () => this.#host.mint(this.#controller.signal));
      const placed = await old.takeStranded();
      this.#stranded.unshift(...placed);
      if (this.#controller.signal.aborted) {
        target.stop();
        throw abortedError();
      }
      this.#host.useEpoch(target);
      ports.metrics.counter('epoch.rolls').add();
      await this.#adopt(target);
    } while (this.#host.epoch().writer.lost !== undefined);
    ports.metrics.histogram('roll.millis').record(ports.clock.monotonic() - started);
  }

  /** Marks the end: batches are admitted again. */
  end(): void {
    this.#rolling?.resolve();
    this.#rolling = undefined;
  }

  /** Lets everybody who waits for the end look again whether there is still something to wait for. */
  wakeWaiters(): void {
    if (this.#rolling === undefined) return;
    this.#rolling.resolve();
    this.#rolling = deferred<void>();
  }

  /** Drops what is left over so far: the star may go on, but not with these batches. */
  async drop(epoch: EpochActor, error: EngineError): Promise<void> {
    const left = await epoch.takeStranded().catch(() => []);
    for (const { flight, ended } of [...this.#stranded.splice(0), ...left]) {
      await ended;
      dropFlight(flight, () => error);
    }
  }

  /** The star does not go on: what is left over, and what the last cut leaves over, is dropped. */
  async stop(epoch: EpochActor | undefined, error: EngineError): Promise<void> {
    this.#controller.abort();
    this.#rolling?.resolve();
    if (epoch !== undefined) await this.drop(epoch, error);
  }

  async #adopt(target: EpochActor): Promise<void> {
    const entries = new Map<string, Promise<EngineError | undefined>>();
    for (const streamId of new Set(this.#stranded.flatMap(({ flight }) => streamsOf(flight)))) {
      entries.set(streamId, this.#enter(streamId));
    }
    const { signal } = this.#controller;
    for (let head = this.#stranded[0]; head !== undefined; head = this.#stranded[0]) {
      const { flight, ended } = head;
      await ended;
      const lost = new Map<string, EngineError>();
      for (const streamId of streamsOf(flight)) {
        const error = await entries.get(streamId)!;
        if (error !== undefined) lost.set(streamId, error);
      }
      if (signal.aborted) throw abortedError();
      if (flight.slot !== -1) flight.leaveSlot();
      for (const [streamId, error] of lost) {
        for (const part of flight.removeStream(streamId)) part.dropped(error);
      }
      // The target ended meanwhile and took nothing any more: the next roll adopts the rest.
      if (target.writer.queue.isClosed) return;
      this.#stranded.shift();
      if (flight.isEmpty) flight.letGo();
      else {
        this.#host.ports.metrics.counter('roll.republishedFlights').add();
        target.writer.queue.adopt(flight);
      }
    }
  }

  /** Takes the stream into the new epoch; answers why it was lost instead. */
  async #enter(streamId: string): Promise<EngineError | undefined> {
    try {
      await this.#retry('enter', async () => {
        await this.#actorOf(streamId)?.enter();
      });
      return this.#actorOf(streamId) === undefined ? lostError(streamId) : undefined;
    } catch (cause) {
      const error = toEngineError(cause);
      return error.kind === 'fenced' ? error : lostError(streamId);
    }
  }

  /**
   * Takes every stream that is led into the new epoch, also those that nobody uses now: until their
   * `writer` names it, anybody may take them as left behind. One that moved is lost alone.
   */
  async enterAll(): Promise<void> {
    const waiting = [...this.#host.streams.values()].filter((actor) => actor.isLeading);
    const next = async (): Promise<void> => {
      for (let actor = waiting.shift(); actor !== undefined; actor = waiting.shift()) {
        const leader = actor;
        // It may be leaving by now: its Finish is the last to write its writer record.
        if (!leader.isLeading) continue;
        await this.#retry('enter', () => leader.enter()).catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: ENTER_PARALLEL }, next));
  }

  #actorOf(streamId: string): StreamActor | undefined {
    for (const actor of this.#host.streams.values()) if (actor.leads(streamId)) return actor;
    return undefined;
  }

  async #retry<T>(what: string, run: () => Promise<T>): Promise<T> {
    const { ports } = this.#host;
    const { signal } = this.#controller;
    for (let attempt = 0; ; attempt++) {
      try {
        return await run();
      } catch (cause) {
        const error = toEngineError(cause);
        if (!error.retryable || signal.aborted) throw error;
        ports.metrics.counter('roll.retries').add();
        ports.log.warn({ what, code: error.code, attempt }, 'a roll waits');
        await sleep(ports.clock, backoffMillis(ports.random, attempt, RETRY), signal);
      }
    }
  }
}

function streamsOf(flight: Flight): string[] {
  return [...new Set(flight.parts.map(({ streamId }) => streamId))];
}

function abortedError(): EngineError {
  return new EngineError('ABORTED', 'the roll was given up: the star does not go on');
}

function lostError(streamId: string): EngineError {
  return new EngineError('FENCED', 'the stream was lost while its star rolled: open it again', {
    details: { stream: streamId },
  });
}

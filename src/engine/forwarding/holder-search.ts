/**
 * Finds out who leads a stream, for as long as somebody wants to know: through the open gate, which
 * makes this engine the leader or names the holder. Plain retries with back-off; each caller keeps its
 * own deadline.
 */
import { backoffMillis } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import { toEngineError, type EngineError } from '../../lib/errors.ts';
import type { Random } from '../../lib/random.ts';
import {
  deadlineError,
  deferred,
  sleep,
  waitFor,
  type Deferred,
  type WaitOptions,
} from '../../lib/wait.ts';
import type { Target } from './target.ts';

const BACKOFF = { firstMillis: 25, maxMillis: 500 };
/** Who was found and leads no more so soon after is no reason to look again at once. */
const BRIEF_MILLIS = 250;

const noop = (): void => undefined;

export interface HolderSearchOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly find: (signal: AbortSignal) => Promise<Target>;
  readonly onFound: (target: Target) => void;
  /** Nobody can be found, and waiting does not help. */
  readonly onFailed: (error: EngineError) => void;
  /** Whether anybody but the callers of `target` waits. */
  readonly isWanted: () => boolean;
}

export class HolderSearch {
  readonly #options: HolderSearchOptions;
  readonly #controller = new AbortController();
  #target: Target | undefined;
  /** Dropped ones that still answer what they accepted, until they are let go. */
  readonly #leaving = new Map<Target, Promise<void>>();
  #found = deferred<Target>();
  #waiting = 0;
  #running = false;
  #trouble: EngineError | undefined;
  #foundAt = 0;
  /** Targets in a row that were dropped as soon as they were found. */
  #brief = 0;

  constructor(options: HolderSearchOptions) {
    this.#options = options;
    this.#found.promise.catch(noop);
  }

  get current(): Target | undefined {
    return this.#target;
  }

  /** Why the last attempt found nobody. */
  get trouble(): EngineError | undefined {
    return this.#trouble;
  }

  /**
   * Who leads now, as far as is known; searches if nobody is.
   *
   * @throws EngineError the last refusal at the deadline, if it was one; ABORTED, DEADLINE_EXCEEDED;
   *   what no waiting helps against.
   */
  async target(options: WaitOptions): Promise<Target> {
    if (this.#target !== undefined) return this.#target;
    this.#waiting++;
    this.want();
    const { clock } = this.#options;
    try {
      return await waitFor(clock, this.#found.promise, options, 'open', () =>
        this.#trouble?.retryable === true
          ? this.#trouble
          : deadlineError('open', options.timeoutMillis ?? 0),
      );
    } finally {
      this.#waiting--;
    }
  }

  /** The target does not lead any more, or cannot be reached. */
  drop(target: Target, error: EngineError): void {
    if (this.#target !== target) return;
    this.#target = undefined;
    this.#trouble = error;
    const isBrief = this.#options.clock.monotonic() - this.#foundAt < BRIEF_MILLIS;
    this.#brief = isBrief ? this.#brief + 1 : 0;
    // Batches that it has accepted may still be acknowledged there.
    const leaving = target
      .close({})
      .catch(noop)
      .then(() => void this.#leaving.delete(target));
    this.#leaving.set(target, leaving);
  }

  want(): void {
    if (this.#running || this.#target !== undefined || this.#controller.signal.aborted) return;
    this.#running = true;
    void this.#look().then((announce) => {
      // Before anybody hears of it: who is found may be gone at once, and be looked for again.
      this.#running = false;
      if (announce !== undefined) announce();
      else if (this.#isWanted()) this.want();
    });
  }

  /** Waits for whoever was found, also for those that lead no more; then no search begins. */
  async close(options: WaitOptions): Promise<void> {
    const answered = Promise.all(this.#leaving.values());
    await Promise.all([
      this.#target?.close(options),
      waitFor(this.#options.clock, answered, options, 'close'),
    ]);
  }

  /** Lets go at once of all of them, and looks for nobody any more. */
  abandon(error: EngineError): void {
    this.#target?.abandon(error);
    for (const target of this.#leaving.keys()) target.abandon(error);
    this.stop(error);
  }

  /** Whoever waits, now or later, is answered with the error. */
  stop(error: EngineError): void {
    this.#controller.abort();
    this.#found.reject(error);
  }

  #isWanted(): boolean {
    return this.#waiting > 0 || this.#options.isWanted();
  }

  /** Looks until somebody is found or nobody waits; answers what is to be told. */
  async #look(): Promise<(() => void) | undefined> {
    const { clock, random, find, onFound, onFailed } = this.#options;
    const { signal } = this.#controller;
    for (let attempt = this.#brief; this.#isWanted(); attempt++) {
      if (attempt > 0) {
        await sleep(clock, backoffMillis(random, attempt - 1, BACKOFF), signal).catch(noop);
        if (signal.aborted) return undefined;
      }
      try {
        const target = await find(signal);
        if (signal.aborted) {
          target.close({}).catch(noop);
          return undefined;
        }
        this.#target = target;
        this.#trouble = undefined;
        this.#foundAt = clock.monotonic();
        return () => {
          this.#renew().resolve(target);
          onFound(target);
        };
      } catch (cause) {
        if (signal.aborted) return undefined;
        const error = toEngineError(cause);
        this.#trouble = error;
        if (error.retryable) continue;
        return () => {
          this.#renew().reject(error);
          onFailed(error);
        };
      }
    }
    return undefined;
  }

  /** What was waited for so far; who comes later waits for the next one. */
  #renew(): Deferred<Target> {
    const found = this.#found;
    this.#found = deferred();
    this.#found.promise.catch(noop);
    return found;
  }
}

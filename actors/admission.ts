/**
 * Back-pressure by bytes: batches wait, first come first served, until the pool has room. A sequence
 * number is assigned only then, so that waiting burns nothing. Source: DESIGN "Append (A)".
 */
import type { Clock, TimerHandle } from '../src/lib/clock.ts';
import { EngineError } from '../src/lib/errors.ts';
import { throwIfAborted, type WaitOptions } from '../src/lib/wait.ts';
import { TurnBudget } from './turn-budget.ts';

export interface Admittance {
  /** What encoding it takes of a turn. */
  readonly bytes: number;
  /**
   * Takes the room if there is some. `full`: nobody behind it gets any either. `later`: it waits for
   * something of its own, others need not. Throws when the wait is pointless.
   */
  tryAdmit(): 'admitted' | 'full' | 'later';
  /** It has to wait: from now on what it holds must be its own. Called once, before the call returns. */
  queued(): void;
}

interface Waiting {
  readonly admittance: Admittance;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Memory is looked for again this often even if nothing was released: copies age (epoch-writer). */
const RECHECK_MILLIS = 250;

export class Admission {
  readonly #clock: Clock;
  readonly #poolBytes: number;
  readonly #queue = new Set<Waiting>();
  #recheck: TimerHandle | undefined;
  #draining = false;
  #drainAgain = false;
  /** Some of the queue wait for something of their own. */
  #isSomeLater = false;
  readonly #turn: TurnBudget;

  constructor(clock: Clock, poolBytes: number) {
    this.#clock = clock;
    this.#poolBytes = poolBytes;
    this.#turn = new TurnBudget(clock, () => this.drain());
  }

  get waitingCount(): number {
    return this.#queue.size;
  }

  /**
   * Admits in order; undefined: at once, as nearly all are.
   *
   * @param lastTrouble - what storage last said; becomes the cause of a passed deadline.
   * @throws EngineError POOL_EXHAUSTED at the deadline, ABORTED; nothing was accepted then.
   */
  admit(
    admittance: Admittance,
    options: WaitOptions,
    lastTrouble: () => EngineError | undefined,
  ): Promise<void> | undefined {
    throwIfAborted(options.signal, 'submit');
    const answer = this.#queue.size === 0 ? admittance.tryAdmit() : undefined;
    if (answer === 'later') this.#isSomeLater = true;
    if (answer === 'admitted') {
      this.#turn.spend(admittance.bytes);
      // Accepted; who submits one batch after the other lets storage have its turn.
      return this.#turn.isSpent ? this.#turn.next() : undefined;
    }
    admittance.queued();
    return new Promise<void>((resolve, reject) => {
      const { signal, timeoutMillis } = options;
      const leave = (): void => {
        this.#queue.delete(waiting);
        if (timer !== undefined) this.#clock.clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        if (this.#queue.size === 0) this.#stopRecheck();
      };
      const waiting: Waiting = {
        admittance,
        resolve: () => {
          leave();
          resolve();
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      const onAbort = (): void => {
        waiting.reject(
          new EngineError('ABORTED', 'submit was given up by its signal', {
            cause: signal?.reason,
          }),
        );
      };
      const timer =
        timeoutMillis === undefined
          ? undefined
          : this.#clock.setTimeout(() => {
              const cause = lastTrouble();
              waiting.reject(
                new EngineError(
                  'POOL_EXHAUSTED',
                  'no payload memory became free in time: retry later',
                  {
                    details: { poolBytes: this.#poolBytes, timeoutMillis, storage: cause?.code },
                    ...(cause === undefined ? {} : { cause }),
                    retryAfterMillis: 1_000,
                  },
                ),
              );
            }, timeoutMillis);
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#queue.add(waiting);
      this.#startRecheck();
      // Those in front may wait for something else than memory.
      if (this.#isSomeLater) this.drain();
    });
  }

  /** Memory may have become free: admits as many as fit, in order. */
  drain(): void {
    this.#drainAgain = true;
    if (this.#draining) return;
    this.#draining = true;
    while (this.#drainAgain) {
      this.#drainAgain = false;
      this.#isSomeLater = false;
      for (const waiting of this.#queue) {
        if (this.#turn.isSpent) break;
        let answer: ReturnType<Admittance['tryAdmit']>;
        try {
          answer = waiting.admittance.tryAdmit();
        } catch (error) {
          waiting.reject(error instanceof Error ? error : new Error(String(error)));
          continue;
        }
        if (answer === 'full') break;
        if (answer === 'later') {
          this.#isSomeLater = true;
          continue;
        }
        this.#turn.spend(waiting.admittance.bytes);
        waiting.resolve();
      }
    }
    this.#draining = false;
  }

  /** Rejects everyone who waits. */
  rejectAll(error: EngineError): void {
    for (const waiting of [...this.#queue]) waiting.reject(error);
  }

  #startRecheck(): void {
    this.#recheck ??= this.#clock.setTimeout(() => {
      this.#recheck = undefined;
      this.drain();
      if (this.#queue.size > 0) this.#startRecheck();
    }, RECHECK_MILLIS);
  }

  #stopRecheck(): void {
    if (this.#recheck !== undefined) this.#clock.clearTimeout(this.#recheck);
    this.#recheck = undefined;
  }
}

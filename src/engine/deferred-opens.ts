/**
 * Opens that the gate puts off: another star leads, or the last leadership is not released or settled
 * yet. None may last for ever without being seen, so each is kept here until it ends or nobody asks
 * for the stream any more. Source: DESIGN "Tenure and the open gate (T)".
 */
import { EngineError } from '../lib/errors.ts';
import { sleep, type WaitOptions } from '../lib/wait.ts';
import type { StarActor } from '../../actors/star.actor.ts';
import type { DeferredOpen, OpenOptions } from './api.ts';

const DEFERRALS: readonly string[] = ['STREAM_HELD', 'STREAM_IN_LIMBO', 'STREAM_UNSETTLED'];
/** Nobody has asked for so long: nobody waits any more. */
const FORGOTTEN_MILLIS = 60_000;
/** Names kept at most; those that were refused longest ago go first. */
const KEPT_MAX = 1_000;

interface Deferral extends DeferredOpen {
  readonly firstMonotonic: number;
  readonly lastMonotonic: number;
}

export class DeferredOpens {
  readonly #star: StarActor;
  readonly #deferrals = new Map<string, Deferral>();

  constructor(star: StarActor) {
    this.#star = star;
    const { metrics, clock } = star.ports;
    metrics.gauge('open.deferred', () => this.list().length);
    metrics.gauge('open.deferredOldestMillis', () => {
      const now = clock.monotonic();
      return Math.max(0, ...this.#living().map(({ firstMonotonic }) => now - firstMonotonic));
    });
  }

  /** Oldest first. */
  list(): readonly DeferredOpen[] {
    return this.#living()
      .sort((a, b) => a.firstMonotonic - b.firstMonotonic)
      .map(({ firstMonotonic: _first, lastMonotonic: _last, ...open }) => open);
  }

  /**
   * Runs an open; with `whileHeld: 'wait'` again and again, until it is not put off any more or the
   * deadline has passed. Then the last refusal is the answer: it names who leads.
   */
  async run<T>(
    name: string,
    options: OpenOptions,
    open: (wait: WaitOptions) => Promise<T>,
  ): Promise<T> {
    const { whileHeld = 'refuse', signal, timeoutMillis } = options;
    const { clock } = this.#star.ports;
    const until = timeoutMillis === undefined ? undefined : clock.monotonic() + timeoutMillis;
    for (;;) {
      const left = until === undefined ? undefined : Math.max(0, until - clock.monotonic());
      try {
        const opened = await open({ signal, timeoutMillis: left });
        this.#deferrals.delete(name);
        return opened;
      } catch (error) {
        if (!isDeferral(error)) throw error;
        this.#note(name, error);
        if (whileHeld === 'refuse' || !(await this.#untilDue(error, { signal, until })))
          throw error;
      }
    }
  }

  /** Waits until asking again may help; false when the deadline passes before. */
  async #untilDue(
    refusal: EngineError,
    {
      signal,
      until,
    }: { readonly signal: AbortSignal | undefined; readonly until: number | undefined },
  ): Promise<boolean> {
    const { clock } = this.#star.ports;
    const left = until === undefined ? Number.POSITIVE_INFINITY : until - clock.monotonic();
    if (left <= 0) return false;
    const pause = Math.min(left, refusal.retryAfterMillis ?? 1_000);
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(signal!.reason);
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const ways = [sleep(clock, pause, stop.signal)];
      const { star, incarnation } = refusal.details;
      if (typeof star === 'string' && typeof incarnation === 'string') {
        const over = this.#star.registered.observer.untilOver(star, incarnation, stop.signal);
        // A metastore that is away is no end of a lease: the pause goes on.
        ways.push(over.catch(() => ways[0]!));
      }
      await Promise.race(ways);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      stop.abort();
    }
    return until === undefined || clock.monotonic() < until;
  }

  #note(name: string, refusal: EngineError): void {
    const { clock } = this.#star.ports;
    const now = clock.monotonic();
    const { star, epoch, address } = refusal.details;
    const known = this.#deferrals.get(name);
    const isSame = known !== undefined && now - known.lastMonotonic < FORGOTTEN_MILLIS;
    this.#deferrals.delete(name);
    this.#deferrals.set(name, {
      name,
      code: refusal.code,
      sinceMillis: isSame ? known.sinceMillis : clock.now(),
      refusals: isSame ? known.refusals + 1 : 1,
      firstMonotonic: isSame ? known.firstMonotonic : now,
      lastMonotonic: now,
      ...(typeof star === 'string' ? { star } : {}),
      ...(typeof epoch === 'number' ? { epoch } : {}),
      ...(typeof address === 'string' ? { address } : {}),
    });
    const [oldest] = this.#deferrals.keys();
    if (this.#deferrals.size > KEPT_MAX) this.#deferrals.delete(oldest!);
  }

  #living(): Deferral[] {
    const now = this.#star.ports.clock.monotonic();
    for (const [name, { lastMonotonic }] of this.#deferrals) {
      if (now - lastMonotonic >= FORGOTTEN_MILLIS) this.#deferrals.delete(name);
    }
    return [...this.#deferrals.values()];
  }
}

function isDeferral(error: unknown): error is EngineError {
  return EngineError.is(error) && DEFERRALS.includes(error.code);
}

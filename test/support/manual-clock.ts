import type { Clock, TimerHandle } from '../../src/lib/clock.ts';

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock that stands still until it is advanced; between two timers pending promises settle. */
export class ManualClock implements Clock {
  readonly #timers = new Set<Timer>();
  #time = 0;
  #order = 0;

  now(): number {
    return 1_700_000_000_000 + this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  setTimeout(run: () => void, millis: number): TimerHandle {
    const timer = { at: this.#time + Math.max(0, millis), order: this.#order++, run };
    this.#timers.add(timer);
    return timer;
  }

  clearTimeout(handle: TimerHandle): void {
    this.#timers.delete(handle as Timer);
  }

  setImmediate(run: () => void): void {
    this.setTimeout(run, 0);
  }

  get pendingCount(): number {
    return this.#timers.size;
  }

  /** Lets time pass, firing what falls due, in order. */
  async advance(millis: number): Promise<void> {
    const until = this.#time + millis;
    await settle();
    for (let next = this.#nextUntil(until); next !== undefined; next = this.#nextUntil(until)) {
      this.#timers.delete(next);
      this.#time = Math.max(this.#time, next.at);
      next.run();
      await settle();
    }
    this.#time = until;
  }

  /** A paused process: time passes, and what fell due meanwhile has not run yet. */
  jump(millis: number): void {
    this.#time += millis;
  }

  #nextUntil(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.at > until) continue;
      const isEarlier =
        next === undefined ||
        timer.at < next.at ||
        (timer.at === next.at && timer.order < next.order);
      if (isEarlier) next = timer;
    }
    return next;
  }
}

/** Runs every promise continuation that is ready, and those they make ready. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

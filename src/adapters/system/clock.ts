import { assert } from '../../lib/assert.ts';
import type { Clock, TimerHandle } from '../../lib/clock.ts';

/** Node fires at once what is set further ahead. */
const TIMEOUT_MAX_MILLIS = 2 ** 31 - 1;

export interface SystemClockOptions {
  /**
   * `keep-alive`: a pending timer keeps the process alive, so that whoever awaits an append gets its
   * answer, and a process with an open engine ends through `close()` only. `background`: it does
   * not, for processes that may end while an engine idles.
   *
   * @default 'keep-alive'
   */
  readonly timers?: 'keep-alive' | 'background';
}

/**
 * The machine's clock. `setTimeout` never runs early by the monotonic clock, and takes waits of any
 * length. Time during which the machine is suspended does not count.
 */
export function systemClock(options: SystemClockOptions = {}): Clock {
  const background = options.timers === 'background';
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    setTimeout: (run, millis) => {
      assert(!Number.isNaN(millis), 'a wait is a number');
      return new SystemTimer(run, performance.now() + millis, background);
    },
    clearTimeout: (handle: TimerHandle) => {
      if (handle instanceof SystemTimer) handle.clear();
    },
    setImmediate: (run) => {
      setImmediate(run);
    },
  };
}

class SystemTimer {
  readonly #run: () => void;
  readonly #dueAt: number;
  readonly #background: boolean;
  #timer: NodeJS.Timeout | undefined;

  constructor(run: () => void, dueAt: number, background: boolean) {
    this.#run = run;
    this.#dueAt = dueAt;
    this.#background = background;
    this.#arm();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }

  #arm(): void {
    const millis = Math.ceil(this.#dueAt - performance.now());
    this.#timer = setTimeout(() => this.#fire(), Math.min(millis, TIMEOUT_MAX_MILLIS));
    if (this.#background) this.#timer.unref();
  }

  #fire(): void {
    // Node counts from the start of a turn and may fire a little early.
    if (performance.now() < this.#dueAt) this.#arm();
    else this.#run();
  }
}

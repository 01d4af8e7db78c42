/**
 * Time as the engine sees it. All timers and all readings go through this port, so that the whole
 * engine runs on the simulator's virtual clock. XState actors take it as their `clock`.
 */
export interface Clock {
  /** Wall time in milliseconds since 1970. May step in either direction; never used for safety. */
  now(): number;
  /** Milliseconds of a monotonic clock of this process; fractions allowed. */
  monotonic(): number;
  /** Calls `run` once after at least `millis`. Handles are opaque. */
  setTimeout(run: () => void, millis: number): TimerHandle;
  clearTimeout(handle: TimerHandle): void;
  /** Calls `run` in a later turn of the event loop, after answers that are already there. */
  setImmediate(run: () => void): void;
}

export type TimerHandle = number | object;

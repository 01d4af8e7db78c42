/**
 * Many waits of one length under one timer: a timer for each costs as much as all the rest of an append.
 */
import type { Clock, TimerHandle } from '../src/lib/clock.ts';

/** A wait, and its place among those of equal length: they fall due in the order in which they came. */
export abstract class Wait {
  dueAt = 0;
  /** Not in a Map: the tables that it leaves behind when it grows keep what was in them for long. */
  previous: Wait | undefined;
  next: Wait | undefined;

  /** The deadline passed. The wait has left already. */
  abstract late(): void;
}

export class Deadlines {
  readonly #clock: Clock;
  readonly millis: number;
  #first: Wait | undefined;
  #last: Wait | undefined;
  #timer: TimerHandle | undefined;

  constructor(clock: Clock, millis: number) {
    this.#clock = clock;
    this.millis = millis;
  }

  join(wait: Wait): void {
    wait.dueAt = this.#clock.monotonic() + this.millis;
    wait.previous = this.#last;
    if (this.#last === undefined) this.#first = wait;
    else this.#last.next = wait;
    this.#last = wait;
    this.#timer ??= this.#clock.setTimeout(() => this.#expire(), this.millis);
  }

  leave(wait: Wait): void {
    const { previous, next } = wait;
    if (previous === undefined && this.#first !== wait) return;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    wait.previous = undefined;
    wait.next = undefined;
    // With nothing to wait for no timer keeps the process alive.
    if (this.#first === undefined) this.#stop();
  }

  #expire(): void {
    this.#timer = undefined;
    const now = this.#clock.monotonic();
    for (let wait = this.#first; wait !== undefined; wait = this.#first) {
      if (wait.dueAt > now) {
        this.#timer ??= this.#clock.setTimeout(() => this.#expire(), wait.dueAt - now);
        return;
      }
      this.leave(wait);
      wait.late();
    }
  }

  #stop(): void {
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

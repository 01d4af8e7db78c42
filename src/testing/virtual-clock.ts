import type { Clock, TimerHandle } from '../lib/clock.ts';
import type { Prng } from '../lib/prng.ts';
import type { EventOwner, ScheduledEvent, Scheduler } from './scheduler.ts';

export interface VirtualClockOptions {
  /** Whose timers these are: they wait while it is paused and never fire once it is dead. */
  readonly owner?: EventOwner;
  /** Wall time at virtual time 0. */
  readonly wallMillis?: number;
  /** Monotonic time at virtual time 0: differs between processes, so it must never be compared. */
  readonly monotonicMillis?: number;
  /** How fast this process's clocks run: 1.02 is 2 % fast. */
  readonly rate?: number;
  /** Timers fire up to this much late, drawn from `prng`, as a busy event loop has it. */
  readonly jitterMillis?: number;
  readonly prng?: Prng;
}

/** The clock of one simulated process. */
export class VirtualClock implements Clock {
  readonly #scheduler: Scheduler;
  readonly #owner: EventOwner | undefined;
  readonly #monotonic: number;
  readonly #rate: number;
  readonly #jitter: number;
  readonly #prng: Prng | undefined;
  #wall: number;

  constructor(scheduler: Scheduler, options: VirtualClockOptions = {}) {
    this.#scheduler = scheduler;
    this.#owner = options.owner;
    this.#wall = options.wallMillis ?? 1_700_000_000_000;
    this.#monotonic = options.monotonicMillis ?? 0;
    this.#rate = options.rate ?? 1;
    this.#jitter = options.prng === undefined ? 0 : (options.jitterMillis ?? 0);
    this.#prng = options.prng;
  }

  now(): number {
    return Math.floor(this.#wall + this.#scheduler.time * this.#rate);
  }

  monotonic(): number {
    return this.#monotonic + this.#scheduler.time * this.#rate;
  }

  setTimeout(run: () => void, millis: number): TimerHandle {
    const late = this.#jitter === 0 ? 0 : this.#jitter * this.#prng!.fraction();
    return this.#scheduler.schedule(millis / this.#rate + late, 'timer', run, this.#owner);
  }

  clearTimeout(handle: TimerHandle): void {
    this.#scheduler.cancel(handle as ScheduledEvent);
  }

  setImmediate(run: () => void): void {
    this.#scheduler.scheduleImmediate('immediate', run, this.#owner);
  }

  /** Steps the wall clock, as an operator or a time service may; the monotonic clock goes on. */
  stepWall(millis: number): void {
    this.#wall += millis;
  }
}

/** Looks now and then whether a star's buckets make progress, and acts on the verdict: src/protocol/stall.ts */
import type { TimerHandle } from '../src/lib/clock.ts';
import {
  STALL_LOOK_MILLIS,
  watchProgress,
  type ProgressLook,
  type ProgressWatch,
} from '../src/protocol/stall.ts';
import type { StarPorts } from './ports.ts';

export interface WatchdogInput {
  readonly ports: StarPorts;
  /** Undefined while the star has no lease: there is nothing to give up. */
  look(): ProgressLook | undefined;
  roll(): void;
  giveUp(): void;
}

export class StarWatchdog {
  readonly #input: WatchdogInput;
  #watch: ProgressWatch | undefined;
  #timer: TimerHandle | undefined;

  constructor(input: WatchdogInput) {
    this.#input = input;
    const { clock, metrics } = input.ports;
    metrics.gauge('star.stalledMillis', () =>
      this.#watch === undefined ? 0 : clock.monotonic() - this.#watch.sinceMonotonic,
    );
  }

  start(): void {
    const { clock } = this.#input.ports;
    this.#timer = clock.setTimeout(() => {
      this.start();
      this.#look();
    }, STALL_LOOK_MILLIS);
  }

  stop(): void {
    if (this.#timer !== undefined) this.#input.ports.clock.clearTimeout(this.#timer);
    this.#timer = this.#watch = undefined;
  }

  #look(): void {
    const { ports } = this.#input;
    const seen = this.#input.look();
    if (seen === undefined || !seen.isWaiting) {
      this.#watch = undefined;
      return;
    }
    const { watch, verdict } = watchProgress(this.#watch, seen, ports.clock.monotonic());
    this.#watch = watch;
    if (verdict === 'fine') return;
    ports.metrics.counter('star.stalls').add();
    ports.log.error({ ...seen, verdict }, 'the buckets of this star make no progress');
    if (verdict === 'roll') this.#input.roll();
    else this.#input.giveUp();
  }
}

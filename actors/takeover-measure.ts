/** What it costs to take a stream over from another star, from the moment its leader is found to be over. */
import type { Flow } from '../src/lib/round-trips.ts';
import type { StarPorts } from './ports.ts';

export class TakeoverMeasure {
  readonly #ports: Pick<StarPorts, 'clock' | 'metrics' | 'roundTrips'>;
  readonly #flow: Flow = { depth: 0 };
  #detectedAt: number | undefined;
  #fencedAt = 0;

  constructor(ports: Pick<StarPorts, 'clock' | 'metrics' | 'roundTrips'>) {
    this.#ports = ports;
  }

  /** Runs a step of the gate; what it asks of storage and metastore counts. */
  step<T>(work: () => Promise<T>): Promise<T> {
    const { roundTrips } = this.#ports;
    return roundTrips === undefined ? work() : roundTrips.within(this.#flow, work);
  }

  /** The leader is over: the clock and the count begin here. */
  detected(): void {
    this.#flow.depth = 0;
    this.#detectedAt = this.#ports.clock.monotonic();
  }

  /** The cut of the leader's epoch is published. */
  fenced(): void {
    this.#fencedAt = this.#ports.clock.monotonic();
    this.#record('fenceMillis', this.#detectedAt);
  }

  /** The stream's rows reach the cut. */
  settled(): void {
    this.#record('settleMillis', this.#fencedAt);
  }

  /** The stream is open here. Nothing to say of a stream that was not taken over. */
  opened(): void {
    if (this.#detectedAt === undefined) return;
    this.#record('openMillis', this.#detectedAt);
    this.#detectedAt = undefined;
    const { metrics, roundTrips } = this.#ports;
    if (roundTrips !== undefined) {
      metrics.histogram('takeover.roundTrips').record(this.#flow.depth);
    }
  }

  #record(name: string, since: number | undefined): void {
    const { clock, metrics } = this.#ports;
    if (this.#detectedAt === undefined || since === undefined) return;
    metrics.histogram(`takeover.${name}`).record(clock.monotonic() - since);
  }
}

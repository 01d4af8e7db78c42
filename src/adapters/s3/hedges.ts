/** When a creation is sent a second time, and how often that may happen. */
import { Counter } from '../../lib/metrics.ts';
import { Latencies } from './latencies.ts';

export interface HedgeOptions {
  /** Of all creations, at most so many are sent a second time; 0: none. */
  readonly percent: number;
  /** Second requests at once. */
  readonly concurrent: number;
  readonly counts?: HedgeCounts | undefined;
}

export interface HedgeCounts {
  /** Second requests that were sent. */
  readonly sent: Counter;
  /** Of these: they had the decisive answer. */
  readonly decided: Counter;
}

/** Bodies up to these sizes, and all others: what is late for a small one is early for a large one. */
const SIZE_CLASSES = [64 << 10, 256 << 10, 1 << 20] as const;
/** Sooner, the wait says more about this machine than about the server. */
const DELAY_MILLIS_MIN = 10;
/** Where most take about as long as each other, the slowest twentieth is no tail worth a second request. */
const MEDIANS_MIN = 2;
/** What may be saved up for a burst. */
const SAVED_MAX = 8;

export class Hedges {
  readonly #percent: number;
  readonly #concurrent: number;
  readonly #latencies = [...SIZE_CLASSES, Infinity].map(() => new Latencies());
  /** In hundredths: whole numbers add up exactly. */
  #saved = 0;
  #active = 0;
  readonly #counts: HedgeCounts;

  constructor({ percent, concurrent, counts }: HedgeOptions) {
    this.#counts = counts ?? { sent: new Counter(), decided: new Counter() };
    this.#percent = percent;
    this.#concurrent = concurrent;
  }

  /** A creation begins. After how long it is late; undefined: it is not to be sent again. */
  begin(sizeBytes: number): number | undefined {
    if (this.#percent === 0) return undefined;
    this.#saved = Math.min(this.#saved + this.#percent, 100 * SAVED_MAX);
    const { p50Millis, p95Millis } = this.#latenciesOf(sizeBytes);
    if (p50Millis === undefined || p95Millis === undefined) return undefined;
    return Math.max(DELAY_MILLIS_MIN, Math.ceil(p95Millis), Math.ceil(MEDIANS_MIN * p50Millis));
  }

  /** How long one took, or at least, when its answer was not waited for. */
  note(sizeBytes: number, millis: number): void {
    if (this.#percent > 0) this.#latenciesOf(sizeBytes).note(millis);
  }

  /** Whether a second request may be sent now; followed by one `end` then. */
  tryStart(): boolean {
    if (this.#saved < 100 || this.#active >= this.#concurrent) return false;
    this.#saved -= 100;
    this.#active++;
    this.#counts.sent.add();
    return true;
  }

  /** The second request had the decisive answer. */
  decided(): void {
    this.#counts.decided.add();
  }

  end(): void {
    this.#active--;
  }

  #latenciesOf(sizeBytes: number): Latencies {
    const found = SIZE_CLASSES.findIndex((max) => sizeBytes <= max);
    return this.#latencies[found < 0 ? SIZE_CLASSES.length : found]!;
  }
}

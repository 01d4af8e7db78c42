/** Enough for one in twenty to be a few. */
const SAMPLES = 128;
/** Fewer say nothing about one in twenty. */
const SAMPLES_MIN = 40;
const SORTED_EVERY = 16;

/** How long the last creations took, and after how long one is among the slowest of them. */
export class Latencies {
  readonly #ring = new Float64Array(SAMPLES);
  #count = 0;
  #p50: number | undefined;
  #p95: number | undefined;

  note(millis: number): void {
    this.#ring[this.#count++ % SAMPLES] = millis;
    if (this.#count < SAMPLES_MIN || this.#count % SORTED_EVERY !== 0) return;
    const sorted = this.#ring.slice(0, this.#count).sort();
    this.#p50 = sorted[Math.floor(0.5 * sorted.length)]!;
    this.#p95 = sorted[Math.floor(0.95 * sorted.length)]!;
  }

  /** Undefined: too few are known. */
  get p50Millis(): number | undefined {
    return this.#p50;
  }

  /** Undefined: too few are known. */
  get p95Millis(): number | undefined {
    return this.#p95;
  }
}

/**
 * Counters, gauges and histograms of one engine, read as a plain object. Recording costs an addition;
 * nothing here allocates on the hot path.
 */
export class Counter {
  value = 0;

  add(amount = 1): void {
    this.value += amount;
  }
}

/** Buckets grow by 2^(1/4): quantiles are read within 19 %, from 1 microsecond to hours. */
const STEPS_PER_DOUBLING = 4;
const SMALLEST = 1 / 1024;
const BUCKET_COUNT = 44 * STEPS_PER_DOUBLING;

/** A histogram of non-negative numbers, usually milliseconds. */
export class Histogram {
  readonly #buckets = new Float64Array(BUCKET_COUNT);
  count = 0;
  sum = 0;
  max = 0;

  record(value: number): void {
    this.count++;
    this.sum += value;
    if (value > this.max) this.max = value;
    const step = Math.ceil(Math.log2(Math.max(value, SMALLEST) / SMALLEST) * STEPS_PER_DOUBLING);
    this.#buckets[Math.min(step, BUCKET_COUNT - 1)]!++;
  }

  /** The value below which `fraction` of the records lie, within the width of a bucket; 0 when empty. */
  quantile(fraction: number): number {
    if (this.count === 0) return 0;
    let left = fraction * this.count;
    for (let step = 0; step < BUCKET_COUNT; step++) {
      left -= this.#buckets[step]!;
      if (left <= 0) return Math.min(this.max, SMALLEST * 2 ** (step / STEPS_PER_DOUBLING));
    }
    return this.max;
  }

  summary(): HistogramSummary {
    return {
      count: this.count,
      sum: this.sum,
      max: this.max,
      p50: this.quantile(0.5),
      p90: this.quantile(0.9),
      p99: this.quantile(0.99),
    };
  }
}

export interface HistogramSummary {
  readonly count: number;
  readonly sum: number;
  readonly max: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

export interface MetricsSnapshot {
  readonly counters: Readonly<Record<string, number>>;
  readonly gauges: Readonly<Record<string, number>>;
  readonly histograms: Readonly<Record<string, HistogramSummary>>;
}

export class Metrics {
  readonly #counters = new Map<string, Counter>();
  readonly #gauges = new Map<string, () => number>();
  readonly #histograms = new Map<string, Histogram>();

  counter(name: string): Counter {
    return getOrCreate(this.#counters, name, () => new Counter());
  }

  histogram(name: string): Histogram {
    return getOrCreate(this.#histograms, name, () => new Histogram());
  }

  /** A gauge is read when a snapshot is taken; a second registration replaces the first. */
  gauge(name: string, read: () => number): void {
    this.#gauges.set(name, read);
  }

  /** One gauge as it is now; undefined when nobody registered it. */
  readGauge(name: string): number | undefined {
    return this.#gauges.get(name)?.();
  }

  snapshot(): MetricsSnapshot {
    return {
      counters: toObject(this.#counters, (counter) => counter.value),
      gauges: toObject(this.#gauges, (read) => read()),
      histograms: toObject(this.#histograms, (histogram) => histogram.summary()),
    };
  }
}

function getOrCreate<T>(map: Map<string, T>, name: string, create: () => T): T {
  const present = map.get(name);
  if (present !== undefined) return present;
  const created = create();
  map.set(name, created);
  return created;
}

function toObject<T, R>(map: ReadonlyMap<string, T>, read: (value: T) => R): Record<string, R> {
  return Object.fromEntries(
    [...map].sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, x]) => [k, read(x)]),
  );
}

/**
 * How long a wave waits for one bucket: twice its 99th percentile, at most a second. A bucket that
 * once let a wave wait that long is not waited for again until it answers something.
 */
import type { EngineError } from '../src/lib/errors.ts';
import { Histogram } from '../src/lib/metrics.ts';
import { needsHelp } from '../src/ports/bucket-store.ts';

/** Below this many waves the percentile says nothing. */
const SAMPLES_MIN = 5;
const WAIT_MAX_MILLIS = 1_000;
/** Timers and event loops are not exact: a very fast store still gets this long. */
const WAIT_MIN_MILLIS = 20;

export class BucketPatience {
  readonly #reads = new Histogram();
  readonly #writes = new Histogram();
  #overdue = false;
  #readRefusal: EngineError | undefined;
  #writeRefusal: EngineError | undefined;

  /** True while the last wave that waited for this bucket gave up, and it answered nothing since. */
  get isOverdue(): boolean {
    return this.#overdue;
  }

  /** What somebody has to change before the bucket does what it is asked for. */
  get refusal(): EngineError | undefined {
    return this.#writeRefusal ?? this.#readRefusal;
  }

  readWaitMillis(): number {
    return waitOf(this.#reads);
  }

  /** Bodies take their time: a second more for each MiB. */
  writeWaitMillis(sizeBytes = 0): number {
    return waitOf(this.#writes) + (sizeBytes / 2 ** 20) * 1_000;
  }

  /** The bucket answered something: it is worth waiting for again. */
  noteAnswer(): void {
    this.#overdue = false;
    this.#readRefusal = undefined;
  }

  noteFailedRead(cause: EngineError): void {
    if (needsHelp(cause)) this.#readRefusal = cause;
  }

  noteFailedWrite(cause: EngineError): void {
    if (needsHelp(cause)) this.#writeRefusal = cause;
  }

  /** How long a wave of reads took. */
  noteRead(millis: number): void {
    this.#reads.record(millis);
  }

  noteWrite(millis: number): void {
    this.#overdue = false;
    this.#writeRefusal = undefined;
    this.#writes.record(millis);
  }

  noteOverdue(): void {
    this.#overdue = true;
  }
}

function waitOf(latencies: Histogram): number {
  if (latencies.count < SAMPLES_MIN) return WAIT_MAX_MILLIS;
  return Math.min(WAIT_MAX_MILLIS, Math.max(WAIT_MIN_MILLIS, 2 * latencies.quantile(0.99)));
}

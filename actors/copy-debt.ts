/**
 * Copies beyond W that were given up: made up later from another bucket, one at a time a bucket.
 * Durability does not depend on them; the debt is a gauge. Source: DESIGN "Append (A)".
 */
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { parseFlight } from '../src/format/flight.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import { sleep } from '../src/lib/wait.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';

const RETRY = { firstMillis: 100, maxMillis: 10_000 };
/** A slot object is at most a flight target, one batch and a head. */
const OBJECT_BYTES_MAX = 64 * 1024 * 1024;

/** Slots owed to one bucket, as half-open ranges: an outage of hours stays small. */
interface Owed {
  ranges: { start: number; end: number }[];
  paying: boolean;
}

export class CopyDebt {
  readonly #ports: StarPorts;
  readonly #record: EpochRecord;
  readonly #buckets: readonly SetBucket[];
  readonly #owed: Owed[];
  readonly #controller = forManyListeners(new AbortController());

  constructor(ports: StarPorts, record: EpochRecord, buckets: readonly SetBucket[]) {
    this.#ports = ports;
    this.#record = record;
    this.#buckets = buckets;
    this.#owed = buckets.map(() => ({ ranges: [], paying: false }));
  }

  /** Copies that are still owed, over all buckets. */
  get count(): number {
    return this.#owed.reduce(
      (total, { ranges }) => ranges.reduce((sum, { start, end }) => sum + end - start, total),
      0,
    );
  }

  owe(bucketIndex: number, slot: number): void {
    if (this.#controller.signal.aborted) return;
    const owed = this.#owed[bucketIndex]!;
    const last = owed.ranges.at(-1);
    if (last?.end === slot) last.end++;
    else owed.ranges.push({ start: slot, end: slot + 1 });
    if (!owed.paying) {
      owed.paying = true;
      void this.#pay(bucketIndex, owed).finally(() => {
        owed.paying = false;
      });
    }
  }

  stop(): void {
    this.#controller.abort();
  }

  async #pay(bucketIndex: number, owed: Owed): Promise<void> {
    const { signal } = this.#controller;
    const { clock, random, metrics } = this.#ports;
    for (let failures = 0; owed.ranges.length > 0;) {
      const range = owed.ranges[0]!;
      const paid = await this.#copy(bucketIndex, range.start, signal);
      if (signal.aborted) return;
      if (paid) {
        failures = 0;
        metrics.counter('flight.copiesMadeUp').add();
        range.start++;
        if (range.start === range.end) owed.ranges.shift();
        continue;
      }
      const wait = backoffMillis(random, failures++, RETRY);
      await sleep(clock, wait, signal).catch(() => undefined);
    }
  }

  /** True when the slot needs no more copy in the bucket. */
  async #copy(bucketIndex: number, slot: number, signal: AbortSignal): Promise<boolean> {
    const { star, epoch } = this.#record;
    const key = slotKey(star, epoch, slot);
    for (const [index, bucket] of this.#buckets.entries()) {
      if (index === bucketIndex) continue;
      const read = await bucket.store.readRange(key, 0, OBJECT_BYTES_MAX, { signal });
      if (read.kind !== 'found' || !parseFlight(read.bytes).ok) continue;
      const target = this.#buckets[bucketIndex]!;
      const outcome = await target.store.createOnly(key, read.bytes, { signal });
      return outcome.kind === 'created' || outcome.kind === 'exists';
    }
    return false;
  }
}

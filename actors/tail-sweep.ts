/**
 * Sweeps the unratified tail of a settled epoch: flights at or above the cut were never
 * acknowledged, nothing maps them, and they are confined to one window beyond the cut. Only sound
 * flights of the epoch go; poison stands until the star is decommissioned, because a partitioned
 * writer's PUT may still arrive at any later time.
 */
import { backoffMillis } from '../src/lib/backoff.ts';
import { forEachBounded } from '../src/lib/bounded.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { linkedSignal, sleep } from '../src/lib/wait.ts';
import { PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import { isSwept } from '../src/protocol/settlement.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';

type SweepPorts = Pick<StarPorts, 'clock' | 'random' | 'log' | 'metrics'>;

export interface SweepTarget {
  readonly set: BucketSet;
  readonly record: EpochRecord;
  readonly from: number;
  readonly to: number;
}

export interface SweepOutcome {
  /** Whether every slot of the range is known to hold no flight of the epoch in any bucket. */
  readonly swept: boolean;
  readonly deleted: number;
}

/** A bucket that does not answer within this is left to a later settler. */
const PATIENCE_MILLIS = 10_000;
const ROUNDS_MAX = 4;
const ROUND_PAUSE = { firstMillis: 50, maxMillis: 1_000 };
const READ_CONCURRENCY = 16;
const DELETE_BATCH = 500;

/**
 * Deletes the flights of `[from, to)` in all buckets. Idempotent and safe beside other sweepers; the
 * range must lie at or above the published cut. Never rejects: a fired signal leaves the rest unswept.
 */
export async function sweepTail(
  ports: SweepPorts,
  target: SweepTarget,
  options: { readonly signal: AbortSignal },
): Promise<SweepOutcome> {
  const limited = linkedSignal(
    ports.clock,
    { signal: options.signal, timeoutMillis: PATIENCE_MILLIS },
    'sweeping',
  );
  forManyListeners(limited.signal);
  try {
    const outcomes = await Promise.all(
      target.set.buckets.map((bucket) => sweepBucket(ports, bucket, target, limited.signal)),
    );
    return {
      swept: outcomes.every((outcome) => outcome.swept),
      deleted: outcomes.reduce((sum, outcome) => sum + outcome.deleted, 0),
    };
  } finally {
    limited.release();
  }
}

async function sweepBucket(
  ports: SweepPorts,
  bucket: SetBucket | undefined,
  target: SweepTarget,
  signal: AbortSignal,
): Promise<SweepOutcome> {
  // Not configured any more: what it holds is unknown.
  if (bucket === undefined) return { swept: false, deleted: 0 };
  let pending: number[] = [];
  for (let slot = target.from; slot < target.to; slot++) pending.push(slot);
  let deleted = 0;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const { flights, unknown } = await findFlights(ports, bucket, target, pending, signal);
    const left = await deleteFlights(bucket, target, flights, signal);
    deleted += flights.length - left.length;
    const next = [...unknown, ...left];
    if (next.length === 0) return { swept: true, deleted };
    // A bucket that answers nothing at all is not worth a caller's wait.
    if (next.length === pending.length && flights.length === 0) break;
    pending = next;
    const paused = await pause(ports, round, signal);
    if (!paused) break;
  }
  ports.log.info(
    { bucket: bucket.store.name, star: target.record.star, epoch: target.record.epoch },
    'a bucket did not answer while the tail of an epoch was swept',
  );
  return { swept: false, deleted };
}

async function findFlights(
  ports: SweepPorts,
  bucket: SetBucket,
  target: SweepTarget,
  slots: readonly number[],
  signal: AbortSignal,
): Promise<{ readonly flights: number[]; readonly unknown: number[] }> {
  const { star, epoch, nonce } = target.record;
  const flights: number[] = [];
  const unknown: number[] = [];
  await forEachBounded(slots, READ_CONCURRENCY, async (slot) => {
    const key = slotKey(star, epoch, slot);
    const read = await bucket.store.readHead(key, PREAMBLE_BYTES, { signal });
    if (read.kind === 'unknown') unknown.push(slot);
    if (read.kind !== 'found') return;
    const found = inspectSlotObject(read.bytes, read.sizeBytes, { star, epoch, slot, nonce });
    if (isSwept(found)) flights.push(slot);
    else if (found.kind !== 'poison') {
      ports.metrics.counter('settlement.oddTailObjects').add();
      ports.log.warn(
        { bucket: bucket.store.name, key, found: found.kind },
        'an object above the cut is neither flight nor poison of its epoch; it is left alone',
      );
    }
  });
  return { flights, unknown };
}

/** Slots whose deletion is not certain. */
async function deleteFlights(
  bucket: SetBucket,
  target: SweepTarget,
  slots: readonly number[],
  signal: AbortSignal,
): Promise<number[]> {
  const left: number[] = [];
  for (let start = 0; start < slots.length; start += DELETE_BATCH) {
    const batch = slots.slice(start, start + DELETE_BATCH);
    const keys = batch.map((slot) => slotKey(target.record.star, target.record.epoch, slot));
    const outcomes = await bucket.store.deleteMany(keys, { signal });
    batch.forEach((slot, index) => {
      if (outcomes[index]?.kind !== 'deleted' && outcomes[index]?.kind !== 'absent')
        left.push(slot);
    });
  }
  return left;
}

async function pause(ports: SweepPorts, round: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ports.clock, backoffMillis(ports.random, round, ROUND_PAUSE), signal);
    return true;
  } catch {
    return false;
  }
}

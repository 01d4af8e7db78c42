/**
 * Headers of committed flights: what a slot covers, without reading a record (S1). A flight below
 * the cut has W copies, so one good copy of its head answers; an absence decides nothing here.
 */
import { forEachBounded } from '../src/lib/bounded.ts';
import { EngineError } from '../src/lib/errors.ts';
import { DEFAULT_HEAD_READ_BYTES, parseHeader } from '../src/format/flight.ts';
import type { FlightEntry } from '../src/format/flight.ts';
import { headLengths, PREAMBLE_BYTES } from '../src/format/preamble.ts';
import type { Preamble } from '../src/format/preamble.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import type { ExpectedSlot } from '../src/format/slot-object.ts';
import type { CoveragePlan } from '../src/protocol/coverage.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import { anyCopy } from './copies.ts';
import type { CopyAnswer, CopyOptions, CopyResult } from './copies.ts';
import type { StarPorts } from './ports.ts';

type HeadPorts = Pick<StarPorts, 'clock' | 'log' | 'metrics' | 'roundTrips'>;

export interface FlightHead {
  readonly preamble: Preamble;
  readonly entries: readonly FlightEntry[];
  /** Where the body starts in the object; offsets of entries count from here. */
  readonly bodyStart: number;
}

export interface HeadOptions extends CopyOptions {
  /** Called with each bucket that was met holding poison instead of the flight. */
  readonly onPoison?: ((bucket: SetBucket) => void) | undefined;
}

export type HeadsOutcome =
  | { readonly kind: 'read' }
  /** Every bucket answered, and none holds the flight of this slot. */
  | {
      readonly kind: 'missing';
      readonly slot: number;
      /** Buckets that hold poison there, and showed their identity after it. */
      readonly poisonedIn: readonly string[];
    }
  /** Buckets that may hold the flight did not answer. */
  | {
      readonly kind: 'unavailable';
      readonly slot: number;
      readonly cause: EngineError | undefined;
    };

/**
 * The head of the flight in a slot, from whichever bucket has a good copy.
 *
 * @throws EngineError ABORTED
 */
export function readFlightHead(
  ports: HeadPorts,
  set: BucketSet,
  expected: ExpectedSlot,
  options: HeadOptions = {},
): Promise<CopyResult<FlightHead>> {
  const key = slotKey(expected.star, expected.epoch, expected.slot);
  return anyCopy(
    ports,
    {
      key,
      set,
      turn: expected.slot,
      read: async (bucket, signal) => {
        const answer = await readHeadOf(bucket, key, expected, signal);
        if (answer !== 'poison') return answer;
        // A minority of poison below the cut is no copy, and no damage either.
        options.onPoison?.(bucket);
        return { kind: 'absent' };
      },
    },
    options,
  );
}

/**
 * Adds the slots that the plan lacks, up to `concurrency` at a time. What was read stays in the
 * plan whatever the outcome, so that a repeated call reads only the rest.
 *
 * @param options.onRead - called after each slot.
 * @throws EngineError ABORTED
 */
export async function readHeads(
  ports: HeadPorts,
  target: { readonly set: BucketSet; readonly record: EpochRecord; readonly plan: CoveragePlan },
  options: CopyOptions & { readonly concurrency: number; readonly onRead?: () => void },
): Promise<HeadsOutcome> {
  const { set, record, plan } = target;
  const { star, epoch, nonce } = record;
  const failed: HeadsOutcome[] = [];
  const { signal } = options;
  const inTurn = ports.roundTrips?.fork() ?? (<T>(piece: () => Promise<T>) => piece());
  const readOne = async (slot: number): Promise<void> => {
    if (failed.length > 0) return;
    const poisoned: SetBucket[] = [];
    const onPoison = (bucket: SetBucket): void => void poisoned.push(bucket);
    const expected = { star, epoch, slot, nonce };
    const result = await readFlightHead(ports, set, expected, { ...options, onPoison });
    if (result.kind === 'good') {
      plan.add(slot, result.value.entries, result.value.bodyStart);
      options.onRead?.();
    } else if (result.unknown === 0) {
      const poisonedIn = await namesOfConfirmed(poisoned, signal);
      failed.push({ kind: 'missing', slot, poisonedIn });
    } else failed.push({ kind: 'unavailable', slot, cause: result.cause });
  };
  await forEachBounded(missingSlots(plan), options.concurrency, (slot) =>
    inTurn(() => readOne(slot)),
  );
  return failed[0] ?? { kind: 'read' };
}

/** Poison counts only in the bucket that it seems to be in, by a read begun after it was seen. */
async function namesOfConfirmed(
  buckets: readonly SetBucket[],
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const verdicts = await Promise.all(buckets.map((bucket) => bucket.confirm(signal)));
  const confirmed = buckets.filter((_, index) => verdicts[index] === 'confirmed');
  return confirmed.map(({ store }) => store.name).sort();
}

function* missingSlots(plan: CoveragePlan): Iterable<number> {
  for (let slot = plan.from; slot < plan.to; slot++) if (!plan.has(slot)) yield slot;
}

async function readHeadOf(
  bucket: SetBucket,
  key: string,
  expected: ExpectedSlot,
  signal: AbortSignal,
): Promise<CopyAnswer<FlightHead> | 'poison'> {
  const read = await bucket.store.readHead(key, DEFAULT_HEAD_READ_BYTES, { signal });
  if (read.kind !== 'found') return read;
  const found = inspectSlotObject(read.bytes, read.sizeBytes, expected);
  if (found.kind === 'poison') return 'poison';
  if (found.kind === 'foreign') return { kind: 'bad', reason: 'flight of another writer' };
  if (found.kind === 'corrupt') return { kind: 'bad', reason: found.reason };
  const { preamble } = found;
  const { headBytes } = headLengths(preamble);
  let head = read.bytes;
  if (head.length < headBytes) {
    const rest = await bucket.store.readRange(key, head.length, headBytes, { signal });
    if (rest.kind !== 'found') return rest;
    head = concat(head, rest.bytes);
    if (head.length < headBytes) return { kind: 'bad', reason: 'object ends within its header' };
  }
  const header = parseHeader(head.subarray(PREAMBLE_BYTES, headBytes), preamble);
  if (!header.ok) return { kind: 'bad', reason: header.reason };
  return { kind: 'good', value: { preamble, entries: header.entries, bodyStart: headBytes } };
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

/** What a settlement waits out. */
export function headUnavailable(record: EpochRecord, slot: number, cause: unknown): EngineError {
  return new EngineError('BUCKET_UNAVAILABLE', 'no bucket answered with the head of a flight', {
    cause,
    details: { star: record.star, epoch: record.epoch, slot },
  });
}

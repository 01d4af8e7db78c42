/**
 * The unbroken run of committed slots above an epoch's checkpoint: what any fence would keep. Lets a
 * process read that leads nothing and writes nothing. Source: the seed's "Committed: flight copies
 * visible in at least W buckets".
 */
import { backoffMillis } from '../src/lib/backoff.ts';
import { EngineError } from '../src/lib/errors.ts';
import { sleep, throwIfAborted } from '../src/lib/wait.ts';
import { EXISTS_HEAD_BYTES, needsHelp } from '../src/ports/bucket-store.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';
import { headUnavailable, readFlightHead, type FlightHead } from './slot-heads.ts';

const WAVE_SLOTS = 16;
/** A wave that too few buckets answer is repeated so often: one answer of "too busy" is no reason to give up. */
const REPEATS_MAX = 6;
const RETRY = { firstMillis: 50, maxMillis: 1_000 };

export type SlotSight = 'committed' | 'partial' | 'poison' | 'empty' | 'undecided';

export interface SeenSlot {
  readonly slot: number;
  readonly sight: SlotSight;
  /** Identical copies of the writer's flight. */
  readonly copies: number;
  /** Buckets that said what they hold. */
  readonly answers: number;
  /** The others. */
  readonly silent: number;
  /** Why another one did not: a refusal, if there is one. */
  readonly cause: EngineError | undefined;
}

/** What the buckets hold of one slot right now. Decides nothing: no identity is confirmed. */
export async function lookAtSlot(
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal?: AbortSignal,
): Promise<SeenSlot> {
  const causes: EngineError[] = [];
  const sights = await Promise.all(
    set.buckets.map(async (bucket) => {
      const sight = await lookInBucket(bucket, record, slot, signal);
      if (typeof sight === 'string') return sight;
      causes.push(sight);
      return 'unknown';
    }),
  );
  const counts = new Map<string, number>();
  for (const sight of sights) counts.set(sight, (counts.get(sight) ?? 0) + 1);
  const flights = [...counts].filter(([sight]) => sight.startsWith('flight'));
  const copies = Math.max(0, ...flights.map(([, count]) => count));
  const count = (sight: string): number => counts.get(sight) ?? 0;
  const cause = causes.find(needsHelp) ?? causes[0];
  const silent = count('unknown');
  const seen = { slot, copies, answers: sights.length - silent, silent, cause };
  if (copies >= record.copyQuorum) return { ...seen, sight: 'committed' };
  if (copies > 0) return { ...seen, sight: 'partial' };
  if (count('poison') > 0) return { ...seen, sight: 'poison' };
  return { ...seen, sight: count('empty') === sights.length ? 'empty' : 'undecided' };
}

/** Fewer buckets answer than would have to show a copy: nothing can be said of the slot. */
export function isHidden({ sight, answers }: SeenSlot, { copyQuorum }: EpochRecord): boolean {
  return sight !== 'committed' && answers < copyQuorum;
}

/** Buckets that say nothing may hold the copies that are missing. */
function mayBeCommitted({ copies, silent }: SeenSlot, { copyQuorum }: EpochRecord): boolean {
  return copies + silent >= copyQuorum;
}

/** The error of a look that cannot tell what is there. */
export function hiddenError(seen: SeenSlot, { star, epoch, copyQuorum }: EpochRecord): EngineError {
  const { slot, answers, cause } = seen;
  if (cause !== undefined && needsHelp(cause)) return cause;
  return new EngineError('BUCKET_UNAVAILABLE', 'too few buckets say what they hold of a slot', {
    details: { star, epoch, slot, answering: answers, copyQuorum },
    cause,
  });
}

async function lookInBucket(
  bucket: SetBucket | undefined,
  record: EpochRecord,
  slot: number,
  signal: AbortSignal | undefined,
): Promise<string | EngineError> {
  if (bucket === undefined) return 'unknown';
  const { star, epoch, nonce } = record;
  const key = slotKey(star, epoch, slot);
  const read = await bucket.store.readHead(key, EXISTS_HEAD_BYTES, { signal });
  if (read.kind === 'absent') return 'empty';
  if (read.kind === 'unknown') return read.cause;
  const object = inspectSlotObject(read.bytes, read.sizeBytes, { star, epoch, slot, nonce });
  if (object.kind !== 'flight') return object.kind;
  const { headerChecksum, bodyChecksum } = object.preamble;
  return `flight ${headerChecksum.toString()} ${bodyChecksum.toString()}`;
}

export interface CommittedSlot extends FlightHead {
  readonly slot: number;
}

/**
 * Heads of the committed run from the checkpoint to the cut, or to the first slot without W copies.
 *
 * @throws EngineError BUCKET_UNAVAILABLE, BUCKET_REFUSED when too few buckets say where it ends.
 */
export async function* committedRun(
  ports: StarPorts,
  set: BucketSet,
  record: EpochRecord,
  signal?: AbortSignal,
): AsyncGenerator<CommittedSlot> {
  const end = record.cut ?? Number.POSITIVE_INFINITY;
  for (let slot = record.checkpoint; slot < end; slot += WAVE_SLOTS) {
    const wave = Array.from({ length: Math.min(WAVE_SLOTS, end - slot) }, (_, i) => slot + i);
    const committed = await committedOf(ports, { set, record, wave }, signal);
    const heads = await Promise.all(committed.map((s) => headOf(ports, set, record, s, signal)));
    for (const head of heads) {
      if (head === undefined) return;
      yield head;
    }
    if (committed.length < wave.length) return;
  }
}

/** The first slots of the wave, up to one that was not acknowledged when it was looked at. */
async function committedOf(
  { clock, random }: Pick<StarPorts, 'clock' | 'random'>,
  target: {
    readonly set: BucketSet;
    readonly record: EpochRecord;
    readonly wave: readonly number[];
  },
  signal: AbortSignal | undefined,
): Promise<readonly number[]> {
  const { set, record } = target;
  let { wave } = target;
  for (let repeats = 0; ; repeats++) {
    const seen = await Promise.all(wave.map((slot) => lookAtSlot(set, record, slot, signal)));
    throwIfAborted(signal, 'reading');
    const end = seen.findIndex((one) => !mayBeCommitted(one, record));
    // What came later is not waited for: a writer that is at work would always be ahead.
    if (end >= 0) wave = wave.slice(0, end);
    const open = seen.slice(0, wave.length).find(({ sight }) => sight !== 'committed');
    if (open === undefined) return wave;
    const error = hiddenError(open, record);
    // Where enough buckets answer, its writer may be about to store the next copy.
    const isFinal = isHidden(open, record) && !error.retryable;
    if (isFinal || repeats === REPEATS_MAX) throw error;
    await sleep(clock, backoffMillis(random, repeats, RETRY), signal);
  }
}

/** Undefined: no bucket holds it any more. */
async function headOf(
  ports: StarPorts,
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal: AbortSignal | undefined,
): Promise<CommittedSlot | undefined> {
  const { star, epoch, nonce } = record;
  for (let repeats = 0; ; repeats++) {
    const head = await readFlightHead(ports, set, { star, epoch, slot, nonce }, { signal });
    if (head.kind === 'good') return { ...head.value, slot };
    if (head.unknown === 0) return undefined;
    const { cause, refused, unknown } = head;
    if (refused === unknown && cause !== undefined) throw cause;
    if (repeats === REPEATS_MAX) throw headUnavailable(record, slot, cause);
    await sleep(ports.clock, backoffMillis(ports.random, repeats, RETRY), signal);
  }
}

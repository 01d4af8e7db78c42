/**
 * The unbroken run of committed slots above an epoch's checkpoint: what any fence would keep. Lets a
 * process read that leads nothing and writes nothing. Source: the seed's "Committed: flight copies
 * visible in at least W buckets".
 */
import { EXISTS_HEAD_BYTES } from '../src/ports/bucket-store.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';
import { readFlightHead, type FlightHead } from './slot-heads.ts';

const WAVE_SLOTS = 16;

export type SlotSight = 'committed' | 'partial' | 'poison' | 'empty' | 'undecided';

export interface SeenSlot {
  readonly slot: number;
  readonly sight: SlotSight;
  /** Identical copies of the writer's flight. */
  readonly copies: number;
}

/** What the buckets hold of one slot right now. Decides nothing: no identity is confirmed. */
export async function lookAtSlot(
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal?: AbortSignal,
): Promise<SeenSlot> {
  const sights = await Promise.all(set.buckets.map((b) => lookInBucket(b, record, slot, signal)));
  const counts = new Map<string, number>();
  for (const sight of sights) counts.set(sight, (counts.get(sight) ?? 0) + 1);
  const flights = [...counts].filter(([sight]) => sight.startsWith('flight'));
  const copies = Math.max(0, ...flights.map(([, count]) => count));
  const count = (sight: string): number => counts.get(sight) ?? 0;
  if (copies >= record.copyQuorum) return { slot, sight: 'committed', copies };
  if (copies > 0) return { slot, sight: 'partial', copies };
  if (count('poison') > 0) return { slot, sight: 'poison', copies };
  return { slot, sight: count('empty') === sights.length ? 'empty' : 'undecided', copies };
}

async function lookInBucket(
  bucket: SetBucket | undefined,
  record: EpochRecord,
  slot: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  if (bucket === undefined) return 'unknown';
  const { star, epoch, nonce } = record;
  const key = slotKey(star, epoch, slot);
  const read = await bucket.store.readHead(key, EXISTS_HEAD_BYTES, { signal });
  if (read.kind === 'absent') return 'empty';
  if (read.kind === 'unknown') return 'unknown';
  const object = inspectSlotObject(read.bytes, read.sizeBytes, { star, epoch, slot, nonce });
  if (object.kind !== 'flight') return object.kind;
  const { headerChecksum, bodyChecksum } = object.preamble;
  return `flight ${headerChecksum.toString()} ${bodyChecksum.toString()}`;
}

export interface CommittedSlot extends FlightHead {
  readonly slot: number;
}

/** Heads of the committed run from the checkpoint to the cut, or to the first slot without W copies. */
export async function* committedRun(
  ports: StarPorts,
  set: BucketSet,
  record: EpochRecord,
  signal?: AbortSignal,
): AsyncGenerator<CommittedSlot> {
  const { star, epoch, nonce } = record;
  const end = record.cut ?? Number.POSITIVE_INFINITY;
  for (let slot = record.checkpoint; slot < end; slot += WAVE_SLOTS) {
    const wave = Array.from({ length: Math.min(WAVE_SLOTS, end - slot) }, (_, i) => slot + i);
    const seen = await Promise.all(wave.map((s) => lookAtSlot(set, record, s, signal)));
    const stop = seen.findIndex(({ sight }) => sight !== 'committed');
    const committed = stop < 0 ? wave : wave.slice(0, stop);
    const heads = await Promise.all(
      committed.map((s) => readFlightHead(ports, set, { star, epoch, slot: s, nonce }, { signal })),
    );
    for (const [index, head] of heads.entries()) {
      if (head.kind !== 'good') return;
      yield { ...head.value, slot: committed[index]! };
    }
    if (stop >= 0) return;
  }
}

/**
 * Whether a dead slot is an end of its epoch, or damage: poison where an acknowledged flight was.
 * Looks only, for whoever explains a slot. Rules: src/protocol/acknowledged.ts.
 */
import { forEachBounded } from '../src/lib/bounded.ts';
import { PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import {
  acknowledgedBy,
  releasedBy,
  type AcknowledgementProof,
} from '../src/protocol/acknowledged.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { BucketSet } from './bucket-set.ts';

export interface SlotDamage {
  readonly code: 'ACKNOWLEDGED_SLOT_POISONED';
  readonly why: readonly string[];
}

/** Slots above a dead one in which a flight may prove that it was acknowledged. */
const PROOF_SLOTS_MAX = 256;
const READ_CONCURRENCY = 16;

/** @param slot - one whose class is dead. */
export async function slotDamage(
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal?: AbortSignal,
): Promise<SlotDamage | undefined> {
  const proofs = acknowledgedBy(record, slot, await releasedAbove(set, record, slot, signal));
  if (proofs.length === 0) return undefined;
  return {
    code: 'ACKNOWLEDGED_SLOT_POISONED',
    why: [
      `damage: this slot was acknowledged, ${proofs.map(sentence).join(', ')}`,
      'no fence publishes a cut here and no settlement passes it: an operator has to look',
    ],
  };
}

function sentence({ by, upTo }: AcknowledgementProof): string {
  if (by === 'checkpoint') return `rows cover every slot below the checkpoint ${upTo}`;
  if (by === 'cut') return `the published cut is ${upTo}`;
  return `a higher flight proves that slots below ${upTo} were released`;
}

/** The most that flights in the window above prove. Whatever does not answer proves nothing. */
async function releasedAbove(
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const { star, epoch, nonce, window } = record;
  let most: number | undefined;
  const slots = Array.from({ length: Math.min(window, PROOF_SLOTS_MAX) }, (_, at) => slot + at + 1);
  await forEachBounded(slots, READ_CONCURRENCY, async (above) => {
    for (const bucket of set.buckets) {
      const key = slotKey(star, epoch, above);
      const read = await bucket?.store.readHead(key, PREAMBLE_BYTES, { signal });
      if (read?.kind !== 'found') continue;
      const expected = { star, epoch, slot: above, nonce };
      const found = inspectSlotObject(read.bytes, read.sizeBytes, expected);
      if (found.kind !== 'flight') continue;
      const { released } = found.preamble;
      most = Math.max(most ?? 0, releasedBy({ slot: above, released }, window));
      return;
    }
  });
  return most;
}

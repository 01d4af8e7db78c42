/** What a walk that ended asks the publisher to record, and what it proved on the way. */
import { releasedBy } from './acknowledged.ts';
import { hasBit, SEEN_POISON } from './fence-rows.ts';
import { rowAt, type FenceState } from './fence-state.ts';
import type { CutClaim } from './publication.ts';
import { POISON } from './slot.ts';

/** A claim whose cut lies below `released` accuses: an acknowledged slot is poisoned. */
export function claimOf({ slot, released, low, window, quorum, rows, lost }: FenceState): CutClaim {
  const row = rowAt(rows, slot);
  const poisoned: number[] = [];
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    const cell = row?.cells[bucket];
    if (cell === POISON || (cell === SEEN_POISON && !hasBit(lost, bucket))) poisoned.push(bucket);
  }
  return { cut: slot, released: releasedBy({ slot: low, released }, window), poisoned };
}

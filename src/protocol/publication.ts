/**
 * Publication of a cut (P): what to do with a finished walk, given the epoch record as it is now.
 * The compare-and-set that follows publishes, it does not arbitrate: every walk that is still valid
 * found the same cut (F3).
 */
import { assert } from '../lib/assert.ts';
import type { EpochRecord } from './records.ts';

/** What a walk found. */
export interface CutClaim {
  readonly cut: number;
  /** Slots below were released by the incumbent, as the watermarks of its flights prove. */
  readonly released: number;
  /** Buckets that hold the poison, by their place in the set; for reports. */
  readonly poisoned?: readonly number[];
}

export type RecordCursors = Pick<EpochRecord, 'state' | 'checkpoint' | 'trimmed'> & {
  readonly cut?: number | undefined;
};

export type PublicationDecision =
  /** The record is open and the walk is valid: write the cut under the version read. */
  | { readonly kind: 'publish' }
  /** Somebody published this cut. */
  | { readonly kind: 'recorded'; readonly cut: number }
  /** The walk met deleted slots, or poison below what it proved released; the recorded cut stands. */
  | { readonly kind: 'adopt'; readonly cut: number }
  /** The same, and nobody published: walk again from the new checkpoint. */
  | { readonly kind: 'restart'; readonly checkpoint: number }
  /** Slots in `[cut, provenTo)` were acknowledged and cannot be read: never shorten, report. */
  | { readonly kind: 'acknowledged-poisoned'; readonly provenTo: number }
  /** F3 does not hold: a bug. */
  | { readonly kind: 'disagreement'; readonly recorded: number };

/**
 * Decides from the record read after the walk.
 *
 * Trimmed slots look empty, so a walk that began at an old checkpoint may end at a deleted slot.
 * Deletions stay below `trimmed`, and `trimmed` is durable before them: a dead slot in
 * `[trimmed, checkpoint)` was never deleted, yet it is acknowledged.
 */
export function decidePublication(record: RecordCursors, claim: CutClaim): PublicationDecision {
  const { checkpoint, trimmed } = record;
  assert(trimmed <= checkpoint, 'trimmed stays at or below the checkpoint');
  const isStale = claim.cut < checkpoint;
  if (record.state !== 'open') {
    assert(record.cut !== undefined, 'a record that is not open has a cut');
    if (claim.released > claim.cut && !isStale) {
      // Somebody found the right end, or was misled by the same poison: F1 decides which.
      return record.cut < claim.released
        ? { kind: 'acknowledged-poisoned', provenTo: claim.released }
        : { kind: 'adopt', cut: record.cut };
    }
    if (record.cut === claim.cut) return { kind: 'recorded', cut: record.cut };
    if (isStale) return { kind: 'adopt', cut: record.cut };
    return { kind: 'disagreement', recorded: record.cut };
  }
  if (isStale) {
    return claim.cut < trimmed
      ? { kind: 'restart', checkpoint }
      : { kind: 'acknowledged-poisoned', provenTo: checkpoint };
  }
  if (claim.released > claim.cut) {
    return { kind: 'acknowledged-poisoned', provenTo: claim.released };
  }
  return { kind: 'publish' };
}

/** The record with the cut: what the compare-and-set writes. */
export function fencedRecord(
  record: EpochRecord,
  cut: number,
  fencedBy: NonNullable<EpochRecord['fencedBy']>,
): EpochRecord {
  assert(record.state === 'open', 'P only an open epoch is fenced');
  assert(cut >= record.checkpoint, 'P the cut lies at or above the checkpoint');
  return { ...record, state: 'fenced', cut, fencedBy };
}

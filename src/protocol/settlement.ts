/**
 * Decisions of settlement: what is left to do for an epoch whose cut is published, and what its
 * record becomes. Pure. Host: actors/settlement.actor.ts. Source: DESIGN "Settle" (S1-S4).
 */
import { assert } from '../lib/assert.ts';
import type { SlotObject } from '../format/slot-object.ts';
import { blockingSet } from './quorum.ts';
import type { EpochRecord } from './records.ts';

export type SettlementStep =
  /** The cut is not published: nobody knows yet what is to be covered. */
  | { readonly kind: 'unfenced' }
  /** Rows must cover the flights of `[from, to)`, then the record is settled. */
  | { readonly kind: 'cover'; readonly from: number; readonly to: number }
  /** Flights of `[from, to)` were never acknowledged and are not needed any more. */
  | { readonly kind: 'sweep'; readonly from: number; readonly to: number }
  | { readonly kind: 'done' };

/** What the record asks for next. Finishable by anyone, from the record alone (S2). */
export function settlementStep(record: EpochRecord): SettlementStep {
  const { state, checkpoint, cut, window, tailSwept } = record;
  if (state === 'open') return { kind: 'unfenced' };
  assert(cut !== undefined, 'a fenced epoch has a cut');
  assert(checkpoint <= cut, 'the checkpoint never passes the cut');
  if (state === 'fenced') return { kind: 'cover', from: checkpoint, to: cut };
  if (tailSwept) return { kind: 'done' };
  // Up to W-1 copies can sit at the cut itself, and the writer ran at most a window beyond it.
  return { kind: 'sweep', from: cut, to: cut + window + 1 };
}

/**
 * The record once rows reach the cut in every stream. Undefined when it says so already.
 * Only the checkpoint and the state move: the other cursors belong to the collector.
 */
export function settledRecord(record: EpochRecord): EpochRecord | undefined {
  if (record.state === 'settled' || record.state === 'retired') return undefined;
  assert(record.state === 'fenced', 'only a fenced epoch is settled (S3)');
  const { cut, checkpoint } = record;
  assert(cut !== undefined && checkpoint <= cut, 'the checkpoint never passes the cut');
  return { ...record, checkpoint: cut, state: 'settled' };
}

/** The record once no flight is left in `[cut, cut + window]`. Undefined when it says so already. */
export function sweptRecord(record: EpochRecord): EpochRecord | undefined {
  assert(
    record.state === 'settled' || record.state === 'retired',
    'a sweep follows the settlement',
  );
  return record.tailSwept ? undefined : { ...record, tailSwept: true };
}

/**
 * Whether a slot that no bucket holds is lost: it lies in what the record, read after the miss,
 * still wants covered. Otherwise somebody else covered it, and it was removed in good order.
 */
export function isLost(slot: number, record: EpochRecord): boolean {
  const step = settlementStep(record);
  return step.kind === 'cover' && step.from <= slot && slot < step.to;
}

/**
 * Whether poison took the place of a lost slot's copies. The cut was published above it, so that the
 * slot counts as acknowledged: the epoch is neither settled nor shortened.
 *
 * @param poisoned - buckets with poison that showed their identity after it.
 */
export function isPoisonedBelowCut(slot: number, poisoned: number, record: EpochRecord): boolean {
  const quorum = { buckets: record.buckets, copies: record.copyQuorum };
  return isLost(slot, record) && poisoned >= blockingSet(quorum);
}

/**
 * Whether a sweep deletes what it found. Only a sound flight of this very epoch goes: poison must
 * stand until the star is decommissioned, and anything else is evidence for an operator.
 */
export function isSwept(found: SlotObject): boolean {
  return found.kind === 'flight';
}

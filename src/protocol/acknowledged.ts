/**
 * What proves that a slot was acknowledged. Poison in B buckets of such a slot is damage, never an
 * end of the epoch: a fence does not publish a cut there, a settlement does not pass it. Pure.
 */
import type { EpochRecord } from './records.ts';

export interface AcknowledgementProof {
  readonly by: 'checkpoint' | 'cut' | 'watermark';
  /** Every slot below this one was acknowledged. */
  readonly upTo: number;
}

type Cursors = Pick<EpochRecord, 'checkpoint' | 'trimmed'> & {
  readonly cut?: number | undefined;
};

/**
 * @param released - greatest watermark that flights above the slot carry; undefined without any.
 * @returns the proofs that reach the slot; none for a slot whose copies were deleted in good order,
 *   where a late fencer may have come after.
 */
export function acknowledgedBy(
  { checkpoint, trimmed, cut }: Cursors,
  slot: number,
  released: number | undefined,
): readonly AcknowledgementProof[] {
  if (slot < trimmed) return [];
  const proofs: AcknowledgementProof[] = [{ by: 'checkpoint', upTo: checkpoint }];
  if (cut !== undefined) proofs.push({ by: 'cut', upTo: cut });
  if (released !== undefined) proofs.push({ by: 'watermark', upTo: released });
  return proofs.filter(({ upTo }) => slot < upTo);
}

/**
 * What a flight proves of the slots below it: its watermark, and that its writer assigns no slot
 * further than a window above what it released (A).
 */
export function releasedBy(
  flight: { readonly slot: number; readonly released: number },
  window: number,
): number {
  return Math.max(flight.released, flight.slot - window + 1);
}

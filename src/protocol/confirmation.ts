/**
 * When an epoch counts as confirmed for a request (L1): what was learned on the chain must have
 * begun after the request arrived. Pure. Host: actors/confirmation.ts. Source: DESIGN "Serving (L)".
 */

/** What a waiting request remembers of the moment at which it arrived. */
export interface ConfirmationRequest {
  /** The slot that was next to be assigned: a flight there or above had its first PUT since then. */
  readonly firstSlot: number;
  /** Its place among all requests. */
  readonly arrived: number;
}

export type ConfirmationEvidence =
  /** Every slot below this one is acknowledged. */
  | { readonly kind: 'released'; readonly released: number }
  /**
   * A wave that looked at the next slot while nothing was unacknowledged: how many requests had
   * arrived when it began, and how many buckets showed the slot empty and themselves after it.
   */
  | { readonly kind: 'wave'; readonly begun: number; readonly clean: number };

/** What one bucket says in a wave. */
export type ConfirmationVote =
  /** The slot is empty, and the bucket showed its identity to a read begun after that. */
  | 'clean'
  /** A flight of this writer, assigned meanwhile: its acknowledgement will be the confirmation. */
  | 'own'
  /** Says nothing: no answer, or an absence in a bucket that did not show its identity. */
  | 'silent'
  /** Poison, damage, or another writer's flight: the epoch ends here (A3). */
  | 'lost';

export function voteOf(
  found: 'flight' | 'poison' | 'foreign' | 'corrupt' | 'absent' | 'unknown',
  identity: 'confirmed' | 'lost' | 'unknown',
): ConfirmationVote {
  if (found === 'unknown') return 'silent';
  if (found === 'flight') return 'own';
  if (found !== 'absent') return 'lost';
  return identity === 'confirmed' ? 'clean' : 'silent';
}

/**
 * Whether the evidence confirms the epoch for the request: it is not cut at any time after the
 * request arrived and before the evidence began, so nobody can have acknowledged more elsewhere.
 *
 * @param copies - W: with so many buckets empty, poison holds fewer than B.
 */
export function isConfirmed(
  request: ConfirmationRequest,
  evidence: ConfirmationEvidence,
  copies: number,
): boolean {
  if (evidence.kind === 'released') return request.firstSlot < evidence.released;
  return request.arrived < evidence.begun && evidence.clean >= copies;
}

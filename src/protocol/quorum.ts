import { assert } from '../lib/assert.ts';

/** Mint-time constants that decide slots: K buckets, W copies, P slots of window. */
export interface Quorum {
  /** K */
  readonly buckets: number;
  /** W */
  readonly copies: number;
}

export const BUCKETS_MAX = 16;

/** B = K - W + 1: poison in that many buckets means that W copies can never come together. */
export function blockingSet(quorum: Quorum): number {
  assert(quorum.copies >= 1 && quorum.copies <= quorum.buckets, 'W lies in [1, K]');
  return quorum.buckets - quorum.copies + 1;
}

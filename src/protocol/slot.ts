/**
 * Classification of one slot from what its K buckets show (C). Pure and allocation free where it
 * matters: a walk calls it for every slot.
 */
import { assert } from '../lib/assert.ts';
import { blockingSet, BUCKETS_MAX, type Quorum } from './quorum.ts';

/** Not asked, not answered in time, or an answer that does not count. Never decides (F1). */
export const UNKNOWN = 0;
export const EMPTY = 1;
export const FLIGHT = 2;
export const POISON = 3;
/** Bytes that fail a checksum, an odd copy, or another writer's flight: blocks like UNKNOWN. */
export const CORRUPT = 4;

/** What one bucket shows of one slot. */
export type CellCode =
  typeof UNKNOWN | typeof EMPTY | typeof FLIGHT | typeof POISON | typeof CORRUPT;

export type SlotClass =
  /** At least W flights: part of the chain, for good. */
  | { readonly kind: 'committed' }
  /** Poison in at least B buckets: never acknowledged, for good. The first such slot is the cut. */
  | { readonly kind: 'dead' }
  /** A flight and too few copies: copy the identical bytes into these buckets. */
  | { readonly kind: 'repair'; readonly empty: readonly number[] }
  /** No flight anywhere reachable: poison this bucket, then look again. */
  | { readonly kind: 'poison'; readonly bucket: number }
  /** The deciding vote lies in buckets that do not answer, or that hold damage. */
  | { readonly kind: 'undecided' };

const COMMITTED: SlotClass = Object.freeze({ kind: 'committed' });
const DEAD: SlotClass = Object.freeze({ kind: 'dead' });
const UNDECIDED: SlotClass = Object.freeze({ kind: 'undecided' });
const POISON_AT: readonly SlotClass[] = Array.from({ length: BUCKETS_MAX }, (_, bucket) =>
  Object.freeze({ kind: 'poison' as const, bucket }),
);

/**
 * Classifies a slot. Terminal classes (committed, dead) are monotone: once forced, no answer that
 * is still missing can change them, so a caller may stop waiting.
 *
 * @param seen - one `CellCode` a bucket, in the set's fixed order; more bytes are ignored.
 */
export function classify(quorum: Quorum, seen: Uint8Array): SlotClass {
  const { buckets, copies } = quorum;
  let flights = 0;
  let poisons = 0;
  let empties = 0;
  let firstEmpty = 0;
  for (let bucket = buckets - 1; bucket >= 0; bucket--) {
    const code = seen[bucket];
    if (code === FLIGHT) flights++;
    else if (code === EMPTY) {
      empties++;
      firstEmpty = bucket;
    } else if (code === POISON) poisons++;
  }
  if (flights >= copies) return COMMITTED;
  // B = K - W + 1; written out because this is the hot path.
  if (poisons > buckets - copies) return DEAD;
  if (empties === 0) return UNDECIDED;
  return flights > 0 ? repairOf(buckets, seen) : POISON_AT[firstEmpty]!;
}

function repairOf(buckets: number, seen: Uint8Array): SlotClass {
  const empty: number[] = [];
  for (let bucket = 0; bucket < buckets; bucket++) if (seen[bucket] === EMPTY) empty.push(bucket);
  return { kind: 'repair', empty };
}

/**
 * Tells the odd copy apart where flights of one slot differ: W identical ones are the slot's
 * content, every other one is corrupt. Without W identical ones nobody can tell, so all are corrupt.
 *
 * @param codes - changed in place.
 * @param prints - a fingerprint of each bucket's flight; read only where `codes` says FLIGHT.
 */
export function markOddCopies(quorum: Quorum, codes: Uint8Array, prints: readonly number[]): void {
  const { buckets, copies } = quorum;
  let first = -1;
  let same = true;
  for (let bucket = 0; bucket < buckets; bucket++) {
    if (codes[bucket] !== FLIGHT) continue;
    if (first < 0) first = bucket;
    else if (prints[bucket] !== prints[first]) same = false;
  }
  if (same) return;
  const winner = prints.find(
    (print, bucket) => codes[bucket] === FLIGHT && countOf(buckets, codes, prints, print) >= copies,
  );
  for (let bucket = 0; bucket < buckets; bucket++) {
    if (codes[bucket] === FLIGHT && prints[bucket] !== winner) codes[bucket] = CORRUPT;
  }
}

function countOf(
  buckets: number,
  codes: Uint8Array,
  prints: readonly number[],
  print: number,
): number {
  let count = 0;
  for (let bucket = 0; bucket < buckets; bucket++) {
    if (codes[bucket] === FLIGHT && prints[bucket] === print) count++;
  }
  return count;
}

/** Checked where a quorum enters the fence: at mint and at walk alike. */
export function assertQuorum(quorum: Quorum): void {
  assert(quorum.buckets >= 1 && quorum.buckets <= BUCKETS_MAX, 'K lies in [1, 16]');
  assert(blockingSet(quorum) + quorum.copies === quorum.buckets + 1, 'B + W = K + 1');
}

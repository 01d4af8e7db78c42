/**
 * Probe plan of a fence: which slots to look at so that few waves find where a chain ends. An
 * estimate only: it never decides a slot. Probes count flights alone; poison is an upper bound and
 * no evidence that lower slots exist (F4), and a slot that too few buckets answered says nothing.
 */
import { assert } from '../lib/assert.ts';

/** What is known of the end of the chain. JSON-safe. */
export interface ProbeBounds {
  /** Highest slot seen with a flight; one below the start of the search when there is none. */
  readonly low: number;
  /** Lowest slot above `low` seen without a flight in enough buckets, if any. */
  readonly high: number | null;
}

export interface ProbeTuning {
  /** A gallop looks 1, 2, 4, … 2^exponents slots ahead in one wave. */
  readonly exponents: number;
  /** Slots of one search wave inside known bounds. */
  readonly fanOut: number;
  /** Bounds this close are read slot by slot instead of being searched further. */
  readonly tightSlots: number;
}

/**
 * Figures for 10^6 slots at K = 3: the gallop reaches 2^21 slots in 66 reads, two search waves of
 * 96 reads narrow 2^19 slots to 512 and a third one to 16.
 */
export const PROBE_TUNING: ProbeTuning = { exponents: 21, fanOut: 31, tightSlots: 64 };

/** True when the bounds are close enough to read every slot between them. */
export function isTight(bounds: ProbeBounds, tuning: ProbeTuning): boolean {
  return bounds.high !== null && bounds.high - bounds.low <= tuning.tightSlots;
}

/** Slots ahead of `from`, at distances that double up to 2^exponents. */
export function gallop(from: number, exponents: number): number[] {
  const slots: number[] = [];
  for (let exponent = 0; exponent <= exponents; exponent++) {
    const slot = from + 2 ** exponent;
    if (Number.isSafeInteger(slot)) slots.push(slot);
  }
  return slots;
}

/** Slots that split `(low, high)` evenly, and `high` again: a live incumbent may have reached it. */
export function split(low: number, high: number, fanOut: number): number[] {
  assert(high > low, 'bounds of a search hold at least one slot');
  const width = high - low;
  const parts = Math.min(width, fanOut + 1);
  const slots: number[] = [];
  for (let part = 1; part <= parts; part++) slots.push(low + Math.floor((width * part) / parts));
  return slots;
}

/** The slots of the next probe wave, ascending and without doubles. */
export function probeSlots(bounds: ProbeBounds, tuning: ProbeTuning): number[] {
  return bounds.high === null
    ? gallop(bounds.low, tuning.exponents)
    : split(bounds.low, bounds.high, tuning.fanOut);
}

/** What one wave showed of one slot. */
export interface ProbeAnswer {
  readonly slot: number;
  readonly shows: 'flight' | 'no-flight' | 'nothing';
}

/** Bounds after a wave. A flight at or above the old upper bound lifts it: the incumbent lives. */
export function narrow(bounds: ProbeBounds, answers: readonly ProbeAnswer[]): ProbeBounds {
  let { low } = bounds;
  for (const { slot, shows } of answers) if (shows === 'flight' && slot > low) low = slot;
  let high = bounds.high !== null && bounds.high > low ? bounds.high : null;
  for (const { slot, shows } of answers) {
    if (shows === 'no-flight' && slot > low && (high === null || slot < high)) high = slot;
  }
  return { low, high };
}

import type { Prng } from '../lib/prng.ts';

/** A latency distribution with a tail: most answers lie in `[min, min + spread)`, some far out. */
export interface Latency {
  readonly minMillis: number;
  readonly spreadMillis: number;
  /** Share of answers that take up to `tailMillis` longer. */
  readonly tailChance?: number;
  readonly tailMillis?: number;
}

export function drawLatency(prng: Prng, latency: Latency): number {
  const base = latency.minMillis + latency.spreadMillis * prng.fraction();
  const { tailChance = 0, tailMillis = 0 } = latency;
  if (tailChance === 0 || !prng.chance(tailChance)) return base;
  // Squared: long tails are rarer than short ones.
  return base + tailMillis * prng.fraction() ** 2;
}

/** Picks an outcome by its share of 1; undefined for the rest. */
export function drawOutcome<K extends string>(
  prng: Prng,
  shares: Readonly<Partial<Record<K, number>>>,
): K | undefined {
  let left = prng.fraction();
  for (const [outcome, share] of Object.entries(shares) as [K, number][]) {
    left -= share;
    if (left < 0) return outcome;
  }
  return undefined;
}

/**
 * When a star that gets nothing into its buckets rolls, and when it gives its lease up, so that one
 * with a better way to them can take its streams. Source: DESIGN "Tenure and the open gate (T)".
 */

/** Without progress for so long a star rolls; for twice as long it ends its lease record. */
export const STALL_MILLIS = 60_000;
/** How often it looks. */
export const STALL_LOOK_MILLIS = STALL_MILLIS / 12;

export interface ProgressLook {
  readonly epoch: number;
  /** The first slot not yet acknowledged. */
  readonly released: number;
  /** Something is under way that only buckets can end. */
  readonly isWaiting: boolean;
}

export interface ProgressWatch {
  readonly epoch: number;
  readonly released: number;
  /** Own monotonic time since when nothing has moved although something waits. */
  readonly sinceMonotonic: number;
  readonly lookedMonotonic: number;
  readonly hasRolled: boolean;
}

export type StallVerdict = 'fine' | 'roll' | 'give-up';

/** Takes one more look into account. A new epoch is progress: its roll got a cut out of the buckets. */
export function watchProgress(
  before: ProgressWatch | undefined,
  { epoch, released, isWaiting }: ProgressLook,
  now: number,
): { readonly watch: ProgressWatch; readonly verdict: StallVerdict } {
  const hasMoved = before?.epoch !== epoch || before.released !== released;
  // Time in which nobody looked was a pause of the process, not of the buckets.
  const hasSlept = before !== undefined && now - before.lookedMonotonic > 3 * STALL_LOOK_MILLIS;
  if (before === undefined || hasMoved || !isWaiting || hasSlept) {
    const hasRolled = before !== undefined && !hasMoved && isWaiting && before.hasRolled;
    const watch = { epoch, released, sinceMonotonic: now, lookedMonotonic: now, hasRolled };
    return { watch, verdict: 'fine' };
  }
  const stalledMillis = now - before.sinceMonotonic;
  const watch = { ...before, lookedMonotonic: now };
  if (stalledMillis >= 2 * STALL_MILLIS) return { watch, verdict: 'give-up' };
  if (stalledMillis < STALL_MILLIS || before.hasRolled) return { watch, verdict: 'fine' };
  return { watch: { ...watch, hasRolled: true }, verdict: 'roll' };
}

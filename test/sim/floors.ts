/** How often a run must reach each situation: below it, a green run proves nothing. */
import { SITUATIONS, type Situation } from './counters.ts';

/** For each hundred seeds; about a quarter of what was measured when they were set. */
const PER_HUNDRED: Readonly<Partial<Record<Situation, number>>> = {
  acknowledged: 5_000,
  definiteFailure: 40,
  indeterminate: 200,
  crashWithUnacknowledged: 20,
  restart: 100,
  reopened: 25,
  roll: 8,
  revival: 30,
  republished: 40,
  stoppedByPoison: 10,
  sameAfterLostResponse: 6,
  repair: 6,
  lateArrivalAboveCut: 10,
  cutPublished: 180,
  publishConflict: 25,
  undecided: 8,
  decidedAfterUndecided: 8,
  settled: 180,
  tailSwept: 170,
  takeover: 150,
  cleanRelease: 250,
  absorbed: 800,
  checkpointAdvanced: 250,
  staleRead: 700,
  indeterminateMetaWrite: 200,
  tailConfirmed: 500,
  readBack: 20_000,
};

/** Situations that were reached too rarely for this many seeds, in words. */
export function belowFloor(totals: Readonly<Record<Situation, number>>, seeds: number): string[] {
  return SITUATIONS.flatMap((name) => {
    const floor = Math.floor(((PER_HUNDRED[name] ?? 0) * seeds) / 100);
    return totals[name] < floor ? [`${name}: ${totals[name]} < ${floor}`] : [];
  });
}

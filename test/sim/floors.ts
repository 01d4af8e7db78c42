/** How often a run must reach each situation: below it, a green run proves nothing. */
import { SITUATIONS, type Situation } from './counters.ts';

/**
 * For each hundred seeds; about a quarter of what was measured when they were set. Quarantine has none:
 * it is a state of generations, and no code of the product makes generations yet.
 */
const PER_HUNDRED: Readonly<Record<Situation, number>> = {
  lostRequest: 190,
  lostResponse: 21,
  lateRequest: 23,
  hang: 49,
  storeConflict409: 9,
  storeExists412: 23,
  storeThrottled429: 46,
  storeErrorOther: 130,
  storeError503: 110,
  storeRefused: 2,
  bucketDown: 36,
  linkCut: 34,
  slowBucket: 34,
  bitFlip: 6,
  metaUnavailable: 95,
  metaLostResponse: 33,
  metaLate: 38,
  metaNever: 17,
  metaArrivedLate: 24,
  keyRecreatedLate: 0.4,
  metastoreDown: 36,
  isolation: 37,
  watchLost: 140,
  leaseEnded: 5,
  peerCut: 7,
  crash: 55,
  pause: 72,
  clockStep: 37,
  acknowledged: 1_220,
  definiteFailure: 130,
  indeterminate: 70,
  crashWithUnacknowledged: 9,
  restart: 37,
  reopened: 9,
  roll: 20,
  revival: 21,
  republished: 21,
  stoppedByPoison: 13,
  sameAfterLostResponse: 1,
  repair: 2,
  lateArrivalAboveCut: 19,
  cutPublished: 140,
  publishConflict: 41,
  undecided: 6,
  decidedAfterUndecided: 6,
  settled: 140,
  tailSwept: 140,
  takeover: 77,
  cleanRelease: 120,
  absorbed: 300,
  checkpointAdvanced: 110,
  staleRead: 250,
  indeterminateMetaWrite: 140,
  tailConfirmed: 140,
  readBack: 1_700,
  repairRaced: 0.8,
  publishMetCut: 11,
  barrier: 0.8,
  barrierHit: 0.3,
  supersededSettle: 5,
  settledByOther: 50,
  markConsumed: 57,
  limboEntered: 0.8,
  limboLeft: 0.8,
  forceRelease: 4,
  drain: 5,
  handoff: 14,
  deleted: 35,
  recreated: 2,
  trimmed: 8,
  readBelowTrim: 2,
  tokenInstalled: 9,
  tokenAccepted: 190,
  tokenRefused: 8,
  numberAccepted: 66,
  numberRefused: 43,
  rejectionUnconfirmed: 4,
  reconfigured: 12,
  classChanged: 7,
  forwarded: 71,
  callerTimedOut: 34,
};

/** A run that is smaller may miss what is rare. */
export const FLOORS_FROM = 300;

export interface Floor {
  readonly reached: number;
  readonly floor: number;
}

export type Totals = Readonly<Record<Situation, number>>;

export const noTotals = (): Record<Situation, number> =>
  Object.fromEntries(SITUATIONS.map((name) => [name, 0])) as Record<Situation, number>;

/** What was reached, beside what so many seeds must reach. */
export function floorsOf(totals: Totals, seeds: number): Readonly<Record<Situation, Floor>> {
  // Whatever has a floor is reached at all by a run that is held to it.
  const least = seeds >= FLOORS_FROM ? 1 : 0;
  const floorOf = (name: Situation): number =>
    Math.max(least, Math.floor((PER_HUNDRED[name] * seeds) / 100));
  return Object.fromEntries(
    SITUATIONS.map((name) => [name, { reached: totals[name], floor: floorOf(name) }]),
  ) as Record<Situation, Floor>;
}

/** Situations that were reached too rarely for this many seeds, in words. */
export function belowFloor(totals: Totals, seeds: number): string[] {
  return Object.entries(floorsOf(totals, seeds)).flatMap(([name, { reached, floor }]) =>
    reached < floor ? [`${name}: ${reached} < ${floor}`] : [],
  );
}

/**
 * What a fence does next: one wave, chosen from the state alone. Writes of a wave go out before its
 * reads; a slot is poisoned in one bucket at a time, in the set's fixed order, and looked at again
 * after every write; completing a slot always comes before killing it.
 */
import { assert } from '../lib/assert.ts';
import {
  allBuckets,
  blockingBuckets,
  classOf,
  countCells,
  hasBit,
  openCells,
  readOf,
  SEEN_POISON,
  sourcesOf,
  type SlotRead,
  type SlotRow,
} from './fence-rows.ts';
import {
  rowAt,
  type FenceDraft,
  type FenceOptions,
  type FenceWave,
  type SlotRepair,
} from './fence-state.ts';
import { gallop, isTight, split } from './probe.ts';
import { EMPTY, POISON } from './slot.ts';

/** Waves without any change after which the walk pauses before it looks again. */
const STALLS_MAX = 2;
/** Probe waves without any news after which the walk goes on slot by slot. */
const BLIND_PROBES_MAX = 2;
/** Waves that an incumbent must outrun before poison is set ahead of the walk. */
const OUTRUN_MAX = 2;
/** A gallop behind an incumbent that moves: 2^13 slots a wave are beyond any. */
const CHASE_EXPONENTS = 13;

const QUIET = { reads: [], poisons: [], repairs: [], identities: 0, blocked: 0 } as const;

/** The first wave looks for the tail from the checkpoint and at the hint, and at every identity. */
export function planFirstWave(
  draft: FenceDraft,
  { tuning }: FenceOptions,
  tailHint: number | undefined,
): FenceWave {
  const { quorum, slot, window } = draft;
  const hint = tailHint !== undefined && tailHint > slot ? tailHint : undefined;
  const reads = new Reads(quorum.buckets);
  reads.rows(draft, slot, slot);
  if (hint !== undefined) {
    reads.rows(draft, Math.max(slot, hint - window), hint + Math.ceil(window / 2));
    reads.probes(gallop(hint, Math.min(tuning.exponents, CHASE_EXPONENTS)));
  }
  reads.probes(gallop(slot, tuning.exponents));
  return { ...QUIET, kind: 'probe', slot, reads: reads.list(), identities: allBuckets(quorum) };
}

export function planWave(draft: FenceDraft, options: FenceOptions): FenceWave {
  const { quorum, slot, lost } = draft;
  const { rules, tuning } = options;
  const row = rowAt(draft.rows, slot);
  if (row !== undefined) {
    if (classOf(row, quorum, lost, rules.classify).kind === 'dead') {
      if (draft.leaning === 0) return { ...QUIET, kind: 'cut', slot };
      return { ...QUIET, kind: 'observe', slot, identities: draft.leaning };
    }
    if (mayBeDead(draft, row, options)) {
      return draft.stalls >= STALLS_MAX ? pause(draft, row, options) : confirmDead(draft, row);
    }
  }
  if (!isTight(draft, tuning) && draft.blindProbes < BLIND_PROBES_MAX) {
    return planProbe(draft, row, options);
  }
  if (row === undefined) return planWindow(draft, options);
  if (draft.stalls >= STALLS_MAX) return pause(draft, row, options);
  if (row.written && openCells(row) !== 0) return lookAgain(draft, row);
  const found = classOf(row, quorum, lost, rules.classify);
  switch (found.kind) {
    case 'repair':
      return planRepairs(draft, options);
    case 'poison':
      if (draft.validated !== slot) return { ...QUIET, kind: 'revalidate', slot };
      return {
        ...QUIET,
        kind: 'poison',
        slot,
        poisons: [{ slot, bucket: found.bucket }],
        identities: unconfirmed(draft) | maskOf(row, EMPTY),
      };
    case 'undecided':
      return pause(draft, row, options);
    case 'committed':
    case 'dead':
      break;
  }
  assert(false, 'a walk stands at a slot that is neither committed nor dead');
}

/** Poison enough for a dead slot, but some of it is not confirmed. */
export function mayBeDead(draft: FenceDraft, row: SlotRow, { rules }: FenceOptions): boolean {
  let poisons = 0;
  row.cells.forEach((cell, bucket) => {
    if (cell === POISON || (cell === SEEN_POISON && !hasBit(draft.lost, bucket))) poisons++;
  });
  return poisons >= rules.blockingSet(draft.quorum);
}

function planProbe(
  draft: FenceDraft,
  row: SlotRow | undefined,
  { tuning }: FenceOptions,
): FenceWave {
  const { quorum, slot, low, high, outrun, barrierAt, window } = draft;
  const reads = new Reads(quorum.buckets);
  if (row !== undefined) reads.rows(draft, slot, slot);
  if (barrierAt >= 0) reads.rows(draft, Math.max(slot, barrierAt - window + 1), barrierAt);
  if (high !== null) reads.probes(split(low, high, tuning.fanOut));
  else {
    const exponents = outrun > 0 ? Math.min(tuning.exponents, CHASE_EXPONENTS) : tuning.exponents;
    reads.probes(gallop(low, exponents));
  }
  const wave = { ...QUIET, slot, reads: reads.list(), identities: unconfirmed(draft) };
  if (!isBarrierDue(draft)) return { ...wave, kind: 'probe' };
  const ahead = low + nextBarrierDistance(draft);
  const poisons = [...bucketsOf(allBuckets(quorum) & ~draft.lost)].map((bucket) => ({
    slot: ahead,
    bucket,
  }));
  return { ...wave, kind: 'barrier', poisons };
}

/**
 * A barrier is for an incumbent that outran two waves. One that stands far ahead of a slow incumbent
 * is followed by another at less than half the way, so that there are few in all.
 */
function isBarrierDue(draft: FenceDraft): boolean {
  const { outrun, own, barrierAt, low } = draft;
  if (own || outrun < OUTRUN_MAX) return false;
  return barrierAt < 0 || 2 * nextBarrierDistance(draft) < barrierAt - low;
}

/** Twice as far as the incumbent moved in the last wave that it outran; doubles after a failure. */
export function nextBarrierDistance({ speed, barrierDistance }: FenceDraft): number {
  return Math.max(2, 2 * speed, 2 * barrierDistance);
}

/** Every slot from the walk's own up to the first one without a flight, headers only. */
function planWindow(draft: FenceDraft, { tuning }: FenceOptions): FenceWave {
  const { quorum, slot, high, barrierAt, window } = draft;
  const last = slot + tuning.rowsMax - 1;
  const reads = new Reads(quorum.buckets);
  reads.rows(draft, slot, high === null ? last : Math.min(last, high));
  if (barrierAt >= 0) reads.rows(draft, Math.max(slot, barrierAt - window + 1), barrierAt);
  return {
    ...QUIET,
    kind: 'observe',
    slot,
    reads: reads.list(),
    identities: unconfirmed(draft),
  };
}

/** The walk's slot once more, together with every slot behind it that was written. */
function lookAgain(draft: FenceDraft, row: SlotRow): FenceWave {
  const reads = [readOf(row)];
  for (const other of draft.rows) {
    if (other.slot > row.slot && other.written && openCells(other) !== 0) reads.push(readOf(other));
  }
  return { ...QUIET, kind: 'observe', slot: row.slot, reads, identities: unconfirmed(draft) };
}

/**
 * Identities for poison that would end the walk, and a look at the slots that a writer would have
 * filled had this one been acknowledged: their watermarks would contradict the cut.
 */
function confirmDead(draft: FenceDraft, row: SlotRow): FenceWave {
  const { quorum, window } = draft;
  const again = lookAgain(draft, row);
  const reads = new Reads(quorum.buckets);
  reads.add(again.reads);
  reads.probes(gallop(row.slot, Math.floor(Math.log2(window))));
  reads.probes([row.slot + window]);
  return { ...again, reads: reads.list() };
}

function pause(draft: FenceDraft, row: SlotRow, options: FenceOptions): FenceWave {
  let blocked = 0;
  const needsPoison = mayBeDead(draft, row, options);
  for (const bucket of blockingBuckets(row, draft.lost, needsPoison)) blocked |= 1 << bucket;
  return {
    ...QUIET,
    kind: 'undecided',
    slot: row.slot,
    reads: [readOf(row)],
    identities: unconfirmed(draft) | draft.lost,
    blocked,
  };
}

/**
 * Repairs the walk's slot and all that follow it up to the first one without a flight. Copying can
 * only complete what the writer started, so nothing is lost when a slot turns out to be above the
 * cut; and slots with one copy each, as a crash leaves them, cost three waves together.
 */
function planRepairs(draft: FenceDraft, { rules, tuning }: FenceOptions): FenceWave {
  const { quorum, slot, lost } = draft;
  const repairs: SlotRepair[] = [];
  let next = slot;
  for (const row of draft.rows) {
    if (row.slot !== next++ || repairs.length === tuning.repairsMax) break;
    const found = classOf(row, quorum, lost, rules.classify);
    if (found.kind === 'committed') continue;
    if (found.kind !== 'repair' || (row.written && openCells(row) !== 0)) break;
    const sources = sourcesOf(row, quorum, lost);
    repairs.push({
      slot: row.slot,
      sources,
      targets: found.empty,
      sizeBytes: row.sizeBytes,
      print: row.prints[sources[0]!]!,
    });
  }
  return { ...QUIET, kind: 'repair', slot, repairs, identities: unconfirmed(draft) };
}

/** Buckets whose identity must be read before what they showed counts for good. */
function unconfirmed(draft: FenceDraft): number {
  let mask = draft.leaning;
  for (const row of draft.rows) {
    if (countCells(row, SEEN_POISON) > 0) mask |= maskOf(row, SEEN_POISON);
  }
  return mask;
}

function maskOf(row: SlotRow, code: number): number {
  let mask = 0;
  row.cells.forEach((cell, bucket) => {
    if (cell === code) mask |= 1 << bucket;
  });
  return mask;
}

function* bucketsOf(mask: number): Iterable<number> {
  for (let bucket = 0; 2 ** bucket <= mask; bucket++) if (hasBit(mask, bucket)) yield bucket;
}

/** Slots of one wave, each once: what is added first counts, so evidence comes before probes. */
class Reads {
  readonly #all: number;
  readonly #reads: SlotRead[] = [];
  readonly #slots = new Set<number>();

  constructor(buckets: number) {
    this.#all = 2 ** buckets - 1;
  }

  /** Slots `first` to `last` as far as cells of them are still open. */
  rows({ rows }: FenceDraft, first: number, last: number): void {
    let at = 0;
    for (let slot = first; slot <= last; slot++) {
      while (at < rows.length && rows[at]!.slot < slot) at++;
      const row = rows[at]?.slot === slot ? rows[at] : undefined;
      if (row === undefined) this.#add(slot, true);
      else if (openCells(row) !== 0) this.add([readOf(row)]);
    }
  }

  add(reads: readonly SlotRead[]): void {
    for (const read of reads) {
      if (this.#slots.has(read.slot)) continue;
      this.#slots.add(read.slot);
      this.#reads.push(read);
    }
  }

  probes(slots: readonly number[]): void {
    for (const slot of slots) this.#add(slot, false);
  }

  list(): SlotRead[] {
    return this.#reads.sort((a, b) => a.slot - b.slot);
  }

  #add(slot: number, evidence: boolean): void {
    if (this.#slots.has(slot)) return;
    this.#slots.add(slot);
    this.#reads.push({ slot, ask: this.#all, flights: 0, poisons: 0, evidence });
  }
}

/**
 * The fence walk as a pure step function: state and the answers of one wave in, state with the next
 * wave out. Machine, model and benchmark drive the same function.
 *
 * F1 no acknowledged slot is at or above the cut: only poison in B confirmed buckets ends the walk.
 * F2 nothing at or above it is ever acknowledged. F3 every fencer derives the same cut: both terminal
 * classes are monotone. F4 no holes below: the walk advances past committed slots only, from a start
 * that a flight of the incumbent or the checkpoint proves.
 *
 * Absence is never evidence. It chooses what is tried (repair before poison, one bucket at a time);
 * what counts is poison that a confirmed bucket holds, so a poison may go out while the identity
 * read that will let it count is still to come.
 */
import { assert } from '../lib/assert.ts';
import { mayBeDead, nextBarrierDistance, planFirstWave, planWave } from './fence-plan.ts';
import {
  classOf,
  countCells,
  decisiveFlights,
  emptyRow,
  hasBit,
  mergeSeen,
  SEEN_POISON,
  withCell,
  type SlotRead,
  type SlotRow,
  type SlotSeen,
} from './fence-rows.ts';
import {
  FENCE_OPTIONS,
  rowAt,
  type FenceAnswers,
  type FenceDraft,
  type FenceOptions,
  type FenceRules,
  type FenceStart,
  type FenceState,
  type FenceWave,
  type PutAnswer,
} from './fence-state.ts';
import { narrow, type ProbeAnswer } from './probe.ts';
import { blockingSet, type Quorum } from './quorum.ts';
import { assertQuorum, CORRUPT, EMPTY, FLIGHT, POISON, UNKNOWN } from './slot.ts';

export * from './fence-state.ts';

const NO_WAVE: FenceWave = {
  kind: 'probe',
  slot: 0,
  reads: [],
  poisons: [],
  repairs: [],
  identities: 0,
  blocked: 0,
};

/** A fence at its start; `wave` is the first thing to do. */
export function beginFence(start: FenceStart, options: FenceOptions = FENCE_OPTIONS): FenceState {
  const { quorum, window, checkpoint, own, tailHint } = start;
  assertQuorum(quorum);
  const draft: FenceDraft = {
    quorum,
    window,
    own,
    checkpoint,
    slot: checkpoint,
    released: checkpoint,
    low: checkpoint - 1,
    high: null,
    blindProbes: 0,
    rows: [],
    lost: 0,
    leaning: 0,
    validated: -1,
    outrun: 0,
    speed: 0,
    barrierDistance: 0,
    barrierAt: -1,
    stalls: 0,
    wave: NO_WAVE,
    decided: [],
  };
  draft.wave = planFirstWave(draft, options, tailHint);
  return draft;
}

/**
 * The next state after the answers of `state.wave`. Answers may be missing: unknown never decides.
 *
 * @param answers - identity verdicts come from reads begun with the wave, so they confirm what
 *   earlier waves saw or created, and nothing that this wave saw.
 */
export function stepFence(
  state: FenceState,
  answers: FenceAnswers,
  options: FenceOptions = FENCE_OPTIONS,
): FenceState {
  const draft: FenceDraft = { ...state, rows: state.rows.slice(), decided: [] };
  const before = rowAt(state.rows, state.slot);
  const { low, high, lost } = state;
  if (!applyIdentities(draft, answers, options.rules)) return beginAgain(draft, options);
  const raced = applyAnswers(draft, answers, options.rules);
  const outran = high === null ? state.outrun > 0 && draft.low > low : draft.low >= high;
  if (raced || outran) noteOutrun(draft, low, high);
  if (state.wave.kind === 'probe') {
    const told = draft.low !== low || draft.high !== high;
    draft.blindProbes = told ? 0 : state.blindProbes + 1;
  }
  advance(draft, options);
  const after = rowAt(draft.rows, draft.slot);
  const same = draft.slot === state.slot && draft.lost === lost && sameRow(before, after);
  const walks = state.wave.kind !== 'probe' && state.wave.kind !== 'barrier';
  // A pause that brought nothing is followed by the next pause.
  const more = state.wave.kind === 'undecided' ? 0 : 1;
  draft.stalls = same && walks ? state.stalls + more : 0;
  draft.wave = planWave(draft, options);
  noteTouched(draft, state.wave);
  return draft;
}

/** The incumbent moved on: how far, and what was seen ahead of it is out of date. */
function noteOutrun(draft: FenceDraft, low: number, high: number | null): void {
  const passed = high !== null && draft.low >= high ? high - 1 : low;
  draft.outrun++;
  draft.speed = Math.max(1, draft.low - passed);
  draft.high = draft.barrierAt > draft.low ? draft.barrierAt : null;
  draft.rows = draft.rows.filter(({ slot, cells }) => slot <= draft.slot || cells.some(isLasting));
}

/**
 * The next state after the epoch record was read again: in its own wave, or while undecided.
 *
 * @param checkpoint - of the epoch record, by a read begun after the wave was planned: slots below
 *   it may have been deleted, those at or above it never were.
 */
export function revalidateFence(
  state: FenceState,
  checkpoint: number,
  options: FenceOptions = FENCE_OPTIONS,
): FenceState {
  const { kind } = state.wave;
  assert(kind === 'revalidate' || kind === 'undecided', 'the record is read between two waves');
  const draft: FenceDraft = { ...state, rows: state.rows.slice(), decided: [] };
  draft.checkpoint = Math.max(state.checkpoint, checkpoint);
  if (draft.checkpoint <= state.slot) draft.validated = state.slot;
  advance(draft, options);
  draft.wave = planWave(draft, options);
  return draft;
}

/**
 * Identity reads of this wave speak for what earlier waves left in the rows, before it is merged.
 *
 * @returns false when a slot was passed because of a flight in a bucket that is not the set's any more.
 */
function applyIdentities(draft: FenceDraft, answers: FenceAnswers, rules: FenceRules): boolean {
  let stands = true;
  for (const { bucket, verdict } of answers.identities) {
    const bit = 1 << bucket;
    if (verdict === 'lost') {
      if (hasBit(draft.leaning, bucket)) stands = false;
      draft.lost |= bit;
    } else if (verdict === 'confirmed') {
      draft.lost &= ~bit;
      confirmPoison(draft, bucket);
    }
    // A bucket that went silent since is given the benefit of the doubt: its flight was seen.
    draft.leaning &= ~bit;
  }
  if (rules.identity !== 'after') trustIdentities(draft, rules);
  return stands;
}

/** The walk once more from its checkpoint, with what is known of the buckets. */
function beginAgain(draft: FenceDraft, options: FenceOptions): FenceState {
  const again = beginFence(draft, options);
  return { ...again, lost: draft.lost };
}

/** Variations of the rule that the model shows to be wrong. */
function trustIdentities(draft: FenceDraft, rules: FenceRules): void {
  if (rules.identity === 'poison') return;
  for (let bucket = 0; bucket < draft.quorum.buckets; bucket++) {
    if (rules.identity === 'never' || !hasBit(draft.lost, bucket)) confirmPoison(draft, bucket);
  }
}

function confirmPoison(draft: FenceDraft, bucket: number): void {
  for (let index = 0; index < draft.rows.length; index++) {
    const row = draft.rows[index]!;
    if (row.cells[bucket] === SEEN_POISON) draft.rows[index] = withCell(row, bucket, POISON);
  }
}

/** Merges reads and writes; true when a slot that showed no flight has one that is not ours. */
function applyAnswers(draft: FenceDraft, answers: FenceAnswers, rules: FenceRules): boolean {
  const probes: ProbeAnswer[] = [];
  let raced = false;
  for (const put of answers.puts) raced = applyPut(draft, put, probes) || raced;
  raced = applyReads(draft, answers.reads, probes, rules) || raced;
  if (draft.wave.kind === 'barrier') probes.push(...placeBarrier(draft));
  const { low, high } = narrow(draft, probes);
  draft.low = low;
  draft.high = high;
  return raced;
}

/** One pass over what was asked, what was answered and what is known: all three are in slot order. */
function applyReads(
  draft: FenceDraft,
  reads: readonly SlotSeen[],
  probes: ProbeAnswer[],
  rules: FenceRules,
): boolean {
  const { quorum, wave, rows: known } = draft;
  const bySlot = reads.length > 1 && !isAscending(reads) ? [...reads].sort(bySlotNumber) : reads;
  const afterPause = wave.kind === 'undecided';
  const rows: SlotRow[] = [];
  let next = 0;
  let asked = 0;
  let raced = false;
  for (const seen of bySlot) {
    while (asked < wave.reads.length && wave.reads[asked]!.slot < seen.slot) asked++;
    const read = wave.reads[asked];
    if (read?.slot !== seen.slot) continue;
    if (seen.released > draft.released) draft.released = seen.released;
    probes.push({ slot: seen.slot, shows: showsOf(quorum, read, seen, rules) });
    // A probe guides and is forgotten, unless it met poison enough to end an epoch: should the slot
    // turn out to be acknowledged, the walk stops there and says so.
    const tells = read.evidence || isPoisoned(seen, quorum, rules);
    if (!tells || seen.slot < draft.slot) continue;
    while (next < known.length && known[next]!.slot < seen.slot) rows.push(known[next++]!);
    const old = known[next]?.slot === seen.slot ? known[next++] : undefined;
    const row = mergeSeen(old, seen, read.ask, afterPause);
    if (old !== undefined && hadNoFlight(old) && row.cells.includes(FLIGHT)) raced = true;
    rows.push(row);
  }
  while (next < known.length) rows.push(known[next++]!);
  draft.rows = rows;
  return raced;
}

function isPoisoned({ cells }: SlotSeen, quorum: Quorum, rules: FenceRules): boolean {
  let poisons = 0;
  for (const cell of cells) if (cell === POISON) poisons++;
  return poisons >= rules.blockingSet(quorum);
}

const bySlotNumber = (a: SlotSeen, b: SlotSeen): number => a.slot - b.slot;

function isAscending(reads: readonly SlotSeen[]): boolean {
  for (let at = 1; at < reads.length; at++) {
    if (reads[at - 1]!.slot >= reads[at]!.slot) return false;
  }
  return true;
}

/** A barrier stands when B buckets took it; then nothing at or above it is ever acknowledged. */
function placeBarrier(draft: FenceDraft): ProbeAnswer[] {
  const slot = draft.wave.poisons[0]?.slot;
  const row = slot === undefined ? undefined : rowAt(draft.rows, slot);
  const poisons = row === undefined ? 0 : countCells(row, SEEN_POISON) + countCells(row, POISON);
  if (row === undefined || poisons < blockingSet(draft.quorum)) {
    draft.barrierDistance = nextBarrierDistance(draft);
    return [];
  }
  draft.barrierDistance = 0;
  draft.barrierAt = row.slot;
  return [{ slot: row.slot, shows: 'no-flight' }];
}

function applyPut(draft: FenceDraft, put: PutAnswer, probes: ProbeAnswer[]): boolean {
  const { slot, bucket, outcome, cell, print } = put;
  if (slot < draft.slot) return false;
  const isRepair = draft.wave.kind === 'repair';
  let row = rowAt(draft.rows, slot) ?? emptyRow(slot, draft.quorum.buckets);
  const hadNone = hadNoFlight(row);
  if (outcome === 'failed') row = { ...row, avoid: row.avoid | (1 << bucket) };
  // A copy that we wrote counts once it is seen: completing is not a reason to stop looking.
  else if (outcome === 'created') row = withCell(row, bucket, isRepair ? UNKNOWN : SEEN_POISON);
  else row = withCell(row, bucket, cell === POISON ? SEEN_POISON : cell, print);
  const sizeBytes = Math.max(row.sizeBytes, put.sizeBytes);
  putRow(draft.rows, { ...row, sizeBytes, written: true, tried: isRepair ? 'repair' : 'poison' });
  if (outcome !== 'held' || cell !== FLIGHT) return false;
  if (put.released > draft.released) draft.released = put.released;
  probes.push({ slot, shows: 'flight' });
  return hadNone && !isRepair;
}

function showsOf(
  quorum: Quorum,
  read: SlotRead,
  seen: SlotSeen,
  rules: FenceRules,
): ProbeAnswer['shows'] {
  if (read.flights > 0) return 'flight';
  let without = read.poisons;
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    const cell = seen.cells[bucket]!;
    if (rules.probeCounts(cell)) return 'flight';
    if (cell === EMPTY || cell === POISON) without++;
  }
  // Of a committed slot every B buckets show a copy.
  return without >= blockingSet(quorum) ? 'no-flight' : 'nothing';
}

/** Moves to the proven start and on past committed slots. */
function advance(draft: FenceDraft, options: FenceOptions): void {
  const { rules } = options;
  const { quorum, window } = draft;
  const start = Math.max(draft.slot, draft.released, rules.startOf(draft.low, window));
  draft.slot = Math.max(draft.checkpoint, firstDead(draft, start, options));
  let index = draft.rows.findIndex((row) => row.slot >= draft.slot);
  if (index < 0) index = draft.rows.length;
  for (; index < draft.rows.length; index++) {
    const row = draft.rows[index]!;
    if (row.slot !== draft.slot) break;
    if (classOf(row, quorum, draft.lost, rules.classify).kind !== 'committed') break;
    if (rules.identity === 'after') draft.leaning |= decisiveFlights(row, quorum, draft.lost);
    const verdict = row.tried === 'repair' ? 'repaired' : 'committed';
    draft.decided.push({ slot: row.slot, verdict });
    draft.slot++;
  }
  draft.rows.splice(0, index);
  if (draft.low < draft.slot - 1) draft.low = draft.slot - 1;
  if (draft.high !== null && draft.high <= draft.low) draft.high = null;
  if (draft.barrierAt >= 0 && draft.barrierAt <= draft.low) draft.barrierAt = -1;
}

/**
 * Poison that kills a slot below the proven start contradicts the proof: the walk stops there, and
 * publication reports it unless the slot was deleted meanwhile. Never skipped, never published.
 */
function firstDead(draft: FenceDraft, start: number, options: FenceOptions): number {
  for (const row of draft.rows) {
    if (row.slot >= start) break;
    if (row.slot >= draft.slot && mayBeDead(draft, row, options)) return row.slot;
  }
  return start;
}

/** What the wave did to the slot at which the walk stands, for reports. */
function noteTouched(draft: FenceDraft, { kind, poisons }: FenceWave): void {
  const next = draft.wave.kind;
  if (next === 'cut') draft.decided.push({ slot: draft.slot, verdict: 'dead' });
  else if (next === 'undecided') draft.decided.push({ slot: draft.slot, verdict: 'undecided' });
  else if (kind === 'poison' && poisons[0]?.slot === draft.slot) {
    draft.decided.push({ slot: draft.slot, verdict: 'poisoned' });
  }
}

const isLasting = (cell: number): boolean =>
  cell === FLIGHT || cell === POISON || cell === SEEN_POISON;

function putRow(rows: SlotRow[], row: SlotRow): void {
  let index = rows.length;
  while (index > 0 && rows[index - 1]!.slot >= row.slot) index--;
  const replaces = rows[index]?.slot === row.slot ? 1 : 0;
  rows.splice(index, replaces, row);
}

function hadNoFlight(row: SlotRow): boolean {
  let seen = 0;
  for (const cell of row.cells) {
    if (cell === FLIGHT || cell === CORRUPT) return false;
    if (cell !== UNKNOWN) seen++;
  }
  return seen > 0;
}

function sameRow(a: SlotRow | undefined, b: SlotRow | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.avoid === b.avoid && a.cells.every((cell, bucket) => cell === b.cells[bucket]);
}

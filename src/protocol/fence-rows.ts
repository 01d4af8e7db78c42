/**
 * What a fence knows of the slots it looked at: one row a slot, one cell a bucket. Rows are plain
 * values, so that a walk can be stored, shown and explored.
 */
import {
  CORRUPT,
  EMPTY,
  FLIGHT,
  markOddCopies,
  POISON,
  UNKNOWN,
  type CellCode,
  type classify,
  type SlotClass,
} from './slot.ts';
import { BUCKETS_MAX, type Quorum } from './quorum.ts';

/**
 * Poison whose bucket was not confirmed since: it does not count yet. Becomes POISON when the
 * bucket's identity is confirmed by a read begun after the poison was seen or created.
 */
export const SEEN_POISON = 5;

export interface SlotRow {
  readonly slot: number;
  /** One code a bucket: a `CellCode` or `SEEN_POISON`. */
  readonly cells: readonly number[];
  /** Fingerprints of flights, 0 elsewhere. */
  readonly prints: readonly number[];
  /** Size of the flight's object, 0 before one was seen. */
  readonly sizeBytes: number;
  /** Bit mask of buckets that failed a write; cleared when the slot is looked at after a pause. */
  readonly avoid: number;
  /** A write went out since the slot was last looked at. */
  readonly written: boolean;
  readonly tried: 'nothing' | 'poison' | 'repair';
}

/** What one wave showed of one slot. Cells that were not asked or not answered are UNKNOWN. */
export interface SlotSeen {
  readonly slot: number;
  readonly cells: readonly CellCode[];
  readonly prints: readonly number[];
  /** Highest released watermark among the flights seen, -1 without any. */
  readonly released: number;
  readonly sizeBytes: number;
}

/** A slot to read: from the buckets of the mask; evidence may decide, the rest only guides. */
export interface SlotRead {
  readonly slot: number;
  readonly ask: number;
  /** Terminal cells that are known already, so that a reader can tell when the class is forced. */
  readonly flights: number;
  readonly poisons: number;
  readonly evidence: boolean;
}

export const allBuckets = (quorum: Quorum): number => 2 ** quorum.buckets - 1;
export const hasBit = (mask: number, bucket: number): boolean => (mask & (1 << bucket)) !== 0;

export function emptyRow(slot: number, buckets: number): SlotRow {
  return {
    slot,
    cells: new Array<number>(buckets).fill(UNKNOWN),
    prints: new Array<number>(buckets).fill(0),
    sizeBytes: 0,
    avoid: 0,
    written: false,
    tried: 'nothing',
  };
}

export function countCells(row: SlotRow, code: number): number {
  let count = 0;
  for (const cell of row.cells) if (cell === code) count++;
  return count;
}

/** Buckets worth asking again: flights and poison never change, everything else may. */
export function openCells(row: SlotRow): number {
  let mask = 0;
  for (let bucket = 0; bucket < row.cells.length; bucket++) {
    if (!isTerminal(row.cells[bucket]!)) mask |= 1 << bucket;
  }
  return mask;
}

const isTerminal = (cell: number): boolean =>
  cell === FLIGHT || cell === POISON || cell === SEEN_POISON;

export function readOf(row: SlotRow, ask = openCells(row)): SlotRead {
  return {
    slot: row.slot,
    ask,
    flights: countCells(row, FLIGHT),
    poisons: countCells(row, POISON) + countCells(row, SEEN_POISON),
    evidence: true,
  };
}

/**
 * A wave's answer laid over a row. What was asked and not answered is unknown again. A copy whose
 * body did not verify stays corrupt while its head reads the same; after a pause it gets a new chance.
 */
export function mergeSeen(
  old: SlotRow | undefined,
  seen: SlotSeen,
  ask: number,
  afterPause: boolean,
): SlotRow {
  if (old === undefined) return firstSeen(seen);
  const cells = old.cells.slice();
  const prints = old.prints.slice();
  for (let bucket = 0; bucket < cells.length; bucket++) {
    if (!hasBit(ask, bucket) || isTerminal(cells[bucket]!)) continue;
    const cell = seen.cells[bucket]!;
    const isDamaged = cells[bucket] === CORRUPT && prints[bucket] !== 0;
    if (isDamaged && !afterPause && prints[bucket] === seen.prints[bucket]) continue;
    cells[bucket] = cell === POISON ? SEEN_POISON : cell;
    prints[bucket] = cell === FLIGHT ? seen.prints[bucket]! : 0;
  }
  return {
    slot: old.slot,
    cells,
    prints,
    sizeBytes: Math.max(old.sizeBytes, seen.sizeBytes),
    avoid: afterPause ? 0 : old.avoid,
    written: false,
    tried: old.tried,
  };
}

/** The usual case by far: one look at a slot, and a flight everywhere. */
function firstSeen({ slot, cells, prints, sizeBytes }: SlotSeen): SlotRow {
  const hasPoison = cells.includes(POISON);
  return {
    slot,
    cells: hasPoison ? cells.map((cell) => (cell === POISON ? SEEN_POISON : cell)) : cells,
    prints,
    sizeBytes,
    avoid: 0,
    written: false,
    tried: 'nothing',
  };
}

export function withCell(row: SlotRow, bucket: number, cell: number, print = 0): SlotRow {
  const cells = row.cells.slice();
  const prints = row.prints.slice();
  cells[bucket] = cell;
  prints[bucket] = print;
  return { ...row, cells, prints };
}

const view = new Uint8Array(BUCKETS_MAX);

/**
 * The row as `classify` takes it: unknown are poison that does not count, whatever a bucket without
 * its identity shows, and buckets that just failed a write; odd copies are corrupt. The array is
 * reused by the next call.
 */
export function viewOf(row: SlotRow, quorum: Quorum, lost: number): Uint8Array {
  const { cells, avoid } = row;
  let flights = 0;
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    let cell = cells[bucket]!;
    if (cell === SEEN_POISON || (cell === EMPTY && hasBit(avoid, bucket))) cell = UNKNOWN;
    // Poison that counts was confirmed before the loss, and stays evidence.
    else if (hasBit(lost, bucket) && cell !== POISON) cell = UNKNOWN;
    if (cell === FLIGHT) flights++;
    view[bucket] = cell;
  }
  if (flights > 1) markOddCopies(quorum, view, row.prints);
  return view;
}

/**
 * The class of the row's slot. A flight that only a bucket without its identity shows is no copy that
 * counts, but it is the slot's content: it is completed, never killed.
 */
export function classOf(
  row: SlotRow,
  quorum: Quorum,
  lost: number,
  classifier: typeof classify,
): SlotClass {
  const found = classifier(quorum, viewOf(row, quorum, lost));
  if (found.kind !== 'poison' || lost === 0) return found;
  if (!row.cells.some((cell, bucket) => cell === FLIGHT && hasBit(lost, bucket))) return found;
  const empty: number[] = [];
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    if (view[bucket] === EMPTY) empty.push(bucket);
  }
  return { kind: 'repair', empty };
}

/** Buckets whose flight may be copied, those that count first. */
export function sourcesOf(row: SlotRow, quorum: Quorum, lost: number): number[] {
  const seen = viewOf(row, quorum, lost);
  const counted: number[] = [];
  const others: number[] = [];
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    if (seen[bucket] === FLIGHT) counted.push(bucket);
    else if (row.cells[bucket] === FLIGHT && hasBit(lost, bucket)) others.push(bucket);
  }
  return [...counted, ...others];
}

/** Buckets without whose flight the slot would not be committed: a bit mask. */
export function decisiveFlights(row: SlotRow, quorum: Quorum, lost: number): number {
  const seen = viewOf(row, quorum, lost);
  let mask = 0;
  let flights = 0;
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    if (seen[bucket] !== FLIGHT) continue;
    flights++;
    mask |= 1 << bucket;
  }
  return flights === quorum.copies ? mask : 0;
}

/**
 * Buckets whose answer is missing, damaged, or does not count.
 *
 * @param needsPoison - poison that is not confirmed would decide.
 */
export function blockingBuckets(row: SlotRow, lost: number, needsPoison: boolean): number[] {
  const blocked: number[] = [];
  row.cells.forEach((cell, bucket) => {
    const bars =
      cell === UNKNOWN ||
      cell === CORRUPT ||
      (cell === SEEN_POISON && needsPoison) ||
      (cell === EMPTY && hasBit(row.avoid, bucket)) ||
      (cell !== POISON && hasBit(lost, bucket));
    if (bars) blocked.push(bucket);
  });
  return blocked;
}

/**
 * The chain of ref rows of one stream: each row starts where the one before ends, covers entries of
 * one epoch, and carries the stream's state as of its end. Pure; the rule by which builders read
 * and create rows is in actors/ref-rows.ts. Source: DESIGN "Ref rows form one chain per stream".
 */
import { assert } from '../lib/assert.ts';
import { EngineError } from '../lib/errors.ts';
import type { StateDelta } from '../format/flight.ts';
import { endOf, type SourceEntry } from './coverage.ts';
import { INITIAL_STREAM_STATE } from './records.ts';
import type { RefRow, StreamState } from './records.ts';
import { spanBytes, type Span } from './spans.ts';

/** Where the entries come from and who builds the rows. */
export interface RowSource {
  readonly star: string;
  readonly epoch: number;
  readonly set: string;
  readonly builder: RefRow['builder'];
}

/** A row that is not stored yet: its attempt id is given where it is written. */
export type NewRefRow = Omit<RefRow, 'attempt'>;

export type RowStep =
  /** Rows reach the end of every entry. */
  | { readonly kind: 'covered'; readonly end: number }
  /** Rows end below the next entry and nothing given bridges it (S4). */
  | { readonly kind: 'gap'; readonly end: number; readonly next: number }
  /** This row comes next, created at its start if absent. */
  | { readonly kind: 'create'; readonly row: NewRefRow };

/**
 * Bytes of a row besides its spans: names, state with an escaped token, builder, attempt, and the
 * clean-release mark that a tail row takes later. Fixed, so that all builders cut rows alike.
 */
export const ROW_FRAME_BYTES = 2_048;

/** End of a chain whose last row is `last`. */
export function chainEnd(last: Pick<RefRow, 'end'> | undefined): number {
  return last?.end ?? 0;
}

/** State at the end of a chain whose last row is `last`. */
export function chainState(last: Pick<RefRow, 'state'> | undefined): StreamState {
  return last?.state ?? INITIAL_STREAM_STATE;
}

/**
 * The next thing to do for a chain that ends with `last`.
 *
 * @param entries - entries of one stream from one epoch, ascending; may begin below the chain's end.
 * @param valueBytesMax - what one value of the metastore may hold.
 * @throws EngineError INVARIANT when an entry lies across the end of the chain: rows end where
 *   entries end, so that two epochs would hold one record.
 */
export function nextRow(
  last: RefRow | undefined,
  entries: readonly SourceEntry[],
  source: RowSource,
  valueBytesMax: number,
): RowStep {
  const start = chainEnd(last);
  let index = firstUncovered(entries, start);
  const next = entries[index];
  if (next === undefined) return { kind: 'covered', end: start };
  if (next.span.seq > start) return { kind: 'gap', end: start, next: next.span.seq };
  if (next.span.seq < start) throw acrossError(next.span, start, source);
  const spans: Span[] = [];
  let state = chainState(last);
  let end = start;
  let room = valueBytesMax - ROW_FRAME_BYTES;
  for (; index < entries.length; index++) {
    const entry = entries[index]!;
    // A hole within one epoch is another epoch's: the stream was away and came back.
    if (entry.span.seq > end) break;
    assert(entry.span.seq === end, 'entries of one stream in one epoch ascend');
    room -= spanBytes(entry.span);
    if (room < 0 && spans.length > 0) break;
    spans.push(entry.span);
    state = stateAfter(state, entry);
    end = endOf(entry);
  }
  const { star, epoch, set, builder } = source;
  return { kind: 'create', row: { start, end, star, epoch, set, spans, state, builder } };
}

/** What a builder has read and done. It reads the last row after every answer to a create. */
export interface BuilderView {
  readonly last: RefRow | undefined;
  /** Whether that read saw every write that was acknowledged before it began. */
  readonly isFresh: boolean;
  /** Where the row began that was tried last, whatever the answer was. */
  readonly triedAt: number | undefined;
}

export type BuildStep =
  | RowStep
  /** Nothing may be concluded from this read: read the last row behind a barrier. */
  | { readonly kind: 'readFresh' }
  /** The chain does not move although a row was tried at its end: wait, then read behind a barrier. */
  | { readonly kind: 'stalled' };

/**
 * What a builder does next. Coverage may be claimed from any read, because chains only grow; a gap
 * only from a fresh one, and a row is not tried twice at one place on the word of an old read.
 */
export function buildStep(
  view: BuilderView,
  entries: readonly SourceEntry[],
  source: RowSource,
  valueBytesMax: number,
): BuildStep {
  const { last, isFresh, triedAt } = view;
  const end = chainEnd(last);
  if (triedAt !== undefined && end <= triedAt && !isFresh) return { kind: 'readFresh' };
  // Below it, rows went away, as those of a deleted stream do: the entries decide.
  if (end === triedAt) return { kind: 'stalled' };
  const step = nextRow(last, entries, source, valueBytesMax);
  return step.kind === 'gap' && !isFresh ? { kind: 'readFresh' } : step;
}

/** State after one more entry: the trim point only rises, the last token counts. */
export function stateAfter(
  state: StreamState,
  entry: { readonly span: Pick<Span, 'last'>; readonly delta?: StateDelta },
): StreamState {
  return {
    fencingToken: entry.delta?.fencingToken ?? state.fencingToken,
    trimPoint: Math.max(state.trimPoint, entry.delta?.trimPoint ?? 0),
    lastTimestamp: Math.max(state.lastTimestamp, entry.span.last),
  };
}

/** Index of the first entry that ends above `end`; their count when none does. */
function firstUncovered(entries: readonly SourceEntry[], end: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (endOf(entries[middle]!) > end) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** What is wrong with a row that was read at a key of `start`; undefined when nothing is. */
export function rowFault(row: RefRow, start: number | undefined): string | undefined {
  if (row.start !== start) return 'start differs from the key';
  if (row.spans.length === 0) return 'no spans';
  let end = row.start;
  for (const span of row.spans) {
    if (span.seq !== end) return 'spans are not contiguous';
    end = span.seq + span.count;
  }
  if (row.end !== end) return 'end differs from the spans';
  return undefined;
}

/** The span of the row that holds `seqNum`, which must lie in the row. */
export function spanAt(row: RefRow, seqNum: number): Span {
  assert(row.start <= seqNum && seqNum < row.end, 'the position lies in the row');
  let low = 0;
  let high = row.spans.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (row.spans[middle]!.seq <= seqNum) low = middle;
    else high = middle - 1;
  }
  return row.spans[low]!;
}

function acrossError(span: Span, end: number, source: RowSource): EngineError {
  return new EngineError('INVARIANT', 'a batch lies across the end of its stream rows', {
    details: {
      star: source.star,
      epoch: source.epoch,
      slot: span.slot,
      start: span.seq,
      count: span.count,
      rowsEnd: end,
    },
  });
}

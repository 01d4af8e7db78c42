/**
 * Finds the ref row of a position or of a time. The row that covers a position is one FLOOR lookup
 * away; rows are immutable but for the mark, so that found ones can be kept.
 */
import type { WaitOptions } from '../src/lib/wait.ts';
import { refRowKey, refsPrefix } from '../src/protocol/keys.ts';
import type { RefRow } from '../src/protocol/records.ts';
import type { Span } from '../src/protocol/spans.ts';
import { spanAt } from '../src/protocol/ref-rows.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import type { SpanSource } from './object-reader.ts';
import type { StarPorts } from './ports.ts';
import { parseRow, readLastRowFresh } from './ref-rows.ts';
import type { RowCache } from './row-cache.ts';

type LookupPorts = Pick<StarPorts, 'metastore'>;

export interface LookupOptions extends Pick<WaitOptions, 'signal'> {
  readonly cache?: RowCache | undefined;
}

export interface FoundSpan {
  readonly row: RefRow;
  readonly span: Span;
}

/**
 * The row that covers `seqNum`. Undefined when rows do not reach it, or when they were removed
 * behind trim: the caller tells the two apart by the trim point. Never answered so from an old read.
 *
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
 */
export async function findRow(
  ports: LookupPorts,
  streamId: string,
  seqNum: number,
  options: LookupOptions = {},
): Promise<RefRow | undefined> {
  const cached = options.cache?.find(streamId, seqNum);
  if (cached !== undefined) return cached;
  const found = await lookUp(ports, streamId, seqNum, options);
  if (found !== undefined) return found;
  await ports.metastore.barrier(partitionOf(refsPrefix(streamId)), options);
  return lookUp(ports, streamId, seqNum, options);
}

async function lookUp(
  ports: LookupPorts,
  streamId: string,
  seqNum: number,
  options: LookupOptions,
): Promise<RefRow | undefined> {
  const key = refRowKey(streamId, seqNum);
  const entry = await ports.metastore.floor(key, refsPrefix(streamId), options);
  if (entry === undefined) return undefined;
  const { row } = parseRow(streamId, entry);
  options.cache?.add(streamId, row);
  return row.end > seqNum ? row : undefined;
}

/** The row with the lowest start; what lies below was removed behind trim. */
export async function firstRow(
  ports: LookupPorts,
  streamId: string,
  options: LookupOptions = {},
): Promise<RefRow | undefined> {
  const children = { signal: options.signal, limit: 1 };
  const [entry] = await ports.metastore.children(refsPrefix(streamId), children);
  return entry === undefined ? undefined : parseRow(streamId, entry).row;
}

/**
 * The span that holds the first record at or after `timestamp`, by a binary search over rows;
 * timestamps of a stream never go back. When the span begins at or after `timestamp`, its first
 * record is the one; otherwise it lies within the span (`firstAtOrAfter` of its records).
 *
 * @param options.from - looks at this position and above; default: from the first row.
 * @returns undefined when every covered record is older.
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
 */
export async function findByTimestamp(
  ports: LookupPorts,
  streamId: string,
  timestamp: number,
  options: LookupOptions & { readonly from?: number } = {},
): Promise<FoundSpan | undefined> {
  // One old answer among the lookups would send the search past what it looks for.
  const last = await readLastRowFresh(ports, streamId, options);
  if (last === undefined) return undefined;
  const first = options.from ?? (await firstRow(ports, streamId, options))?.start ?? 0;
  // Everything below `low` is older or out of reach; `high` starts `found`, or ends the rows.
  let low = first;
  let high = last.row.end;
  let found: RefRow | undefined;
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    const row =
      options.cache?.find(streamId, middle) ?? (await lookUp(ports, streamId, middle, options));
    if (row === undefined) low = middle + 1;
    else if (newestOf(row) < timestamp) low = row.end;
    else {
      found = row;
      high = row.start;
    }
  }
  const span = found?.spans.find(
    ({ seq, count, last: newest }) => newest >= timestamp && seq + count > first,
  );
  return found === undefined || span === undefined ? undefined : { row: found, span };
}

/** The span of the row that holds the position, as a source for the reader. */
export function sourceAt(streamId: string, row: RefRow, seqNum: number): SpanSource {
  const { star, epoch, set } = row;
  return { streamId, star, epoch, set, span: spanAt(row, seqNum) };
}

/** Spans of the row that hold `[from, to)`, in order, as sources for the reader. */
export function sourcesOf(
  streamId: string,
  row: RefRow,
  from = row.start,
  to = row.end,
): SpanSource[] {
  const { star, epoch, set } = row;
  return row.spans
    .filter(({ seq, count }) => seq + count > from && seq < to)
    .map((span) => ({ streamId, star, epoch, set, span }));
}

/** The first record at or after `timestamp` in records of one stream. */
export function firstAtOrAfter<T extends { readonly timestamp: number }>(
  records: readonly T[],
  timestamp: number,
): T | undefined {
  return records.find((record) => record.timestamp >= timestamp);
}

function newestOf(row: RefRow): number {
  return row.spans.at(-1)!.last;
}

/**
 * Reads one stream at its leader: newest records from memory, older ones from flights through ref
 * rows. The end of a bounded read is confirmed on the chain. Source: DESIGN "Read", "Serving (L)".
 */
import { decodeRecords, type StoredRecord } from '../src/format/records.ts';
import { EngineError, textOf } from '../src/lib/errors.ts';
import {
  checkOptionsObject,
  givenUpError,
  linkedSignal,
  throwIfAborted,
  type WaitOptions,
} from '../src/lib/wait.ts';
import { LIMITS } from '../src/protocol/limits.ts';
import type { BucketSets } from './bucket-set.ts';
import { isDeleted } from './deleted-stream.ts';
import { readSpan, readSpans } from './object-reader.ts';
import type { StarPorts } from './ports.ts';
import { findByTimestamp, findRow, firstAtOrAfter, sourcesOf } from './ref-lookup.ts';
import type { Span } from '../src/protocol/spans.ts';
import { deletedError } from './stream-errors.ts';

export interface ReadRequest extends WaitOptions {
  readonly from?: number | undefined;
  readonly tailOffset?: number | undefined;
  readonly timestamp?: number | undefined;
  readonly limit?: number | undefined;
  readonly live?: boolean | undefined;
  /** Told where the read begins, before any record of it. Must not throw. */
  readonly onStart?: ((position: number) => void) | undefined;
}

export interface ReadHost {
  readonly ports: StarPorts;
  readonly sets: BucketSets;
}

/** An entry that is newer than the rows, or still in memory. */
export interface RecentEntry {
  readonly span: Span;
  readonly source: { readonly star: string; readonly epoch: number; readonly set: string };
  /** A copy of its bytes while they are in memory. */
  copy(): Uint8Array | undefined;
}

/** What a reader knows of one stream besides its rows. */
export interface ReadView {
  readonly name: string;
  readonly streamId: string;
  /** The trim point: records below it are not read any more. */
  readonly firstSeqNum: number;
  readonly tailSeqNum: number;
  /** Where recent entries begin; below it only rows know. */
  readonly recentStart: number;
  recent(seqNum: number): RecentEntry | undefined;
  /** The first recent entry with a record at or after the timestamp. */
  recentByTimestamp(timestamp: number): RecentEntry | undefined;
  /** Resolves when the tail is confirmed, after the call began (L1). */
  confirm(): Promise<void>;
  /** Resolves when the tail is beyond the position, or the signal fired. */
  tailBeyond(seqNum: number, signal: AbortSignal): Promise<void>;
}

/** Names that a read takes besides those of every wait. */
export const READ_OPTION_NAMES = [
  'from',
  'tailOffset',
  'timestamp',
  'limit',
  'live',
  'ignoreCommands',
];

/** @throws EngineError INVALID_POSITION for a position that no stream can have, or more than one. */
export function checkReadRequest(request: ReadRequest): void {
  checkOptionsObject(request);
  const positions = (['from', 'tailOffset', 'timestamp'] as const).filter(
    (name) => request[name] !== undefined,
  );
  if (positions.length > 1) {
    throw new EngineError('INVALID_POSITION', 'a read has at most one start position', {
      details: { given: positions.join(','), max: 1 },
    });
  }
  for (const name of [...positions, 'limit' as const]) {
    const value = request[name];
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) continue;
    throw new EngineError('INVALID_POSITION', 'a position is a safe integer from 0', {
      details: { option: name, value: textOf(value), min: 0, max: Number.MAX_SAFE_INTEGER },
    });
  }
}

/**
 * Arrays of records in order. Ends at the confirmed tail, or goes on waiting when `live`.
 *
 * @throws EngineError TRIMMED naming the first position, BEYOND_TAIL naming the tail, DATA_LOSS,
 *   BUCKET_UNAVAILABLE, FENCED, CLOSED, ABORTED, DEADLINE_EXCEEDED
 */
export async function* readBatches(
  host: ReadHost,
  view: ReadView,
  request: ReadRequest,
): AsyncGenerator<readonly StoredRecord[], void, void> {
  checkReadRequest(request);
  throwIfAborted(request.signal, 'read');
  const limited = linkedSignal(host.ports.clock, request, 'read');
  const { signal } = limited;
  const within = <T>(promise: Promise<T>): Promise<T> => abortable(promise, signal);
  try {
    let left = request.limit ?? Number.POSITIVE_INFINITY;
    if (left === 0) return;
    // The tail a position is judged by is confirmed after the read began.
    if (request.tailOffset !== undefined || !request.live) await within(view.confirm());
    let position = await startPosition(host, view, request, signal);
    request.onStart?.(position);
    let confirmedTail = view.tailSeqNum;
    while (left > 0) {
      throwIfGivenUp(signal);
      if (position < view.tailSeqNum) {
        for await (const records of chunk(host, view, position, left, signal)) {
          const wanted = records.slice(0, Math.min(left, records.length));
          position += wanted.length;
          left -= wanted.length;
          yield wanted;
          if (left <= 0) return;
          throwIfGivenUp(signal);
        }
        continue;
      }
      if (request.live === true) {
        await view.tailBeyond(position, signal);
        continue;
      }
      if (position >= confirmedTail) return;
      await within(view.confirm());
      confirmedTail = view.tailSeqNum;
    }
  } finally {
    limited.release();
  }
}

async function startPosition(
  host: ReadHost,
  view: ReadView,
  request: ReadRequest,
  signal: AbortSignal,
): Promise<number> {
  const tail = view.tailSeqNum;
  const first = view.firstSeqNum;
  if (request.tailOffset !== undefined) return Math.max(first, tail - request.tailOffset);
  if (request.timestamp !== undefined) {
    return Math.max(first, await positionOfTimestamp(host, view, request.timestamp, signal));
  }
  if (request.from === undefined) return first;
  if (request.from < first) throw trimmedError(view, request.from);
  if (request.from > tail && request.live !== true) {
    throw new EngineError('BEYOND_TAIL', 'the position lies beyond the tail', {
      details: { stream: view.name, from: request.from, tail },
    });
  }
  return request.from;
}

async function positionOfTimestamp(
  host: ReadHost,
  view: ReadView,
  timestamp: number,
  signal: AbortSignal,
): Promise<number> {
  const streamId = view.streamId;
  if (view.recentStart > 0) {
    const found = await findByTimestamp(host.ports, streamId, timestamp, { signal });
    if (found !== undefined) {
      const source = { streamId, ...found.row, span: found.span };
      const records = await readSpan(host.ports, host.sets, source, { signal });
      return firstAtOrAfter(records, timestamp)?.seqNum ?? found.span.seq;
    }
  }
  const entry = view.recentByTimestamp(timestamp);
  if (entry === undefined) return view.tailSeqNum;
  for await (const records of chunk(host, view, entry.span.seq, 1, signal)) {
    const record = firstAtOrAfter(records, timestamp);
    if (record !== undefined) return record.seqNum;
  }
  return entry.span.seq;
}

/** Up to `limit` records from `position` on, as far as one entry in memory or one ref row goes. */
async function* chunk(
  host: ReadHost,
  view: ReadView,
  position: number,
  limit: number,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredRecord[], void, void> {
  if (position < view.firstSeqNum) throw trimmedError(view, position);
  const { ports, sets } = host;
  const streamId = view.streamId;
  const recent = view.recent(position);
  if (recent !== undefined) {
    const { span } = recent;
    const bytes = recent.copy();
    ports.metrics.counter(bytes === undefined ? 'read.fromBuckets' : 'read.fromMemory').add();
    const source = { streamId, ...recent.source, span };
    yield* pages(
      bytes === undefined
        ? await readSpan(ports, sets, source, { signal })
        : decodeRecords(bytes, span.seq, span.count),
      position,
    );
    return;
  }
  const row = await findRow(ports, streamId, position, { signal });
  if (row === undefined) {
    // T5: rows follow their stream.
    if (await isDeleted(ports, streamId, signal)) throw deletedError(view.name);
    throw new EngineError('DATA_LOSS', 'no ref row covers an acknowledged record', {
      details: { stream: view.name, position },
    });
  }
  const sources = sourcesOf(streamId, row, position, position + limit);
  ports.metrics.counter('read.fromBuckets').add(sources.length);
  for await (const { records } of readSpans(ports, sets, sources, { signal })) {
    yield* pages(records, position);
  }
}

function* pages(
  records: readonly StoredRecord[],
  position: number,
): Generator<readonly StoredRecord[], void, void> {
  const skip = Math.max(0, position - (records[0]?.seqNum ?? position));
  for (let start = skip; start < records.length; start += LIMITS.readBatchRecords) {
    yield records.slice(start, start + LIMITS.readBatchRecords);
  }
}

function trimmedError(view: ReadView, from: number): EngineError {
  return new EngineError('TRIMMED', 'records below the trim point are not read any more', {
    details: { stream: view.name, from, first: view.firstSeqNum },
  });
}

function throwIfGivenUp(signal: AbortSignal): void {
  if (signal.aborted) throw givenUpError(signal, 'read');
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(givenUpError(signal, 'read'));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

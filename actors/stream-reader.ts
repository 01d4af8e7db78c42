/**
 * Reads one stream at its leader: newest records from memory, older ones from flights through ref
 * rows. The end of a bounded read is confirmed on the chain. Source: DESIGN "Read", "Serving (L)".
 */
import { decodeRecords, type StoredRecord } from '../src/format/records.ts';
import { EngineError } from '../src/lib/errors.ts';
import { linkedSignal, throwIfAborted, type WaitOptions } from '../src/lib/wait.ts';
import { LIMITS } from '../src/protocol/limits.ts';
import type { BucketSets } from './bucket-set.ts';
import { readSpan, readSpans } from './object-reader.ts';
import type { StarPorts } from './ports.ts';
import { findByTimestamp, findRow, firstAtOrAfter, sourcesOf } from './ref-lookup.ts';
import type { StreamActor } from './stream.actor.ts';

export interface ReadRequest extends WaitOptions {
  readonly from?: number | undefined;
  readonly tailOffset?: number | undefined;
  readonly timestamp?: number | undefined;
  readonly limit?: number | undefined;
  readonly live?: boolean | undefined;
}

export interface ReadHost {
  readonly ports: StarPorts;
  readonly sets: BucketSets;
  /** The set id and epoch of flights that are still in memory. */
  epochSource(): { readonly star: string; readonly epoch: number; readonly set: string };
}

/** @throws EngineError INVALID_POSITION for a position that no stream can have, or more than one. */
export function checkReadRequest(request: ReadRequest): void {
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
      details: { option: name, value: String(value), min: 0, max: Number.MAX_SAFE_INTEGER },
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
  stream: StreamActor,
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
    if (request.tailOffset !== undefined || !request.live) await within(stream.confirm());
    let position = await startPosition(host, stream, request, signal);
    let confirmedTail = stream.tail.end;
    while (left > 0) {
      throwIfGivenUp(signal);
      if (position < stream.tail.end) {
        for await (const records of chunk(host, stream, position, left, signal)) {
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
        await stream.tailBeyond(position, signal);
        continue;
      }
      if (position >= confirmedTail) return;
      await within(stream.confirm());
      confirmedTail = stream.tail.end;
    }
  } finally {
    limited.release();
  }
}

async function startPosition(
  host: ReadHost,
  stream: StreamActor,
  request: ReadRequest,
  signal: AbortSignal,
): Promise<number> {
  const tail = stream.tail.end;
  const first = stream.durableState.trimPoint;
  if (request.tailOffset !== undefined) return Math.max(first, tail - request.tailOffset);
  if (request.timestamp !== undefined) {
    return Math.max(first, await positionOfTimestamp(host, stream, request.timestamp, signal));
  }
  if (request.from === undefined) return first;
  if (request.from < first) throw trimmedError(stream, request.from);
  if (request.from > tail && request.live !== true) {
    throw new EngineError('BEYOND_TAIL', 'the position lies beyond the tail', {
      details: { stream: stream.name, from: request.from, tail },
    });
  }
  return request.from;
}

async function positionOfTimestamp(
  host: ReadHost,
  stream: StreamActor,
  timestamp: number,
  signal: AbortSignal,
): Promise<number> {
  const streamId = stream.record.stream;
  if (stream.tail.start > 0) {
    const found = await findByTimestamp(host.ports, streamId, timestamp, { signal });
    if (found !== undefined) {
      const source = { streamId, ...found.row, span: found.span };
      const records = await readSpan(host.ports, host.sets, source, { signal });
      return firstAtOrAfter(records, timestamp)?.seqNum ?? found.span.seq;
    }
  }
  const entry = stream.tail.findEntryByTimestamp(timestamp);
  if (entry === undefined) return stream.tail.end;
  for await (const records of chunk(host, stream, entry.span.seq, 1, signal)) {
    const record = firstAtOrAfter(records, timestamp);
    if (record !== undefined) return record.seqNum;
  }
  return entry.span.seq;
}

/** Up to `limit` records from `position` on, as far as one entry in memory or one ref row goes. */
async function* chunk(
  host: ReadHost,
  stream: StreamActor,
  position: number,
  limit: number,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredRecord[], void, void> {
  if (position < stream.durableState.trimPoint) throw trimmedError(stream, position);
  const { ports, sets } = host;
  const streamId = stream.record.stream;
  const recent = stream.tail.find(position);
  if (recent !== undefined) {
    const { span, flight, entry } = recent;
    const bytes = flight.copyEntry(entry);
    ports.metrics.counter(bytes === undefined ? 'read.fromBuckets' : 'read.fromMemory').add();
    const source = { streamId, ...host.epochSource(), span };
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
    throw new EngineError('DATA_LOSS', 'no ref row covers an acknowledged record', {
      details: { stream: stream.name, position },
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

function trimmedError(stream: StreamActor, from: number): EngineError {
  return new EngineError('TRIMMED', 'records below the trim point are not read any more', {
    details: { stream: stream.name, from, first: stream.durableState.trimPoint },
  });
}

function throwIfGivenUp(signal: AbortSignal): void {
  if (!signal.aborted) return;
  const reason: unknown = signal.reason;
  if (EngineError.is(reason)) throw reason;
  throwIfAborted(signal, 'read');
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      try {
        throwIfGivenUp(signal);
      } catch (error) {
        reject(error as Error);
      }
    };
    if (signal.aborted) {
      promise.catch(() => undefined);
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

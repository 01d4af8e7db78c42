/**
 * Records of generation 0: ranges of flights, as ref rows name them. Exactly the span is fetched,
 * from any bucket with a good copy; nothing is answered that was not checked against the checksum
 * in the row. Source: DESIGN "Read".
 */
import { backoffMillis } from '../src/lib/backoff.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { linkedSignal, sleep, throwIfAborted } from '../src/lib/wait.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import { decodeRecords } from '../src/format/records.ts';
import type { StoredRecord } from '../src/format/records.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { Span } from '../src/protocol/spans.ts';
import type { BucketSet, BucketSets, SetBucket } from './bucket-set.ts';
import { anyCopy } from './copies.ts';
import type { BadCopy, CopyAnswer, CopyResult } from './copies.ts';
import type { StarPorts } from './ports.ts';

export type { BadCopy } from './copies.ts';

type ReaderPorts = Pick<StarPorts, 'clock' | 'random' | 'compute' | 'log' | 'metrics'>;

/** Where the records of one span are: a row's fields and one of its spans. */
export interface SpanSource {
  readonly streamId: string;
  readonly star: string;
  readonly epoch: number;
  /** Id of the set whose buckets hold the slot. */
  readonly set: string;
  readonly span: Span;
}

export interface SpanReadOptions extends WaitOptions {
  /** Told of every copy that failed its check, for whoever repairs. */
  readonly onBadCopy?: (copy: BadCopy) => void;
}

export interface SpansReadOptions extends SpanReadOptions {
  /** Spans fetched at a time. @default 4 */
  readonly concurrency?: number;
  /** Bytes fetched ahead of the consumer, one span at least. @default 8 MiB */
  readonly readAheadBytes?: number;
}

/** How long a read without a deadline waits for buckets that do not answer. */
const PATIENCE_MILLIS = 30_000;
const RETRY = { firstMillis: 50, maxMillis: 2_000 };
const DEFAULT_CONCURRENCY = 4;
const DEFAULT_READ_AHEAD_BYTES = 8 * 1024 * 1024;

/**
 * The records of one span, in order. Bodies are views over the bytes that were read.
 *
 * A bad copy is counted, logged and reported, and the next bucket is asked; a bucket that hangs is
 * hedged. Buckets that do not answer are asked again with back-off until the deadline; where all that may
 * hold a copy refuse, that is the end.
 *
 * @throws EngineError DATA_LOSS when every bucket answered and none has a good copy, naming stream,
 *   range and slot. With `absent` equal to the number of buckets the slot may have been removed in
 *   good order: resolve the position again before reporting a loss. BUCKET_UNAVAILABLE when buckets
 *   that may hold it did not answer in time, BUCKET_REFUSED when they refuse. ABORTED,
 *   METASTORE_UNAVAILABLE, METASTORE_CORRUPT.
 */
export async function readSpan(
  ports: ReaderPorts,
  sets: BucketSets,
  source: SpanSource,
  options: SpanReadOptions = {},
): Promise<StoredRecord[]> {
  throwIfAborted(options.signal, 'reading');
  const timeoutMillis = options.timeoutMillis ?? PATIENCE_MILLIS;
  const limited = linkedSignal(ports.clock, { signal: options.signal, timeoutMillis }, 'reading');
  const { signal } = limited;
  let cause: EngineError | undefined;
  try {
    const set = await sets.resolve(source.set, signal);
    for (let attempt = 0; ; attempt++) {
      const result = await readFromAny(ports, set, source, { ...options, signal });
      if (result.kind === 'good') return result.value;
      if (result.unknown === 0) throw lossError(source, result);
      cause = result.cause ?? cause;
      if (result.refused === result.unknown && result.cause !== undefined) throw result.cause;
      await sleep(ports.clock, backoffMillis(ports.random, attempt, RETRY), signal);
    }
  } catch (error) {
    throwIfAborted(options.signal, 'reading');
    if (signal.aborted) throw unavailableError(source, cause, timeoutMillis);
    throw error;
  } finally {
    limited.release();
  }
}

/**
 * The records of many spans, in the order of the sources, fetching ahead of the consumer. Leaving
 * the loop ends what is under way. Each span has the caller's deadline for itself.
 *
 * @throws EngineError what `readSpan` throws, when the consumer arrives at the span.
 */
export async function* readSpans(
  ports: ReaderPorts,
  sets: BucketSets,
  sources: AsyncIterable<SpanSource> | Iterable<SpanSource>,
  options: SpansReadOptions = {},
): AsyncGenerator<{ readonly source: SpanSource; readonly records: StoredRecord[] }, void> {
  const concurrency = options.concurrency ?? DEFAULT_CONCURRENCY;
  const readAheadBytes = options.readAheadBytes ?? DEFAULT_READ_AHEAD_BYTES;
  const leaving = forManyListeners(new AbortController());
  const onAbort = (): void => leaving.abort(options.signal!.reason);
  options.signal?.addEventListener('abort', onAbort, { once: true });
  const iterator = iterate(sources);
  const ahead: { readonly source: SpanSource; readonly records: Promise<StoredRecord[]> }[] = [];
  let bytesAhead = 0;
  let isExhausted = false;
  try {
    throwIfAborted(options.signal, 'reading');
    for (;;) {
      while (!isExhausted && hasRoom(ahead.length, bytesAhead, concurrency, readAheadBytes)) {
        const next = await iterator.next();
        if (next.done === true) isExhausted = true;
        else {
          const records = readSpan(ports, sets, next.value, { ...options, signal: leaving.signal });
          // Its failure belongs to the consumer who arrives there, who may never do so.
          records.catch(() => undefined);
          ahead.push({ source: next.value, records });
          bytesAhead += next.value.span.length;
        }
      }
      const head = ahead.shift();
      if (head === undefined) return;
      const records = await head.records;
      bytesAhead -= head.source.span.length;
      yield { source: head.source, records };
    }
  } finally {
    options.signal?.removeEventListener('abort', onAbort);
    leaving.abort();
    await iterator.return?.();
  }
}

function hasRoom(count: number, bytes: number, countMax: number, bytesMax: number): boolean {
  return count === 0 || (count < countMax && bytes < bytesMax);
}

type AnyIterator<T> = AsyncIterator<T, unknown> | Iterator<T, unknown>;

function iterate<T>(sources: AsyncIterable<T> | Iterable<T>): AnyIterator<T> {
  return Symbol.asyncIterator in sources
    ? sources[Symbol.asyncIterator]()
    : sources[Symbol.iterator]();
}

function readFromAny(
  ports: ReaderPorts,
  set: BucketSet,
  source: SpanSource,
  options: SpanReadOptions,
): Promise<CopyResult<StoredRecord[]>> {
  const { star, epoch, span } = source;
  const key = slotKey(star, epoch, span.slot);
  const turn = span.slot;
  const read = (bucket: SetBucket, signal: AbortSignal): Promise<CopyAnswer<StoredRecord[]>> =>
    readFrom(ports, bucket, { key, span }, signal);
  return anyCopy(ports, { key, set, turn, read }, options);
}

async function readFrom(
  ports: ReaderPorts,
  bucket: SetBucket,
  target: { readonly key: string; readonly span: Span },
  signal: AbortSignal,
): Promise<CopyAnswer<StoredRecord[]>> {
  const { offset, length, checksum, seq, count } = target.span;
  const read = await bucket.store.readRange(target.key, offset, offset + length, { signal });
  if (read.kind !== 'found') return read;
  const { bytes } = read;
  if (bytes.length !== length) return { kind: 'bad', reason: 'object ends within the span' };
  const [found] = await ports.compute.checksums(bytes, Uint32Array.of(0, length));
  if (found !== checksum) return { kind: 'bad', reason: 'span checksum differs' };
  try {
    return { kind: 'good', value: decodeRecords(bytes, seq, count) };
  } catch (error) {
    if (toEngineError(error).code !== 'CORRUPT_OBJECT') throw error;
    return { kind: 'bad', reason: 'records do not decode' };
  }
}

function describe(source: SpanSource): Record<string, string | number> {
  const { streamId, star, epoch, span } = source;
  const end = span.seq + span.count;
  return { stream: streamId, start: span.seq, end, star, epoch, slot: span.slot };
}

function lossError(
  source: SpanSource,
  result: { readonly absent: number; readonly bad: number },
): EngineError {
  return new EngineError('DATA_LOSS', 'no bucket has a good copy of the records', {
    details: { ...describe(source), absent: result.absent, bad: result.bad },
  });
}

function unavailableError(
  source: SpanSource,
  cause: EngineError | undefined,
  timeoutMillis: number,
): EngineError {
  return new EngineError('BUCKET_UNAVAILABLE', 'no bucket answered with the records in time', {
    cause,
    details: { ...describe(source), timeoutMillis },
  });
}

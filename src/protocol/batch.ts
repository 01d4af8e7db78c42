/** Checks and measures a batch before anything is reserved or written. Source: limits.ts. */
import {
  byteLengthOf,
  commandOf,
  METERED_BYTES_MIN,
  meteredBytes,
  RECORD_BYTES_MIN,
  recordEncodedBytes,
} from '../format/records.ts';
import type { Bytes, Headers } from '../format/records.ts';
import { EngineError, textOf, type ErrorCode, type ErrorDetails } from '../lib/errors.ts';
import { LIMITS } from './limits.ts';

/** A record as a caller gives it. */
export interface RecordInput {
  readonly body?: Bytes;
  readonly headers?: Headers;
  readonly timestamp?: number;
}

export interface CheckedBatch {
  readonly records: readonly RecordInput[];
  /** Bytes the records take in a flight's body. */
  readonly encodedBytes: number;
  readonly meteredBytes: number;
  readonly hasCommands: boolean;
}

const NO_HEADERS: Headers = [];

/**
 * @throws EngineError BATCH_EMPTY, BATCH_TOO_LARGE, RECORD_TOO_LARGE, INVALID_RECORD, naming the
 *   index of the record, the value and the bound. Nothing was written then.
 */
export function checkBatch(
  records: readonly RecordInput[],
  needsTimestamps: boolean,
): CheckedBatch {
  if (!Array.isArray(records)) fail('INVALID_RECORD', 'a batch is an array of records', {});
  const { length } = records;
  if (length === 0)
    fail('BATCH_EMPTY', 'a batch holds at least one record', { records: 0, min: 1 });
  if (length > LIMITS.batchRecords) {
    fail('BATCH_TOO_LARGE', 'a batch holds too many records', {
      records: length,
      max: LIMITS.batchRecords,
    });
  }
  let encoded = 0;
  let metered = 0;
  let hasCommands = false;
  for (let index = 0; index < length; index++) {
    const record = records[index] as RecordInput | null | undefined;
    if (typeof record !== 'object' || record === null) {
      fail('INVALID_RECORD', 'a record is an object', { index });
    }
    const body = record.body ?? '';
    const headers = record.headers ?? NO_HEADERS;
    checkBytes(body, index, 'body');
    if (record.timestamp !== undefined || needsTimestamps) {
      checkTimestamp(record.timestamp, index, needsTimestamps);
    }
    if (headers === NO_HEADERS) {
      // Most records: measured once, not twice.
      const bodyBytes = byteLengthOf(body);
      if (METERED_BYTES_MIN + bodyBytes <= LIMITS.recordBytes) {
        metered += METERED_BYTES_MIN + bodyBytes;
        encoded += RECORD_BYTES_MIN + bodyBytes;
        continue;
      }
    } else if (checkHeaders(headers, body, index)) hasCommands = true;
    const bytes = meteredBytes(body, headers);
    if (bytes > LIMITS.recordBytes) {
      fail('RECORD_TOO_LARGE', 'a record exceeds the limit', {
        index,
        meteredBytes: bytes,
        max: LIMITS.recordBytes,
      });
    }
    metered += bytes;
    encoded += recordEncodedBytes(body, headers);
  }
  if (metered > LIMITS.batchBytes) {
    fail('BATCH_TOO_LARGE', 'a batch exceeds the limit', {
      meteredBytes: metered,
      max: LIMITS.batchBytes,
    });
  }
  return { records, encodedBytes: encoded, meteredBytes: metered, hasCommands };
}

/**
 * The batch without the caller's arrays and objects, for one that has to wait: they may be used
 * again meanwhile. The bytes of a Uint8Array are not copied.
 */
export function detachBatch(batch: CheckedBatch): CheckedBatch {
  const records = batch.records.map(({ body, headers, timestamp }) => ({
    ...(body === undefined ? {} : { body }),
    ...(headers === undefined
      ? {}
      : { headers: headers.map(([name, value]) => [name, value] as const) }),
    ...(timestamp === undefined ? {} : { timestamp }),
  }));
  return { ...batch, records };
}

function checkBytes(value: unknown, index: number, what: string): void {
  if (typeof value === 'string' || value instanceof Uint8Array) return;
  fail('INVALID_RECORD', 'bytes are a string or a Uint8Array', { index, what, type: typeof value });
}

/** Answers whether the record is a command. */
function checkHeaders(headers: Headers, body: Bytes, index: number): boolean {
  if (!Array.isArray(headers)) fail('INVALID_RECORD', 'headers are an array', { index });
  let isCommand = false;
  for (const pair of headers as readonly unknown[]) {
    if (!Array.isArray(pair) || pair.length !== 2) {
      fail('INVALID_RECORD', 'a header is a pair of name and value', { index });
    }
    checkBytes(pair[0], index, 'header name');
    checkBytes(pair[1], index, 'header value');
    if ((pair[0] as Bytes).length === 0) isCommand = true;
  }
  if (!isCommand) return false;
  // A malformed command would be stored as data that no reader can type.
  commandOf({ headers, body });
  return true;
}

function checkTimestamp(timestamp: number | undefined, index: number, needed: boolean): void {
  if (timestamp === undefined) {
    if (needed) {
      fail('INVALID_RECORD', 'this stream requires a timestamp of the client', { index });
    }
    return;
  }
  if (!Number.isSafeInteger(timestamp) || timestamp < 0) {
    fail('INVALID_RECORD', 'a timestamp is a safe integer of milliseconds from 0', {
      index,
      timestamp: textOf(timestamp),
    });
  }
}

function fail(code: ErrorCode, summary: string, details: ErrorDetails): never {
  throw new EngineError(code, summary, { details });
}

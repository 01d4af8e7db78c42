/** One entry of a flight's header: a batch of one stream. Byte table: docs/formats.md. */
import type { Buffer } from 'node:buffer';
import { assert } from '../lib/assert.ts';
import {
  isCount,
  isUint32,
  isWellFormed,
  readId,
  readUint64,
  refuse,
  utf8Decode,
  utf8Encode,
  writeId,
  writeUint64,
  type Refusal,
} from './bytes.ts';
import { HEADER_BOUNDS } from './preamble.ts';

/** Records of one batch. */
export const ENTRY_COUNT_MAX = 1_000_000;
/** UTF-8 bytes of a fencing token, as the S2 protocol has it. */
export const FENCING_TOKEN_BYTES_MAX = 36;

/** What the batch's command records change in the stream; the last one of each kind counts. */
export interface StateDelta {
  /** At most 36 UTF-8 bytes; empty clears the token. */
  readonly fencingToken?: string;
  readonly trimPoint?: number;
}

export interface FlightEntry {
  /** 32 lower-case hexadecimal digits. */
  readonly streamId: string;
  readonly firstSeqNum: number;
  /** Records, 1 to 1,000,000: the batch is `[firstSeqNum, firstSeqNum + count)`. */
  readonly count: number;
  /** Where the batch starts in the flight's body. */
  readonly offset: number;
  /** Bytes of the batch in the body. */
  readonly length: number;
  readonly firstTimestamp: number;
  readonly lastTimestamp: number;
  /** CRC-32 of the batch's bytes. */
  readonly checksum: number;
  readonly delta?: StateDelta;
}

const FIRST_SEQ_NUM_AT = 16;
const COUNT_AT = 24;
const LENGTH_AT = 28;
const FIRST_TIMESTAMP_AT = 32;
const LAST_TIMESTAMP_AT = 40;
const CHECKSUM_AT = 48;
const FLAGS_AT = 52;
const TOKEN_BYTES_AT = 53;
const RESERVED_AT = 54;
const FIXED_BYTES = HEADER_BOUNDS.entryBytesMin;

const FLAG_TOKEN = 1;
const FLAG_TRIM = 2;
const FLAGS_KNOWN = FLAG_TOKEN | FLAG_TRIM;

/** Bytes that the entry takes in a header. */
export function entryBytes({ delta }: FlightEntry): number {
  if (delta === undefined) return FIXED_BYTES;
  const token = delta.fencingToken === undefined ? 0 : utf8Encode(delta.fencingToken).length;
  return FIXED_BYTES + token + (delta.trimPoint === undefined ? 0 : 8);
}

/** Writes one entry and returns its size; `entryFault` must have passed it. */
export function writeEntry(
  target: Uint8Array,
  view: DataView,
  at: number,
  entry: FlightEntry,
): number {
  const { delta } = entry;
  writeId(target, at, entry.streamId);
  writeUint64(view, at + FIRST_SEQ_NUM_AT, entry.firstSeqNum);
  view.setUint32(at + COUNT_AT, entry.count, true);
  view.setUint32(at + LENGTH_AT, entry.length, true);
  writeUint64(view, at + FIRST_TIMESTAMP_AT, entry.firstTimestamp);
  writeUint64(view, at + LAST_TIMESTAMP_AT, entry.lastTimestamp);
  view.setUint32(at + CHECKSUM_AT, entry.checksum, true);
  view.setUint32(at + FLAGS_AT, 0, true);
  let end = at + FIXED_BYTES;
  if (delta?.fencingToken !== undefined) {
    const token = utf8Encode(delta.fencingToken);
    target[at + FLAGS_AT]! |= FLAG_TOKEN;
    target[at + TOKEN_BYTES_AT] = token.length;
    target.set(token, end);
    end += token.length;
  }
  if (delta?.trimPoint !== undefined) {
    target[at + FLAGS_AT]! |= FLAG_TRIM;
    writeUint64(view, end, delta.trimPoint);
    end += 8;
  }
  assert(end - at <= HEADER_BOUNDS.entryBytesMax, 'entry is larger than its bound');
  return end - at;
}

export type EntryResult =
  { readonly ok: true; readonly entry: FlightEntry; readonly size: number } | Refusal;

/** Reads one entry at `at`; `offset` is where its batch starts in the body. */
export function readEntry(bytes: Buffer, view: DataView, at: number, offset: number): EntryResult {
  if (at + FIXED_BYTES > bytes.length) return refuse('header ends within an entry');
  const firstSeqNum = readUint64(view, at + FIRST_SEQ_NUM_AT);
  const firstTimestamp = readUint64(view, at + FIRST_TIMESTAMP_AT);
  const lastTimestamp = readUint64(view, at + LAST_TIMESTAMP_AT);
  if (firstSeqNum === undefined || firstTimestamp === undefined || lastTimestamp === undefined) {
    return refuse('number is not a safe integer');
  }
  const read = readDelta(bytes, view, at);
  if (!read.ok) return read;
  const entry: FlightEntry = {
    streamId: readId(bytes, at),
    firstSeqNum,
    count: view.getUint32(at + COUNT_AT, true),
    offset,
    length: view.getUint32(at + LENGTH_AT, true),
    firstTimestamp,
    lastTimestamp,
    checksum: view.getUint32(at + CHECKSUM_AT, true),
    ...(read.delta === undefined ? undefined : { delta: read.delta }),
  };
  return { ok: true, entry, size: read.size };
}

type DeltaResult =
  { readonly ok: true; readonly delta: StateDelta | undefined; readonly size: number } | Refusal;

function readDelta(bytes: Buffer, view: DataView, at: number): DeltaResult {
  const flags = bytes[at + FLAGS_AT]!;
  const tokenBytes = bytes[at + TOKEN_BYTES_AT]!;
  if ((flags & ~FLAGS_KNOWN) !== 0) return refuse('unknown entry flag');
  if (view.getUint16(at + RESERVED_AT, true) !== 0) return refuse('padding is not zero');
  if (tokenBytes > FENCING_TOKEN_BYTES_MAX) return refuse('fencing token is too long');
  if (tokenBytes > 0 && (flags & FLAG_TOKEN) === 0) return refuse('padding is not zero');
  if (flags === 0) return { ok: true, delta: undefined, size: FIXED_BYTES };
  const tokenEnd = at + FIXED_BYTES + tokenBytes;
  const end = tokenEnd + ((flags & FLAG_TRIM) === 0 ? 0 : 8);
  if (end > bytes.length) return refuse('header ends within an entry');
  const delta: { fencingToken?: string; trimPoint?: number } = {};
  if ((flags & FLAG_TOKEN) !== 0) {
    const token = utf8Decode(bytes.subarray(at + FIXED_BYTES, tokenEnd));
    if (token === undefined) return refuse('fencing token is not UTF-8');
    delta.fencingToken = token;
  }
  if ((flags & FLAG_TRIM) !== 0) {
    const trimPoint = readUint64(view, tokenEnd);
    if (trimPoint === undefined) return refuse('number is not a safe integer');
    delta.trimPoint = trimPoint;
  }
  return { ok: true, delta, size: end - at };
}

/** What encoder and parser both refuse of one entry; identifiers are checked where they are written. */
export function entryFault(entry: FlightEntry): string | undefined {
  const { firstSeqNum, count, offset, length, firstTimestamp, lastTimestamp, delta } = entry;
  if (!Number.isSafeInteger(count) || count < 1 || count > ENTRY_COUNT_MAX) return 'record count';
  if (!isCount(firstSeqNum) || !isCount(firstSeqNum + count)) return 'sequence number';
  if (!isCount(offset)) return 'offset';
  if (!isUint32(length) || length < 1) return 'length';
  if (!isCount(firstTimestamp) || !isCount(lastTimestamp)) return 'timestamp';
  if (firstTimestamp > lastTimestamp) return 'timestamps go back';
  if (!isUint32(entry.checksum)) return 'checksum is not 32 bits';
  if (delta?.trimPoint !== undefined && !isCount(delta.trimPoint)) return 'trim point';
  if (delta?.fencingToken === undefined) return undefined;
  if (!isWellFormed(delta.fencingToken)) return 'fencing token is not well-formed text';
  const tokenBytes = utf8Encode(delta.fencingToken).length;
  return tokenBytes > FENCING_TOKEN_BYTES_MAX ? 'fencing token is too long' : undefined;
}

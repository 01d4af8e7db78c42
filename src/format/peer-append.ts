/** The message that carries a batch: its records are encoded as in a flight's body (records.ts). */
import { EngineError } from '../lib/errors.ts';
import { utf8Encode } from './bytes.ts';
import { FENCING_TOKEN_BYTES_MAX } from './flight-entry.ts';
import { FieldWriter, type FieldReader } from './peer-fields.ts';
import { peerProtocolError, PEER_MESSAGE_BYTES_MAX } from './peer-frame.ts';
import { decodeRecords, encodeRecord, type Bytes, type Headers } from './records.ts';

const APPEND = 3;
const RECORDS_MAX = 1_000;
const NO_HEADERS: Headers = [];

/** A record before it was accepted: its timestamp may be missing. */
export interface UnplacedRecord {
  readonly body?: Bytes;
  readonly headers?: Headers;
  readonly timestamp?: number;
}

/** Conditions that the holder judges when it accepts the batch. */
export interface AppendConditions {
  readonly matchSeqNum?: number | undefined;
  readonly fencingToken?: string | undefined;
}

export interface PeerAppend extends AppendConditions {
  readonly type: 'append';
  readonly call: number;
  readonly timeoutMillis: number | undefined;
  readonly records: readonly UnplacedRecord[];
}

/** Bytes of the message around `encodedBytes` of records, at most. */
export function appendMessageBytes(encodedBytes: number, records: number): number {
  return encodedBytes + Math.ceil(records / 8) + 21 + FENCING_TOKEN_BYTES_MAX;
}

/** @throws EngineError BATCH_TOO_LARGE when not even one frame holds it. */
export function encodePeerAppend(
  message: PeerAppend & { readonly encodedBytes: number },
): Uint8Array {
  const { call, timeoutMillis, matchSeqNum, fencingToken, records, encodedBytes } = message;
  const token = utf8Encode(fencingToken ?? '');
  const missing = records.some(({ timestamp }) => timestamp === undefined);
  const marks = missing ? Math.ceil(records.length / 8) : 0;
  const length =
    11 +
    (matchSeqNum === undefined ? 0 : 8) +
    (fencingToken === undefined ? 0 : 1 + token.length) +
    marks +
    encodedBytes;
  if (length >= PEER_MESSAGE_BYTES_MAX) {
    throw new EngineError('BATCH_TOO_LARGE', 'a batch does not fit a frame to its holder', {
      details: { bytes: length, max: PEER_MESSAGE_BYTES_MAX },
    });
  }
  const writer = new FieldWriter(APPEND, length)
    .uint32(call)
    .timeout(timeoutMillis)
    .uint8(
      (matchSeqNum === undefined ? 0 : 1) |
        (fencingToken === undefined ? 0 : 2) |
        (missing ? 4 : 0),
    )
    .uint16(records.length);
  if (matchSeqNum !== undefined) writer.uint64(matchSeqNum);
  if (fencingToken !== undefined) writer.uint8(token.length).raw(token);
  const marksAt = writer.at;
  writer.bytes.fill(0, marksAt, marksAt + marks);
  writer.at += marks;
  for (const [index, { body, headers, timestamp }] of records.entries()) {
    if (timestamp === undefined) writer.bytes[marksAt + (index >> 3)]! |= 1 << (index & 7);
    const { bytes, view, at } = writer;
    writer.at = encodeRecord(bytes, view, at, timestamp ?? 0, body ?? '', headers ?? NO_HEADERS);
  }
  return writer.done();
}

/** @throws EngineError PEER_PROTOCOL */
export function decodePeerAppend(reader: FieldReader): PeerAppend {
  const call = reader.uint32();
  const timeoutMillis = reader.timeout();
  const flags = reader.flags(7);
  const count = reader.uint16();
  if (count < 1 || count > RECORDS_MAX) throw peerProtocolError('records of a batch', { count });
  const matchSeqNum = (flags & 1) === 0 ? undefined : reader.uint64();
  let fencingToken: string | undefined;
  if ((flags & 2) !== 0) {
    const length = reader.uint8();
    if (length > FENCING_TOKEN_BYTES_MAX) throw peerProtocolError('length of a token', { length });
    fencingToken = reader.text(length);
  }
  const marks = reader.raw((flags & 4) === 0 ? 0 : Math.ceil(count / 8));
  checkMarks(marks, count);
  const records = placedRecords(reader.raw(reader.left), 0, count).map((record, index) => {
    const { body, headers, timestamp } = record;
    const isMissing = ((marks[index >> 3] ?? 0) & (1 << (index & 7))) !== 0;
    if (isMissing && timestamp !== 0)
      throw peerProtocolError('a timestamp that is none', { index });
    return isMissing ? { body, headers } : { body, headers, timestamp };
  });
  return { type: 'append', call, timeoutMillis, matchSeqNum, fencingToken, records };
}

/** Marks are written when a timestamp is missing, and no further than there are records. */
function checkMarks(marks: Uint8Array, count: number): void {
  const unused = (marks.at(-1) ?? 0) >> (((count - 1) & 7) + 1);
  const isIdle = marks.length > 0 && marks.every((byte) => byte === 0);
  if (unused !== 0 || isIdle) throw peerProtocolError('marks of timestamps', { count });
}

/**
 * Records of a message; views over its bytes.
 *
 * @throws EngineError PEER_PROTOCOL
 */
export function placedRecords(
  bytes: Uint8Array,
  firstSeqNum: number,
  count: number,
): ReturnType<typeof decodeRecords> {
  try {
    return decodeRecords(bytes, firstSeqNum, count);
  } catch (cause) {
    if (!EngineError.is(cause)) throw cause;
    throw peerProtocolError('records of a message', { ...cause.details, why: cause.code });
  }
}

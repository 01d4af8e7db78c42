/**
 * What engines say to each other: one channel a stream that is appended to, one a read.
 * Whatever else arrives is PEER_PROTOCOL. Byte table: docs/formats.md.
 */
import { readId, writeId, bufferOf, utf8Encode, ID_BYTES } from './bytes.ts';
import { FENCING_TOKEN_BYTES_MAX } from './flight-entry.ts';
import { FieldReader, FieldWriter } from './peer-fields.ts';
import { decodePeerError, encodePeerError } from './peer-error.ts';
import { peerProtocolError } from './peer-frame.ts';
import type { EngineError } from '../lib/errors.ts';
import { decodePeerAppend, placedRecords, type PeerAppend } from './peer-append.ts';
import type { StoredRecord } from './records.ts';

/** The first word of every channel: nothing of another version is understood. */
export const PEER_VERSION = 1;

export const PEER_TYPES = {
  hello: 1,
  opened: 2,
  append: 3,
  accepted: 4,
  acked: 5,
  checkTail: 6,
  tail: 7,
  cancel: 8,
  failed: 9,
  read: 10,
  started: 11,
  records: 12,
  end: 13,
} as const;

const MODES = ['any', 'fenced'] as const;
const PURPOSES = ['append', 'read'] as const;
const POSITIONS = ['default', 'from', 'tailOffset', 'timestamp'] as const;
const NAME_BYTES_MAX = 512;
const BASIN_BYTES_MAX = 48;

export interface PeerPosition {
  readonly seqNum: number;
  readonly timestamp: number;
}

export interface PeerHello {
  readonly type: 'hello';
  readonly purpose: (typeof PURPOSES)[number];
  readonly basin: string;
  readonly name: string;
  readonly fencingToken?: string | undefined;
}

export interface PeerRead {
  readonly type: 'read';
  readonly timeoutMillis: number | undefined;
  readonly start: (typeof POSITIONS)[number];
  readonly position: number;
  readonly limit: number | undefined;
  readonly live: boolean;
}

export interface PeerRecords {
  readonly type: 'records';
  /** Their names, values and bodies are views over the message. */
  readonly records: readonly StoredRecord[];
}

export type PeerMessage =
  | PeerHello
  | PeerAppend
  | PeerRead
  | PeerRecords
  | { readonly type: 'opened'; readonly id: string; readonly mode: (typeof MODES)[number] }
  | {
      readonly type: 'accepted';
      readonly call: number;
      readonly startSeqNum: number;
      readonly endSeqNum: number;
    }
  | {
      readonly type: 'acked';
      readonly call: number;
      readonly start: PeerPosition;
      readonly end: PeerPosition;
      readonly tail: PeerPosition;
    }
  | {
      readonly type: 'checkTail';
      readonly call: number;
      readonly timeoutMillis: number | undefined;
    }
  | { readonly type: 'tail'; readonly call: number; readonly tail: PeerPosition }
  | { readonly type: 'cancel'; readonly call: number }
  | { readonly type: 'failed'; readonly call: number; readonly error: EngineError }
  | { readonly type: 'started'; readonly position: number }
  | { readonly type: 'end' };

/** All but appends and records, whose bytes are encoded in place (peer-append.ts, peer-records.ts). */
export type SmallPeerMessage = Exclude<PeerMessage, PeerAppend | PeerRecords>;

export function encodePeerMessage(message: SmallPeerMessage): Uint8Array {
  const type = PEER_TYPES[message.type];
  switch (message.type) {
    case 'hello':
      return encodeHello(message);
    case 'opened': {
      const writer = new FieldWriter(type, ID_BYTES + 1);
      writeId(writer.bytes, writer.at, message.id);
      writer.at += ID_BYTES;
      return writer.uint8(MODES.indexOf(message.mode)).done();
    }
    case 'accepted': {
      const { call, startSeqNum, endSeqNum } = message;
      return new FieldWriter(type, 20).uint32(call).uint64(startSeqNum).uint64(endSeqNum).done();
    }
    case 'acked': {
      const writer = new FieldWriter(type, 52).uint32(message.call);
      for (const position of [message.start, message.end, message.tail]) {
        writer.uint64(position.seqNum).uint64(position.timestamp);
      }
      return writer.done();
    }
    case 'checkTail':
      return new FieldWriter(type, 8).uint32(message.call).timeout(message.timeoutMillis).done();
    case 'tail': {
      const { call, tail } = message;
      return new FieldWriter(type, 20)
        .uint32(call)
        .uint64(tail.seqNum)
        .uint64(tail.timestamp)
        .done();
    }
    case 'cancel':
      return new FieldWriter(type, 4).uint32(message.call).done();
    case 'failed': {
      const error = encodePeerError(message.error);
      return new FieldWriter(type, 4 + error.length).uint32(message.call).raw(error).done();
    }
    case 'read': {
      const { timeoutMillis, start, position, limit, live } = message;
      return new FieldWriter(type, 22)
        .timeout(timeoutMillis)
        .uint8(POSITIONS.indexOf(start))
        .uint8((live ? 1 : 0) | (limit === undefined ? 0 : 2))
        .uint64(position)
        .uint64(limit ?? 0)
        .done();
    }
    case 'started':
      return new FieldWriter(type, 8).uint64(message.position).done();
    case 'end':
      return new FieldWriter(type, 0).done();
  }
}

function encodeHello(message: PeerHello): Uint8Array {
  const basin = utf8Encode(message.basin);
  const name = utf8Encode(message.name);
  const token = utf8Encode(message.fencingToken ?? '');
  return new FieldWriter(PEER_TYPES.hello, 8 + basin.length + name.length + token.length)
    .uint16(PEER_VERSION)
    .uint8(PURPOSES.indexOf(message.purpose))
    .uint8(message.fencingToken === undefined ? 0 : 1)
    .uint8(basin.length)
    .uint8(token.length)
    .uint16(name.length)
    .raw(basin)
    .raw(name)
    .raw(token)
    .done();
}

/** @throws EngineError PEER_PROTOCOL for anything that an engine of this version does not write. */
export function decodePeerMessage(message: Uint8Array): PeerMessage {
  const reader = new FieldReader(message);
  const decoded = decodeFields(message[0], reader);
  reader.end();
  return decoded;
}

function decodeFields(type: number | undefined, reader: FieldReader): PeerMessage {
  switch (type) {
    case PEER_TYPES.hello:
      return decodeHello(reader);
    case PEER_TYPES.opened: {
      const id = readId(bufferOf(reader.raw(ID_BYTES)), 0);
      return { type: 'opened', id, mode: reader.pick(MODES, 'mode of a stream') };
    }
    case PEER_TYPES.append:
      return decodePeerAppend(reader);
    case PEER_TYPES.accepted: {
      const call = reader.uint32();
      const [startSeqNum, endSeqNum] = [reader.uint64(), reader.uint64()];
      if (endSeqNum <= startSeqNum) throw peerProtocolError('numbers of a batch', { startSeqNum });
      return { type: 'accepted', call, startSeqNum, endSeqNum };
    }
    case PEER_TYPES.acked: {
      const call = reader.uint32();
      const [start, end, tail] = [positionOf(reader), positionOf(reader), positionOf(reader)];
      return { type: 'acked', call, start, end, tail };
    }
    case PEER_TYPES.checkTail:
      return { type: 'checkTail', call: reader.uint32(), timeoutMillis: reader.timeout() };
    case PEER_TYPES.tail:
      return { type: 'tail', call: reader.uint32(), tail: positionOf(reader) };
    case PEER_TYPES.cancel:
      return { type: 'cancel', call: reader.uint32() };
    case PEER_TYPES.failed: {
      const call = reader.uint32();
      return { type: 'failed', call, error: decodePeerError(reader.text(reader.left)) };
    }
    case PEER_TYPES.read:
      return decodeRead(reader);
    case PEER_TYPES.started:
      return { type: 'started', position: reader.uint64() };
    case PEER_TYPES.records: {
      const [firstSeqNum, count] = [reader.uint64(), reader.uint32()];
      if (firstSeqNum + count > Number.MAX_SAFE_INTEGER) {
        throw peerProtocolError('numbers of records', { firstSeqNum, count });
      }
      return {
        type: 'records',
        records: placedRecords(reader.raw(reader.left), firstSeqNum, count),
      };
    }
    case PEER_TYPES.end:
      return { type: 'end' };
    default:
      throw peerProtocolError('unknown message', { type });
  }
}

function decodeHello(reader: FieldReader): PeerHello {
  const version = reader.uint16();
  if (version !== PEER_VERSION) {
    throw peerProtocolError('unknown version', { version, known: PEER_VERSION });
  }
  const purpose = reader.pick(PURPOSES, 'purpose of a channel');
  const hasToken = reader.flags(1) === 1;
  const [basinBytes, tokenBytes, nameBytes] = [reader.uint8(), reader.uint8(), reader.uint16()];
  if (
    basinBytes > BASIN_BYTES_MAX ||
    nameBytes < 1 ||
    nameBytes > NAME_BYTES_MAX ||
    tokenBytes > (hasToken ? FENCING_TOKEN_BYTES_MAX : 0)
  ) {
    throw peerProtocolError('lengths of a greeting', { basinBytes, nameBytes, tokenBytes });
  }
  const [basin, name] = [reader.text(basinBytes), reader.text(nameBytes)];
  const token = reader.text(tokenBytes);
  return { type: 'hello', purpose, basin, name, ...(hasToken ? { fencingToken: token } : {}) };
}

function decodeRead(reader: FieldReader): PeerRead {
  const timeoutMillis = reader.timeout();
  const start = reader.pick(POSITIONS, 'start of a read');
  const flags = reader.flags(3);
  const [position, limit] = [reader.uint64(), reader.uint64()];
  const unused = (start === 'default' && position !== 0) || ((flags & 2) === 0 && limit !== 0);
  if (unused) throw peerProtocolError('a number that means nothing', { position, limit });
  const live = (flags & 1) === 1;
  return {
    type: 'read',
    timeoutMillis,
    start,
    position,
    limit: (flags & 2) === 0 ? undefined : limit,
    live,
  };
}

function positionOf(reader: FieldReader): PeerPosition {
  return { seqNum: reader.uint64(), timestamp: reader.uint64() };
}

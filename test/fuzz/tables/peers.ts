/** Decoders of what other engines send. */
import fc from 'fast-check';
import { Buffer } from 'node:buffer';
import { crc32 } from '../../../src/format/crc.ts';
import { viewOf } from '../../../src/format/bytes.ts';
import {
  decodePeerAppend,
  encodePeerAppend,
  placedRecords,
  type PeerAppend,
} from '../../../src/format/peer-append.ts';
import { decodePeerError, encodePeerError } from '../../../src/format/peer-error.ts';
import { FieldReader } from '../../../src/format/peer-fields.ts';
import {
  PEER_END_FRAME,
  peerFrameHead,
  PeerFrameSplitter,
} from '../../../src/format/peer-frame.ts';
import {
  decodePeerMessage,
  encodePeerMessage,
  type PeerMessage,
  type SmallPeerMessage,
} from '../../../src/format/peer-message.ts';
import { encodePeerRecords } from '../../../src/format/peer-records.ts';
import { recordEncodedBytes } from '../../../src/format/records.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { authorizationOf, authorizes } from '../../../src/adapters/peers/token.ts';
import { anyId, anyText, anyToken } from '../../unit/format/samples.ts';
import type { BytesDecoder } from '../decoder.ts';

const position = { seqNum: 2 ** 40, timestamp: 1_700_000_000_000 };
const error = new EngineError('STREAM_HELD', 'another star leads this stream', {
  details: { name: 'orders', epoch: 7 },
  retryAfterMillis: 1_000,
});

const SMALL: readonly SmallPeerMessage[] = [
  { type: 'hello', purpose: 'append', basin: 'default', name: 'orders', fencingToken: 'token' },
  { type: 'hello', purpose: 'read', basin: 'default', name: 'gr\u00fc\u00dfe' },
  { type: 'opened', id: '0a'.repeat(16), mode: 'fenced' },
  { type: 'accepted', call: 7, startSeqNum: 1, endSeqNum: 4 },
  { type: 'acked', call: 7, start: position, end: position, tail: position },
  { type: 'checkTail', call: 8, timeoutMillis: 1_000 },
  { type: 'tail', call: 8, tail: position },
  { type: 'cancel', call: 9 },
  { type: 'failed', call: 9, error },
  { type: 'read', timeoutMillis: undefined, start: 'from', position: 5, limit: 10, live: true },
  { type: 'started', position: 5 },
  { type: 'end' },
];

function append(message: Omit<PeerAppend, 'type'>): Uint8Array {
  const encodedBytes = message.records.reduce(
    (sum, { body = '', headers = [] }) => sum + recordEncodedBytes(body, headers),
    0,
  );
  return encodePeerAppend({ ...message, type: 'append', encodedBytes });
}

const APPENDS: readonly Uint8Array[] = [
  append({
    call: 3,
    timeoutMillis: 500,
    records: [{ body: 'one', timestamp: 1 }, { body: 'two' }],
  }),
  append({
    call: 4,
    timeoutMillis: undefined,
    matchSeqNum: 12,
    fencingToken: 'token',
    records: [{ body: 'x', headers: [['name', 'value']], timestamp: 5 }],
  }),
];
const RECORDS = [
  ...encodePeerRecords([
    { seqNum: 4, timestamp: 9, headers: [], body: Buffer.from('four') },
    {
      seqNum: 5,
      timestamp: 9,
      headers: [[Buffer.from('n'), Buffer.from('v')]],
      body: Buffer.from(''),
    },
  ]),
];
const count = fc.maxSafeNat();
const call = fc.nat(0xffff_ffff);
const timeoutMillis = fc.option(fc.nat(0xffff_fffe), { nil: undefined });
const token = fc.option(anyToken, { nil: undefined });
const anyPosition = fc.record({ seqNum: count, timestamp: count });
const anySmall: fc.Arbitrary<SmallPeerMessage> = fc.oneof(
  fc.record({
    type: fc.constant('hello' as const),
    purpose: fc.constantFrom('append' as const, 'read' as const),
    basin: fc.constantFrom('default', 'other-basin'),
    name: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 512 }),
    fencingToken: token,
  }),
  fc.record({
    type: fc.constant('opened' as const),
    id: anyId,
    mode: fc.constantFrom('any' as const, 'fenced' as const),
  }),
  fc.record({
    type: fc.constant('acked' as const),
    call,
    start: anyPosition,
    end: anyPosition,
    tail: anyPosition,
  }),
  fc.record({ type: fc.constant('checkTail' as const), call, timeoutMillis }),
  fc.record({ type: fc.constant('tail' as const), call, tail: anyPosition }),
  fc.record({
    type: fc.constant('read' as const),
    timeoutMillis,
    start: fc.constantFrom('from' as const, 'tailOffset' as const, 'timestamp' as const),
    position: count,
    limit: fc.option(count, { nil: undefined }),
    live: fc.boolean(),
  }),
  fc.record({ type: fc.constant('started' as const), position: count }),
);
const anyPart = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
const anyAppend = fc
  .record({
    call,
    timeoutMillis,
    records: fc.array(
      fc.record({
        body: anyPart,
        headers: fc.array(
          fc.tuple(
            fc.uint8Array({ minLength: 1, maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
            anyPart,
          ),
          { maxLength: 4 },
        ),
        timestamp: count,
      }),
      { minLength: 1, maxLength: 20 },
    ),
  })
  .map(append);
const anyError = fc
  .record({
    code: fc.constantFrom('STREAM_HELD' as const, 'INTERNAL' as const, 'PEER_PROTOCOL' as const),
    summary: anyText,
    details: fc.dictionary(fc.string({ maxLength: 10 }), fc.oneof(anyText, fc.nat()), {
      maxKeys: 20,
    }),
  })
  .map(({ code, summary, details }) =>
    encodePeerError(new EngineError(code, summary, { details })),
  );
const anyFrames = fc
  .array(fc.uint8Array({ minLength: 1, maxLength: 60 }), { maxLength: 5 })
  .map((messages) =>
    Buffer.concat([
      ...messages.flatMap((message) => [peerFrameHead(message), message]),
      PEER_END_FRAME,
    ]),
  );
const SMALL_BYTES = SMALL.map(encodePeerMessage);
/** A channel is in order because its connection is: frames cover messages, not their row. */
const intact = (answer: unknown): boolean =>
  (answer as { messages: Uint8Array[] }).messages.every((message) =>
    FRAMED.some((sent) => Buffer.compare(sent, message) === 0),
  );
const FRAMED = [SMALL_BYTES[0]!, APPENDS[0]!, SMALL_BYTES[11]!];
const FRAMES = Buffer.concat([
  ...FRAMED.flatMap((message) => [peerFrameHead(message), message]),
  PEER_END_FRAME,
]);

function encodeAny(message: PeerMessage): Uint8Array {
  if (message.type === 'append') return append(message);
  if (message.type === 'records') return Buffer.concat([...encodePeerRecords(message.records)]);
  return encodePeerMessage(message);
}

const isFailure = (bytes: Uint8Array): boolean => bytes[0] === 9;

export const PEER_DECODERS: readonly BytesDecoder[] = [
  {
    kind: 'bytes',
    name: 'decodePeerMessage',
    file: 'src/format/peer-message.ts',
    seeds: [...SMALL_BYTES.filter((bytes) => !isFailure(bytes)), ...APPENDS, ...RECORDS],
    sound: fc.oneof(anySmall.map(encodePeerMessage), anyAppend),
    decode: (bytes) => {
      const message = decodePeerMessage(bytes);
      // Errors have more than one encoding, and a table of their own.
      return message.type === 'failed' ? undefined : message;
    },
    refuses: (message) => message === undefined,
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
    encode: encodeAny,
  },
  {
    kind: 'bytes',
    name: 'decodePeerMessage',
    variant: 'a failure',
    file: 'src/format/peer-message.ts',
    seeds: SMALL_BYTES.filter(isFailure),
    decode: decodePeerMessage,
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
    reencode: encodeAny,
  },
  {
    kind: 'bytes',
    name: 'decodePeerAppend',
    file: 'src/format/peer-append.ts',
    seeds: APPENDS,
    sound: anyAppend,
    decode: (bytes) => decodePeerAppend(new FieldReader(bytes)),
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
  },
  {
    kind: 'bytes',
    name: 'placedRecords',
    file: 'src/format/peer-append.ts',
    seeds: RECORDS.map((message) => message.slice(13)),
    decode: (bytes) => placedRecords(bytes, 0, 2),
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
  },
  {
    kind: 'bytes',
    name: 'decodePeerError',
    file: 'src/format/peer-error.ts',
    seeds: [encodePeerError(error), encodePeerError(new EngineError('INTERNAL', 's'))],
    sound: anyError.map((bytes) => Uint8Array.from(bytes)),
    decode: (bytes) => decodePeerError(Buffer.from(bytes).toString('utf8')),
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
    reencode: encodePeerError,
  },
  {
    kind: 'bytes',
    name: 'PeerFrameSplitter',
    file: 'src/format/peer-frame.ts',
    seeds: [FRAMES],
    sound: anyFrames,
    decode: (bytes) => split(bytes, bytes.length),
    // A part of the messages without the end is a channel that was cut off.
    refuses: (answer) => !(answer as { ended: boolean }).ended,
    codes: ['PEER_PROTOCOL'],
    covered: 'all',
    means: intact,
    encode: ({ messages }: { messages: Uint8Array[] }) =>
      Buffer.concat([
        ...messages.flatMap((message) => [peerFrameHead(message), message]),
        PEER_END_FRAME,
      ]),
    reseal: resealFrames,
  },
  {
    kind: 'bytes',
    name: 'PeerFrameSplitter',
    variant: 'byte by byte',
    file: 'src/format/peer-frame.ts',
    seeds: [FRAMES],
    sound: anyFrames,
    decode: (bytes) => split(bytes, 1),
    refuses: (answer) => !(answer as { ended: boolean }).ended,
    codes: ['PEER_PROTOCOL'],
    covered: 'all',
    means: intact,
  },
  {
    kind: 'bytes',
    name: 'FieldReader',
    file: 'src/format/peer-fields.ts',
    seeds: [Buffer.from([0, 1, 2, 0, ...Buffer.alloc(8, 0), 1, 0, 0, 0, 3, 1, 97])],
    decode: (bytes) => {
      const reader = new FieldReader(bytes);
      const numbers = [reader.uint8(), reader.uint16(), reader.uint64(), reader.timeout()];
      return [
        ...numbers,
        reader.flags(3),
        reader.pick(['a', 'b'], 'letter'),
        reader.text(reader.left),
      ];
    },
    codes: ['PEER_PROTOCOL'],
    covered: { by: 'the checksum of the frame' },
  },
  {
    kind: 'bytes',
    name: 'authorizes',
    file: 'src/adapters/peers/token.ts',
    seeds: [Buffer.from(authorizationOf('a secret of 16 bytes'))],
    decode: (bytes) => authorizes(Buffer.from(bytes).toString('latin1'), 'a secret of 16 bytes'),
    refuses: (answer) => answer === false,
    codes: [],
    covered: 'all',
  },
];

function split(bytes: Uint8Array, chunkBytes: number): { messages: Uint8Array[]; ended: boolean } {
  const splitter = new PeerFrameSplitter();
  const messages: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    messages.push(...splitter.push(bytes.subarray(at, at + chunkBytes)));
  }
  return { messages, ended: splitter.hasEnded };
}

/** The checksum of each frame that is there whole. */
function resealFrames(bytes: Uint8Array): Uint8Array {
  const view = viewOf(bytes);
  for (let at = 0; at + 8 < bytes.length;) {
    const end = at + 8 + view.getUint32(at, true);
    if (end > bytes.length || end === at + 8) return bytes;
    view.setUint32(at + 4, crc32(bytes.subarray(at + 8, end)), true);
    at = end;
  }
  return bytes;
}

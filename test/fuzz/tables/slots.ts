/** Decoders of what lies in buckets. */
import fc from 'fast-check';
import { Buffer } from 'node:buffer';
import {
  bufferOf,
  readId,
  readName,
  readUint64,
  utf8Decode,
  viewOf,
  writeUint64,
} from '../../../src/format/bytes.ts';
import { commandOf, encodeCommand } from '../../../src/format/command.ts';
import { crc32 } from '../../../src/format/crc.ts';
import { readEntry, writeEntry, type EntryResult } from '../../../src/format/flight-entry.ts';
import { encodeHead, headBytes, parseFlight, parseHeader } from '../../../src/format/flight.ts';
import {
  encodeIdentity,
  parseIdentity,
  type BucketIdentity,
} from '../../../src/format/identity.ts';
import { encodePoison, parsePoison } from '../../../src/format/poison.ts';
import {
  ALIGN_BYTES,
  encodePreamble,
  parsePreamble,
  PREAMBLE_BYTES,
  type Preamble,
} from '../../../src/format/preamble.ts';
import { decodeRecords, type Command, type StoredRecord } from '../../../src/format/records.ts';
import { inspectSlotObject } from '../../../src/format/slot-object.ts';
import { readVarint, VARINT_FAULT, varintBytes, writeVarint } from '../../../src/format/varint.ts';
import {
  anyCount,
  anyEntries,
  anyFields,
  anyId,
  anyName,
  anyToken,
  anyUint32,
  encodeBatch,
  encodeFlight,
  encodePlain,
  FIELDS,
  golden,
  GOLDEN_BATCHES,
  GOLDEN_IDENTITY,
  GOLDEN_POISON,
  plainEntries,
  resealHeader,
  resealPreamble,
} from '../../unit/format/samples.ts';
import type { BytesDecoder } from '../decoder.ts';

const flight = golden('flight-v1');
const poison = golden('poison-v1');
const identity = golden('identity-v1');
const otherFlight = encodeFlight(
  { ...FIELDS, slot: 9, released: 0 },
  GOLDEN_BATCHES.slice(0, 1),
).object;
const otherPoison = encodePoison({
  ...GOLDEN_POISON,
  slot: 4,
  fencedBy: { star: 's', incarnation: 'i', epoch: -1 },
});
const otherIdentity = encodeIdentity({ ...GOLDEN_IDENTITY, bucketId: 'b', bucketIndex: 0 });

const isRefusal = (answer: unknown): boolean => !(answer as { ok: boolean }).ok;
const isCorrupt = (answer: unknown): boolean => (answer as { kind: string }).kind === 'corrupt';

function alignedFlight(): Uint8Array {
  const entries = plainEntries(2);
  const memory = Buffer.alloc(3 * ALIGN_BYTES);
  const start = encodeHead(memory, ALIGN_BYTES, FIELDS, entries, ALIGN_BYTES);
  return Uint8Array.from(memory.subarray(start, 2 * ALIGN_BYTES));
}

const goldenPreamble = preambleOf(flight);
const headerEnd = PREAMBLE_BYTES + goldenPreamble.headerBytes;
const goldenHeader = flight.slice(PREAMBLE_BYTES, headerEnd);
const firstEntry = goldenHeader.slice(0, 56);
const batches = GOLDEN_BATCHES.map(({ records }) => encodeBatch(records));

function preambleOf(object: Uint8Array): Preamble {
  const read = parsePreamble(object);
  if (!read.ok) throw new Error(read.reason);
  return read.preamble;
}

const anyFlight = fc
  .tuple(anyEntries, anyFields)
  .map(([entries, fields]) => encodePlain(entries, fields));
const anyPoison = fc
  .record({
    star: anyName,
    epoch: anyCount,
    slot: anyCount,
    nonce: anyId,
    fencedBy: fc.record({
      star: anyName,
      incarnation: anyName,
      epoch: fc.oneof(anyCount, fc.constant(-1)),
    }),
    atMillis: anyCount,
  })
  .map(encodePoison);
const anyIdentity = fc
  .record({
    bucketId: anyName,
    bucketIndex: fc.nat(0xffff),
    setId: anyName,
    metastoreId: anyName,
    createdAtMillis: anyCount,
  })
  .map(encodeIdentity);
const anyPart = fc.uint8Array({ maxLength: 40 });
/** How many, then the records. Headers without a name are commands, which have a table of their own. */
const anyRecords = fc
  .array(
    fc.record({
      timestamp: fc.constantFrom(0, 1_700_000_000_000),
      body: anyPart,
      headers: fc.array(fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 20 }), anyPart), {
        maxLength: 4,
      }),
    }),
    { minLength: 1, maxLength: 20 },
  )
  .map((records) => {
    const ascending = records.toSorted((a, b) => a.timestamp - b.timestamp);
    return Buffer.concat([Uint8Array.of(records.length, 0, 0, 0), encodeBatch(ascending)]);
  });
const anyCommand = {
  fence: anyToken.map((fencingToken) => encodeCommand({ command: 'fence', fencingToken }).body),
  trim: anyCount.map((trimPoint) => encodeCommand({ command: 'trim', trimPoint }).body),
};
const anyVarint = anyUint32.map((value) => {
  const bytes = new Uint8Array(varintBytes(value));
  writeVarint(bytes, 0, value);
  return bytes;
});

const ifSlot = (reseal: (object: Uint8Array) => Uint8Array) => (object: Uint8Array) =>
  object.length > headerEnd && Buffer.from(object).toString('latin1', 0, 8) === 'ASTRSLOT'
    ? reseal(object)
    : object;

export const SLOT_DECODERS: readonly BytesDecoder[] = [
  {
    kind: 'bytes',
    name: 'parsePreamble',
    file: 'src/format/preamble.ts',
    seeds: [flight, poison, otherFlight].map((object) => object.slice(0, PREAMBLE_BYTES)),
    sound: fc.oneof(anyFlight, anyPoison).map((object) => object.slice(0, PREAMBLE_BYTES)),
    decode: parsePreamble,
    refuses: isRefusal,
    codes: [],
    covered: 'all',
    reseal: (bytes) => (bytes.length < PREAMBLE_BYTES ? bytes : resealPreamble(bytes)),
    // More bytes may follow a preamble.
    reencode: ({ preamble }: { preamble: Preamble }) => {
      const bytes = new Uint8Array(PREAMBLE_BYTES);
      encodePreamble(bytes, 0, preamble);
      return bytes;
    },
  },
  {
    kind: 'bytes',
    name: 'parseHeader',
    file: 'src/format/flight.ts',
    seeds: [goldenHeader],
    decode: (bytes) => parseHeader(bytes, goldenPreamble),
    refuses: isRefusal,
    codes: [],
    covered: 'all',
  },
  {
    kind: 'bytes',
    name: 'parseHeader',
    variant: 'its checksum made true',
    file: 'src/format/flight.ts',
    seeds: [goldenHeader],
    decode: (bytes) =>
      parseHeader(bytes, {
        ...goldenPreamble,
        headerBytes: bytes.length,
        headerChecksum: crc32(bytes),
      }),
    refuses: isRefusal,
    codes: [],
    covered: { by: 'the checksum in the preamble, which this variant makes true' },
  },
  {
    kind: 'bytes',
    name: 'parseFlight',
    file: 'src/format/flight.ts',
    seeds: [flight, otherFlight],
    sound: anyFlight,
    decode: parseFlight,
    refuses: isRefusal,
    codes: [],
    covered: 'all',
    reseal: ifSlot(resealHeader),
  },
  {
    kind: 'bytes',
    name: 'parseFlight',
    variant: 'aligned',
    file: 'src/format/flight.ts',
    seeds: [alignedFlight()],
    decode: parseFlight,
    refuses: isRefusal,
    codes: [],
    covered: 'all',
    reseal: ifSlot(resealPreamble),
  },
  {
    kind: 'bytes',
    name: 'parsePoison',
    file: 'src/format/poison.ts',
    seeds: [poison, otherPoison],
    sound: anyPoison,
    decode: parsePoison,
    refuses: isRefusal,
    codes: [],
    covered: 'all',
    reseal: ifSlot(resealHeader),
    encode: ({ preamble, poison: header }: { preamble: Preamble; poison: typeof GOLDEN_POISON }) =>
      encodePoison({ ...preamble, ...header }),
  },
  {
    kind: 'bytes',
    name: 'parseIdentity',
    file: 'src/format/identity.ts',
    seeds: [identity, otherIdentity],
    sound: anyIdentity,
    decode: parseIdentity,
    refuses: isRefusal,
    codes: [],
    covered: 'all',
    reseal: (bytes) => {
      if (bytes.length > 4) {
        viewOf(bytes).setUint32(bytes.length - 4, crc32(bytes.subarray(0, -4)), true);
      }
      return bytes;
    },
    encode: ({ identity: read }: { identity: BucketIdentity }) => encodeIdentity(read),
  },
  {
    kind: 'bytes',
    name: 'inspectSlotObject',
    file: 'src/format/slot-object.ts',
    seeds: [flight],
    decode: (bytes) => inspectSlotObject(bytes, bytes.length, FIELDS),
    refuses: isCorrupt,
    codes: [],
    covered: 'all',
    reseal: ifSlot(resealHeader),
  },
  {
    kind: 'bytes',
    name: 'inspectSlotObject',
    variant: 'the first bytes of poison',
    file: 'src/format/slot-object.ts',
    seeds: [poison.slice(0, PREAMBLE_BYTES)],
    decode: (bytes) => inspectSlotObject(bytes, poison.length, GOLDEN_POISON),
    refuses: isCorrupt,
    codes: [],
    covered: 'all',
  },
  {
    kind: 'bytes',
    name: 'readEntry',
    file: 'src/format/flight-entry.ts',
    seeds: [firstEntry, goldenHeader.slice(56)],
    decode: (bytes) => readEntry(bufferOf(bytes), viewOf(bytes), 0, 0),
    refuses: isRefusal,
    codes: [],
    covered: { by: 'the checksum of the header' },
    reencode: (read: Extract<EntryResult, { ok: true }>) => {
      const bytes = new Uint8Array(headBytes([read.entry]) - PREAMBLE_BYTES);
      writeEntry(bytes, viewOf(bytes), 0, read.entry);
      return bytes;
    },
  },
  {
    kind: 'bytes',
    name: 'decodeRecords',
    file: 'src/format/records.ts',
    seeds: batches,
    decode: (bytes) => decodeRecords(bytes, 7, bytes.length > 30 ? 2 : 1),
    codes: ['CORRUPT_OBJECT'],
    covered: { by: 'the checksum of the batch in the entry, compared before' },
    encode: (records: StoredRecord[]) => encodeBatch(records),
  },
  {
    kind: 'bytes',
    name: 'decodeRecords',
    variant: 'any count',
    file: 'src/format/records.ts',
    seeds: batches.slice(0, 2).map((batch) => Buffer.concat([Uint8Array.of(2, 0, 0, 0), batch])),
    sound: anyRecords,
    decode: (bytes) =>
      bytes.length < 4 ? [] : decodeRecords(bytes.subarray(4), 0, viewOf(bytes).getUint32(0, true)),
    codes: ['CORRUPT_OBJECT'],
    covered: { by: 'the checksum of the header, which holds the count' },
  },
  ...(['fence', 'trim'] as const).map((value): BytesDecoder => ({
    kind: 'bytes',
    name: 'commandOf',
    variant: value,
    file: 'src/format/command.ts',
    seeds: value === 'fence' ? [Buffer.from('token'), Buffer.alloc(0)] : [Buffer.alloc(8, 1)],
    sound: anyCommand[value].map((body) => Uint8Array.from(body)),
    decode: (body) => commandOf({ headers: [[new Uint8Array(0), Buffer.from(value)]], body }),
    codes: ['INVALID_RECORD'],
    covered: { by: 'the checksum of the batch' },
    reencode: (command: Command) => encodeCommand(command).body,
  })),
  {
    kind: 'bytes',
    name: 'readVarint',
    file: 'src/format/varint.ts',
    seeds: [Uint8Array.of(5), Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f), Uint8Array.of(0x80, 1)],
    sound: anyVarint,
    decode: (bytes) => readVarint(bytes, 0, bytes.length),
    refuses: (answer) => answer === VARINT_FAULT,
    codes: [],
    covered: { by: 'the checksum of the batch' },
    reencode: (value: number) => {
      const bytes = new Uint8Array(varintBytes(value));
      writeVarint(bytes, 0, value);
      return bytes;
    },
  },
  {
    kind: 'bytes',
    name: 'readUint64',
    file: 'src/format/bytes.ts',
    seeds: [
      Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 0),
      Uint8Array.of(255, 255, 255, 255, 255, 255, 31, 0),
    ],
    sound: anyCount.map((value) => {
      const bytes = new Uint8Array(8);
      writeUint64(viewOf(bytes), 0, value);
      return bytes;
    }),
    decode: (bytes) => (bytes.length === 8 ? readUint64(viewOf(bytes), 0) : undefined),
    refuses: (answer) => answer === undefined,
    codes: [],
    covered: { by: 'the checksum of the object' },
    encode: (value: number) => {
      const bytes = new Uint8Array(8);
      writeUint64(viewOf(bytes), 0, value);
      return bytes;
    },
  },
  {
    kind: 'bytes',
    name: 'readName',
    file: 'src/format/bytes.ts',
    seeds: [Buffer.from('main'), Buffer.from('x'.repeat(63))],
    sound: anyName.map((name) => Buffer.from(name)),
    decode: (bytes) => readName(bytes, 0, bytes.length),
    refuses: (answer) => answer === undefined,
    codes: [],
    covered: { by: 'the checksum of the object' },
    encode: (name: string) => Buffer.from(name, 'latin1'),
  },
  {
    kind: 'bytes',
    name: 'readId',
    file: 'src/format/bytes.ts',
    seeds: [Buffer.alloc(16, 0xa0)],
    sound: fc.uint8Array({ minLength: 16, maxLength: 16 }),
    decode: (bytes) => readId(bufferOf(bytes), 0),
    codes: [],
    covered: { by: 'the checksum of the object; every 16 bytes are an identifier' },
  },
  {
    kind: 'bytes',
    name: 'utf8Decode',
    file: 'src/format/bytes.ts',
    seeds: [Buffer.from('gr\u00fc\u00dfe \ufeff\u{1f600}')],
    sound: fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
    decode: utf8Decode,
    refuses: (answer) => answer === undefined,
    codes: [],
    covered: { by: 'the checksum of the object' },
    encode: (text: string) => Buffer.from(text),
  },
];

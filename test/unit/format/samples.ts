/** Objects that the format tests share: fixed ones behind the golden files, and arbitrary ones. */
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { crc32 } from '../../../src/format/crc.ts';
import {
  encodeHead,
  FLIGHT_ENTRIES_MAX,
  headBytes,
  type FlightEntry,
  type FlightFields,
  type StateDelta,
} from '../../../src/format/flight.ts';
import type { BucketIdentity } from '../../../src/format/identity.ts';
import type { PoisonFields } from '../../../src/format/poison.ts';
import { encodeCommand, encodeRecord, recordEncodedBytes } from '../../../src/format/records.ts';
import type { Bytes, Headers } from '../../../src/format/records.ts';

export const NONCE = '00112233445566778899aabbccddeeff';
export const STREAM_A = '0a'.repeat(16);
export const STREAM_B = 'b0'.repeat(16);

export interface SampleRecord {
  readonly timestamp: number;
  readonly body: Bytes;
  readonly headers: Headers;
}

export interface SampleBatch {
  readonly streamId: string;
  readonly firstSeqNum: number;
  readonly records: readonly SampleRecord[];
  readonly delta?: StateDelta;
}

export interface SampleFlight {
  /** The whole object. */
  readonly object: Uint8Array;
  readonly entries: readonly FlightEntry[];
}

/** Encodes batches the way a writer does: bodies first, then the head in front of them. */
export function encodeFlight(
  fields: FlightFields,
  batches: readonly SampleBatch[],
  room = 200_000,
): SampleFlight {
  const bodies = batches.map(({ records }) => encodeBatch(records));
  const bodyBytes = bodies.reduce((sum, { length }) => sum + length, 0);
  const memory = new Uint8Array(room + bodyBytes);
  const entries: FlightEntry[] = [];
  let offset = 0;
  batches.forEach((batch, index) => {
    const body = bodies[index]!;
    memory.set(body, room + offset);
    entries.push({
      streamId: batch.streamId,
      firstSeqNum: batch.firstSeqNum,
      count: batch.records.length,
      offset,
      length: body.length,
      firstTimestamp: batch.records[0]!.timestamp,
      lastTimestamp: batch.records.at(-1)!.timestamp,
      checksum: crc32(body),
      ...(batch.delta === undefined ? undefined : { delta: batch.delta }),
    });
    offset += body.length;
  });
  const start = encodeHead(memory, room, fields, entries);
  return { object: memory.slice(start), entries };
}

export function encodeBatch(records: readonly SampleRecord[]): Uint8Array {
  const sizes = records.map(({ body, headers }) => recordEncodedBytes(body, headers));
  const bytes = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const { timestamp, body, headers } of records) {
    at = encodeRecord(bytes, view, at, timestamp, body, headers);
  }
  return bytes;
}

/** Entries of one-byte records over a body of that many zero bytes, for tests that need no records. */
export function plainEntries(count: number, delta?: StateDelta): FlightEntry[] {
  return Array.from({ length: count }, (_, index) => ({
    streamId: index.toString(16).padStart(32, '0'),
    firstSeqNum: index,
    count: 1,
    offset: index,
    length: 1,
    firstTimestamp: 5,
    lastTimestamp: 5,
    checksum: crc32(new Uint8Array(1)),
    ...(delta === undefined ? undefined : { delta }),
  }));
}

export function encodePlain(
  entries: readonly FlightEntry[],
  fields: FlightFields = FIELDS,
): Uint8Array {
  const bodyStart = headBytes(entries);
  const bodyBytes = entries.reduce((sum, { length }) => sum + length, 0);
  const memory = new Uint8Array(bodyStart + bodyBytes);
  encodeHead(memory, bodyStart, fields, entries);
  return memory;
}

/** Repairs the preamble's own checksum after a test has changed a field, so that deeper checks speak. */
export function resealPreamble(object: Uint8Array): Uint8Array {
  const view = new DataView(object.buffer, object.byteOffset, object.byteLength);
  view.setUint32(156, crc32(object.subarray(0, 156)), true);
  return object;
}

/** The same for a header that a test has changed. */
export function resealHeader(object: Uint8Array): Uint8Array {
  const view = new DataView(object.buffer, object.byteOffset, object.byteLength);
  const headEnd = 160 + view.getUint32(120, true);
  view.setUint32(124, crc32(object.subarray(160, headEnd)), true);
  return resealPreamble(object);
}

/** A copy with some bytes replaced from `offset` on. */
export function patched(object: Uint8Array, offset: number, bytes: readonly number[]): Uint8Array {
  const copy = object.slice();
  copy.set(bytes, offset);
  return copy;
}

/** Equality of bytes: what `toEqual` answers too, but a thousand times later. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** Every copy of `object` in which one bit differs. */
export function* bitFlips(object: Uint8Array): Generator<Uint8Array> {
  for (let bit = 0; bit < object.length * 8; bit++) {
    const copy = object.slice();
    copy[bit >> 3]! ^= 1 << (bit & 7);
    yield copy;
  }
}

/** A golden file: hexadecimal text, blanks and line ends between the bytes. */
export function golden(name: string): Uint8Array {
  const file = new URL(`../../fixtures/format/${name}.hex`, import.meta.url);
  return Uint8Array.from(Buffer.from(readFileSync(file, 'latin1').replace(/\s/g, ''), 'hex'));
}

export const FIELDS: FlightFields = {
  star: 'main',
  epoch: 7,
  slot: 0x1_0000_0002,
  nonce: NONCE,
  released: 0x1_0000_0001,
};

const fence = encodeCommand({ command: 'fence', fencingToken: 'tök-1' });
const trim = encodeCommand({ command: 'trim', trimPoint: 40 });

export const GOLDEN_BATCHES: readonly SampleBatch[] = [
  {
    streamId: STREAM_A,
    firstSeqNum: 41,
    records: [
      { timestamp: 1_700_000_000_000, body: 'hello', headers: [] },
      { timestamp: 1_700_000_000_001, body: Uint8Array.of(0, 255), headers: [['kind', 'bytes']] },
    ],
  },
  {
    streamId: STREAM_B,
    firstSeqNum: 0,
    records: [
      { timestamp: 1_700_000_000_002, ...fence },
      { timestamp: 1_700_000_000_003, ...trim },
    ],
    delta: { fencingToken: 'tök-1', trimPoint: 40 },
  },
  {
    streamId: STREAM_A,
    firstSeqNum: 43,
    records: [
      { timestamp: 1_700_000_000_004, ...encodeCommand({ command: 'fence', fencingToken: '' }) },
    ],
    delta: { fencingToken: '' },
  },
];

export const GOLDEN_POISON: PoisonFields = {
  star: 'main',
  epoch: 7,
  slot: 0x1_0000_0003,
  nonce: NONCE,
  fencedBy: { star: 'other', incarnation: '9f86d081884c7d65', epoch: 8 },
  atMillis: 1_700_000_000_005,
};

export const GOLDEN_IDENTITY: BucketIdentity = {
  bucketId: 'bucket-2f1c',
  bucketIndex: 2,
  setId: 'set-77',
  metastoreId: 'meta-01',
  createdAtMillis: 1_700_000_000_006,
};

const count = fc.nat(Number.MAX_SAFE_INTEGER - 2_000_000);
export const anyCount = fc.oneof(fc.nat(1_000), count, fc.constant(Number.MAX_SAFE_INTEGER));
export const anyUint32 = fc.integer({ min: 0, max: 0xffff_ffff });
export const anyId = fc
  .uint8Array({ minLength: 16, maxLength: 16 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
export const anyName = fc
  .array(
    fc
      .integer({ min: 0x21, max: 0x7e })
      .map((unit) => (unit === 0x2f ? '.' : String.fromCharCode(unit))),
    {
      minLength: 1,
      maxLength: 63,
    },
  )
  .map((units) => units.join(''));
/** Text with every kind of character, lone surrogates included. */
export const anyText = fc.string({
  unit: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.constantFrom('\ud800', '\udfff', '\ufeff', 'a'),
  ),
});
export const anyToken = fc
  .string({ unit: 'binary', maxLength: 36 })
  .filter((token) => Buffer.byteLength(token) <= 36);
export const anyDelta: fc.Arbitrary<StateDelta> = fc.oneof(
  fc.record({ fencingToken: anyToken }),
  fc.record({ trimPoint: anyCount }),
  fc.record({ fencingToken: anyToken, trimPoint: anyCount }),
);
export const anyFields: fc.Arbitrary<FlightFields> = fc
  .record({ star: anyName, epoch: anyCount, slot: anyCount, nonce: anyId, lag: fc.nat(64) })
  .map(({ lag, ...fields }) => ({ ...fields, released: Math.max(0, fields.slot - lag) }));

/** Entries that tile a body of zero bytes; every stream once or more, numbers ascending. */
export const anyEntries: fc.Arbitrary<FlightEntry[]> = fc
  .array(
    fc.record(
      {
        streamId: fc.oneof(anyId, fc.constantFrom(STREAM_A, STREAM_B)),
        gap: fc.nat(1_000),
        count: fc.integer({ min: 1, max: 1_000_000 }),
        length: fc.integer({ min: 1, max: 300 }),
        firstTimestamp: count,
        duration: fc.nat(1_000),
        delta: anyDelta,
      },
      { requiredKeys: ['streamId', 'gap', 'count', 'length', 'firstTimestamp', 'duration'] },
    ),
    { minLength: 1, maxLength: Math.min(40, FLIGHT_ENTRIES_MAX) },
  )
  .map((parts) => {
    const ends = new Map<string, number>();
    let offset = 0;
    return parts.map(({ gap, duration, ...part }) => {
      const firstSeqNum = (ends.get(part.streamId) ?? 0) + gap;
      ends.set(part.streamId, firstSeqNum + part.count);
      const entry = {
        ...part,
        firstSeqNum,
        offset,
        lastTimestamp: part.firstTimestamp + duration,
        checksum: crc32(new Uint8Array(part.length)),
      };
      offset += part.length;
      return entry;
    });
  });

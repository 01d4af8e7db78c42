/** What one record costs to encode, to measure and to read, and one flight to seal. */
import { bench, do_not_optimize, group } from 'mitata';
import { crc32, crc32Combine } from '../src/format/crc.ts';
import {
  encodeHead,
  HEAD_ROOM_BYTES,
  parseFlight,
  parseHeader,
  type FlightEntry,
} from '../src/format/flight.ts';
import { parsePreamble, PREAMBLE_BYTES } from '../src/format/preamble.ts';
import {
  decodeRecords,
  encodeRecord,
  recordEncodedBytes,
  type Bytes,
  type Headers,
} from '../src/format/records.ts';
import { benchOptions, runBenches } from './_harness.ts';

const { smoke } = benchOptions();
const ARENA_BYTES = smoke ? 1 << 18 : 1 << 20;
const TIMESTAMP = 1_700_000_000_000;
const NO_HEADERS: Headers = [];
const HEADERS: Headers = [
  [Buffer.from('content-type'), Buffer.from('application/json')],
  [Buffer.from('id'), Buffer.from('0123456789abcdef')],
];

for (const memory of ['own memory', 'shared memory'] as const) {
  const shared = memory === 'shared memory';
  const arena = shared ? new SharedArrayBuffer(ARENA_BYTES) : new ArrayBuffer(ARENA_BYTES);
  group(`encode one record into ${memory}`, () => {
    declareFloor(arena, 100);
    declareEncode(arena, '100 B, bytes', new Uint8Array(100));
    declareEncode(arena, '1 KiB, bytes', new Uint8Array(1024));
    declareEncode(arena, '100 B, bytes, 2 headers', new Uint8Array(100), HEADERS);
    declareEncode(arena, '100 B, ASCII text', 'abcdefghij'.repeat(10));
    declareEncode(arena, '1 KiB, ASCII text', 'abcdefghijklmnop'.repeat(64));
    declareEncode(arena, '100 B, text with umlauts', 'äbcdefgh'.repeat(11));
  });
}

function declareEncode(
  arena: ArrayBuffer | SharedArrayBuffer,
  name: string,
  body: Bytes,
  headers = NO_HEADERS,
): void {
  const target = new Uint8Array(arena as ArrayBuffer);
  const view = new DataView(arena);
  const size = recordEncodedBytes(body, headers);
  let at = 0;
  bench(name, () => {
    if (at + size > ARENA_BYTES) at = 0;
    at = encodeRecord(target, view, at, TIMESTAMP, body, headers);
    do_not_optimize(at);
  });
}

/** The least that any framing does: four numbers and the body, no check. */
function declareFloor(arena: ArrayBuffer | SharedArrayBuffer, length: number): void {
  const target = new Uint8Array(arena as ArrayBuffer);
  const view = new DataView(arena);
  const body = new Uint8Array(length);
  let at = 0;
  bench(`${length} B, floor: bare framing`, () => {
    if (at + length + 13 > ARENA_BYTES) at = 0;
    view.setUint32(at, 1, true);
    view.setUint32(at + 4, 2, true);
    view.setUint32(at + 8, length, true);
    view.setUint8(at + 12, 0);
    target.set(body, at + 13);
    at += length + 13;
    do_not_optimize(at);
  });
}

group('size of one record', () => {
  const bytes = new Uint8Array(100);
  const text = 'abcdefghij'.repeat(10);
  bench('100 B, bytes', () => do_not_optimize(recordEncodedBytes(bytes, NO_HEADERS)));
  bench('100 B, bytes, 2 headers', () => do_not_optimize(recordEncodedBytes(bytes, HEADERS)));
  bench('100 B, text', () => do_not_optimize(recordEncodedBytes(text, NO_HEADERS)));
});

group('decode 1,000 records', () => {
  declareDecode('100 B', new Uint8Array(100), NO_HEADERS);
  declareDecode('100 B, 2 headers', new Uint8Array(100), HEADERS);
});

function declareDecode(name: string, body: Bytes, headers: Headers): void {
  const bytes = new Uint8Array(1_000 * recordEncodedBytes(body, headers));
  const target = new DataView(bytes.buffer);
  let end = 0;
  for (let i = 0; i < 1_000; i++) {
    end = encodeRecord(bytes, target, end, TIMESTAMP, body, headers);
  }
  bench(name, () => do_not_optimize(decodeRecords(bytes, 0, 1_000)));
}

for (const count of [1, 64, 1_024]) {
  const { memory, entries } = flightOf(count, 256);
  const bodyBytes = count * 256;
  const fields = { star: 'main', epoch: 1, slot: 9, nonce: '0f'.repeat(16), released: 8 };
  const start = encodeHead(memory, HEAD_ROOM_BYTES, fields, entries);
  const object = memory.subarray(start, HEAD_ROOM_BYTES + bodyBytes);
  const read = parsePreamble(object);
  if (!read.ok) throw new Error(read.reason);
  const header = object.subarray(PREAMBLE_BYTES, PREAMBLE_BYTES + read.preamble.headerBytes);
  group(`head of a flight of ${count} entries of 256 B`, () => {
    bench('encodeHead', () =>
      do_not_optimize(encodeHead(memory, HEAD_ROOM_BYTES, fields, entries)),
    );
    bench('parsePreamble', () => do_not_optimize(parsePreamble(object)));
    bench('parseHeader', () => do_not_optimize(parseHeader(header, read.preamble)));
    bench('parseFlight', () => do_not_optimize(parseFlight(object)));
  });
}

group('checksum of two stretches from their own', () => {
  bench('crc32Combine, 256 B', () => do_not_optimize(crc32Combine(0xcbf43926, 0x12345678, 256)));
  bench('crc32Combine, 1 MB', () =>
    do_not_optimize(crc32Combine(0xcbf43926, 0x12345678, 1_000_000)),
  );
});

function flightOf(count: number, length: number): { memory: Uint8Array; entries: FlightEntry[] } {
  const memory = new Uint8Array(HEAD_ROOM_BYTES + count * length);
  const checksum = crc32(new Uint8Array(length));
  const entries = Array.from({ length: count }, (_, index) => ({
    streamId: index.toString(16).padStart(32, '0'),
    firstSeqNum: index,
    count: 2,
    offset: index * length,
    length,
    firstTimestamp: TIMESTAMP,
    lastTimestamp: TIMESTAMP,
    checksum,
  }));
  return { memory, entries };
}

await runBenches();

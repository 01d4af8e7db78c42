import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32 } from '../../../src/format/crc.ts';
import {
  DEFAULT_HEAD_READ_BYTES,
  encodeHead,
  FLIGHT_ENTRIES_MAX,
  HEAD_ROOM_BYTES,
  headBytes,
  parseFlight,
  parseHeader,
  type FlightEntry,
} from '../../../src/format/flight.ts';
import {
  ALIGN_BYTES,
  headLengths,
  parsePreamble,
  PREAMBLE_BYTES,
} from '../../../src/format/preamble.ts';
import {
  anyEntries,
  anyFields,
  encodePlain,
  FIELDS,
  golden,
  patched,
  plainEntries,
  resealHeader,
  resealPreamble,
  sameBytes,
  STREAM_A,
} from './samples.ts';

const flight = golden('flight-v1');

/** Over memory that held something else before. */
function encodeAligned(entries: readonly FlightEntry[], fields = FIELDS): Uint8Array {
  const bodyBytes = entries.reduce((sum, { length }) => sum + length, 0);
  const objectEnd = HEAD_ROOM_BYTES + Math.ceil(bodyBytes / ALIGN_BYTES) * ALIGN_BYTES;
  const memory = new Uint8Array(objectEnd + 9).fill(0xee);
  memory.fill(0, HEAD_ROOM_BYTES, HEAD_ROOM_BYTES + bodyBytes);
  const start = encodeHead(memory, HEAD_ROOM_BYTES, fields, entries, ALIGN_BYTES);
  expect(memory.subarray(objectEnd)).toEqual(new Uint8Array(9).fill(0xee));
  return memory.subarray(start, objectEnd);
}

function reasonOf(object: Uint8Array): string | undefined {
  const read = parseFlight(object);
  return read.ok ? undefined : read.reason;
}

describe('encodeHead and parseFlight', () => {
  it('round-trip', () => {
    fc.assert(
      fc.property(anyFields, anyEntries, (fields, entries) => {
        const read = parseFlight(encodePlain(entries, fields));
        expect(read).toMatchObject({ ok: true, entries, bodyStart: headBytes(entries) });
        if (read.ok) expect(read.preamble).toMatchObject(fields);
      }),
    );
  });

  it('end the head where the body starts and touch no body byte', () => {
    const body = Buffer.from('body of one batch');
    const memory = new Uint8Array(HEAD_ROOM_BYTES + body.length + 5).fill(0xee);
    memory.set(body, HEAD_ROOM_BYTES);
    const entry = { ...plainEntries(1)[0]!, length: body.length, checksum: crc32(body) };
    const start = encodeHead(memory, HEAD_ROOM_BYTES, FIELDS, [entry]);
    expect(start).toBe(HEAD_ROOM_BYTES - PREAMBLE_BYTES - 56);
    const end = HEAD_ROOM_BYTES + body.length;
    expect(parseFlight(memory.subarray(start, end))).toMatchObject({ ok: true, entries: [entry] });
    expect(memory.subarray(0, start).every((byte) => byte === 0xee)).toBe(true);
    expect(memory.subarray(end)).toEqual(new Uint8Array(5).fill(0xee));
  });

  it('combine the checksum of the body from those of the entries', () => {
    fc.assert(
      fc.property(anyEntries, (entries) => {
        const read = parsePreamble(encodePlain(entries));
        const bodyBytes = entries.reduce((sum, { length }) => sum + length, 0);
        if (!read.ok) throw new Error(read.reason);
        expect(read.preamble.bodyChecksum).toBe(crc32(new Uint8Array(bodyBytes)));
      }),
    );
  });

  it('write into shared memory', () => {
    const entries = plainEntries(3);
    const memory = new Uint8Array(new SharedArrayBuffer(10_000), 100, 8_000);
    const start = encodeHead(memory, 7_000, FIELDS, entries);
    expect(parseFlight(memory.subarray(start, 7_003))).toMatchObject({ ok: true, entries });
  });

  it('take at most HEAD_ROOM_BYTES, less than a block below it when every entry is as large as it gets', () => {
    const delta = { fencingToken: '\u20ac'.repeat(12), trimPoint: Number.MAX_SAFE_INTEGER };
    const largest = plainEntries(FLIGHT_ENTRIES_MAX, delta);
    expect(Math.ceil(headBytes(largest) / ALIGN_BYTES) * ALIGN_BYTES).toBe(HEAD_ROOM_BYTES);
    expect(parseFlight(encodePlain(largest))).toMatchObject({ ok: true, entries: largest });
  });

  it('fit 70 plain entries into a first read', () => {
    expect(headBytes(plainEntries(70))).toBeLessThanOrEqual(DEFAULT_HEAD_READ_BYTES);
    expect(headBytes(plainEntries(71))).toBeGreaterThan(DEFAULT_HEAD_READ_BYTES);
  });

  it('fill head and body up to whole blocks of an aligned object', () => {
    fc.assert(
      fc.property(anyFields, anyEntries, (fields, entries) => {
        const object = encodeAligned(entries, fields);
        expect(object.length % ALIGN_BYTES).toBe(0);
        const read = parseFlight(object);
        expect(read).toMatchObject({ ok: true, entries });
        if (!read.ok) return;
        expect(read.bodyStart % ALIGN_BYTES).toBe(0);
        expect(read.bodyStart - headBytes(entries)).toBeLessThan(ALIGN_BYTES);
        expect(headLengths(read.preamble)).toEqual({
          headBytes: read.bodyStart,
          objectBytes: object.length,
        });
      }),
    );
  });

  it('refuse an aligned object with a byte in its padding, or without its last block', () => {
    const entries = plainEntries(2);
    const object = encodeAligned(entries);
    for (const at of [headBytes(entries), ALIGN_BYTES - 1, ALIGN_BYTES + 2, object.length - 1]) {
      expect(reasonOf(patched(object, at, [1]))).toBe('padding is not zero');
    }
    expect(reasonOf(object.subarray(0, -1))).toBe('object length differs');
    expect(reasonOf(object.subarray(0, ALIGN_BYTES + 2))).toBe('object length differs');
  });

  it('do not begin an aligned body within a block', () => {
    const memory = new Uint8Array(4 * ALIGN_BYTES);
    expect(() => encodeHead(memory, 5_000, FIELDS, plainEntries(1), ALIGN_BYTES)).toThrow('block');
  });

  it('leave out a delta that changes nothing', () => {
    const [entry] = plainEntries(1);
    const read = parseFlight(encodePlain([{ ...entry!, delta: {} }]));
    expect(read).toMatchObject({ ok: true, entries: [entry] });
    if (read.ok) expect(read.entries[0]).not.toHaveProperty('delta');
  });
});

describe('encodeHead', () => {
  const [entry] = plainEntries(1) as [FlightEntry];
  const second = { ...entry, streamId: STREAM_A, offset: 1 };

  it.each<[string, readonly FlightEntry[]]>([
    ['no entry', []],
    ['too many entries', plainEntries(FLIGHT_ENTRIES_MAX + 1)],
    ['a gap before the first entry', [{ ...entry, offset: 1 }]],
    ['a gap between entries', [entry, { ...second, offset: 2 }]],
    ['an overlap', [entry, { ...second, offset: 0 }]],
    ['sequence numbers that go back', [entry, { ...entry, offset: 1 }]],
    ['no record', [{ ...entry, count: 0 }]],
    ['too many records', [{ ...entry, count: 1_000_001 }]],
    ['half a record', [{ ...entry, count: 1.5 }]],
    ['an empty batch', [{ ...entry, length: 0 }]],
    ['a batch above 32 bits', [{ ...entry, length: 2 ** 32 }]],
    ['a negative sequence number', [{ ...entry, firstSeqNum: -1 }]],
    ['a tail above the safe integers', [{ ...entry, firstSeqNum: Number.MAX_SAFE_INTEGER }]],
    ['timestamps that go back', [{ ...entry, firstTimestamp: 6 }]],
    ['a fractional timestamp', [{ ...entry, firstTimestamp: 0.5 }]],
    ['a checksum that is not unsigned', [{ ...entry, checksum: -1 }]],
    ['an identifier in upper case', [{ ...entry, streamId: 'A'.repeat(32) }]],
    ['an identifier that is too long', [{ ...entry, streamId: '0'.repeat(33) }]],
    ['a token of 37 bytes', [{ ...entry, delta: { fencingToken: 'a'.repeat(37) } }]],
    ['a token with a lone surrogate', [{ ...entry, delta: { fencingToken: '\ud800' } }]],
    ['an unsafe trim point', [{ ...entry, delta: { trimPoint: 2 ** 53 } }]],
    ['a body behind the memory', [{ ...entry, length: 100_000 }]],
  ])('refuses %s', (_, entries) => {
    const memory = new Uint8Array(150_000);
    expect(() => encodeHead(memory, HEAD_ROOM_BYTES, FIELDS, entries)).toThrow();
  });

  it('accepts numbers of one stream that skip', () => {
    const later = { ...entry, firstSeqNum: 9, offset: 1 };
    expect(parseFlight(encodePlain([entry, later]))).toMatchObject({ ok: true });
  });

  it('refuses a body start without room for the head', () => {
    const memory = new Uint8Array(1_000);
    expect(() => encodeHead(memory, headBytes([entry]) - 1, FIELDS, [entry])).toThrow('no room');
  });
});

describe('parseFlight', () => {
  const first = PREAMBLE_BYTES;
  const second = PREAMBLE_BYTES + 56;

  it.each<[string, number, number[], string]>([
    ['a record count of 0', first + 24, [0], 'record count'],
    ['a record count above its bound', first + 24, [0x41, 0x42, 0x0f], 'record count'],
    ['an unsafe sequence number', first + 22, [0x20], 'number is not a safe integer'],
    ['an unsafe timestamp', first + 39, [1], 'number is not a safe integer'],
    ['timestamps that go back', first + 32, [2], 'timestamps go back'],
    ['an empty batch', first + 28, [0], 'length'],
    ['a shorter batch', first + 28, [0x2b], 'entries do not cover the body'],
    ['a longer batch', first + 28, [0x2d], 'entries do not cover the body'],
    ['an enormous batch', first + 28, [0xff, 0xff, 0xff, 0xff], 'body length'],
    ['another batch checksum', first + 48, [0], 'entry checksums do not make up the body'],
    ['a byte in the padding', first + 54, [1], 'padding is not zero'],
    ['a token length without a token', first + 53, [1], 'padding is not zero'],
    ['an unknown flag', second + 52, [7], 'unknown entry flag'],
    ['a token above its bound', second + 53, [37], 'fencing token is too long'],
    ['a token that is not UTF-8', second + 56 + 1, [0xff], 'fencing token is not UTF-8'],
    ['an unsafe trim point', second + 56 + 6 + 6, [0xff], 'number is not a safe integer'],
    ['numbers of a stream that go back', 160 + 56 + 70 + 16, [42], 'sequence numbers go back'],
    ['a last entry that is cut off', 160 + 56 + 70 + 52, [2], 'header ends within an entry'],
  ])('refuses %s even with fitting checksums', (_, offset, values, reason) => {
    expect(reasonOf(resealHeader(patched(flight, offset, values)))).toBe(reason);
  });

  it('refuses a header that goes on behind its entries', () => {
    // The header takes one byte from the body, so that all lengths still add up.
    const object = resealHeader(patched(patched(flight, 120, [0xb7]), 128, [0x74]));
    expect(reasonOf(object)).toBe('header goes on behind its entries');
  });

  it('refuses entry counts that do not match the header', () => {
    expect(reasonOf(resealPreamble(patched(flight, 12, [2])))).toBe(
      'header goes on behind its entries',
    );
    const one = encodePlain(plainEntries(2, { trimPoint: 1 }));
    expect(reasonOf(resealPreamble(patched(one, 12, [1])))).toBe('header length');
  });

  it('refuses poison', () => {
    expect(reasonOf(golden('poison-v1'))).toBe('not a flight');
  });

  it('answers canonical entries for any damage that keeps the checksums', () => {
    const end = headLengthsOf(flight).headBytes;
    const damage = fc.record({
      offset: fc.integer({ min: PREAMBLE_BYTES, max: end - 1 }),
      noise: fc.uint8Array({ minLength: 1, maxLength: 24 }),
    });
    fc.assert(
      fc.property(damage, ({ offset, noise }) => {
        const values = [...noise].slice(0, end - offset);
        const object = resealHeader(patched(flight, offset, values));
        const read = parseFlight(object);
        if (!read.ok) return;
        const memory = object.slice();
        memory.fill(0, 0, end);
        expect(encodeHead(memory, end, FIELDS, read.entries)).toBe(0);
        expect(sameBytes(memory, object)).toBe(true);
      }),
      { numRuns: 3_000 },
    );
  });

  it('refuses random bytes behind a sound start', () => {
    fc.assert(
      fc.property(fc.nat(flight.length), fc.uint8Array({ maxLength: 300 }), (keep, noise) => {
        const object = Buffer.concat([flight.subarray(0, keep), noise]);
        expect(parseFlight(object).ok).toBe(object.equals(flight));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('parseHeader', () => {
  it('takes exactly the header, not a byte less or more', () => {
    const read = parsePreamble(flight);
    if (!read.ok) throw new Error(read.reason);
    const { headBytes: end } = headLengths(read.preamble);
    expect(parseHeader(flight.subarray(PREAMBLE_BYTES, end), read.preamble)).toMatchObject({
      ok: true,
    });
    const reason = 'header length differs';
    const short = flight.subarray(PREAMBLE_BYTES, end - 1);
    const long = flight.subarray(PREAMBLE_BYTES, end + 1);
    expect(parseHeader(short, read.preamble)).toEqual({ ok: false, reason });
    expect(parseHeader(long, read.preamble)).toEqual({ ok: false, reason });
  });

  it('refuses the header of poison', () => {
    const poison = golden('poison-v1');
    const read = parsePreamble(poison);
    if (!read.ok) throw new Error(read.reason);
    const header = poison.subarray(PREAMBLE_BYTES);
    expect(parseHeader(header, read.preamble)).toEqual({ ok: false, reason: 'not a flight' });
  });
});

function headLengthsOf(object: Uint8Array): { headBytes: number } {
  const read = parsePreamble(object);
  if (!read.ok) throw new Error(read.reason);
  return headLengths(read.preamble);
}

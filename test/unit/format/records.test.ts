import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import {
  decodeRecords,
  encodeRecord,
  meteredBytes,
  recordEncodedBytes,
  RECORD_BYTES_MIN,
  type Bytes,
  type Headers,
  type StoredRecord,
} from '../../../src/format/records.ts';
import { anyText, encodeBatch, patched, sameBytes, type SampleRecord } from './samples.ts';

const anyBytes: fc.Arbitrary<Bytes> = fc.oneof(
  anyText,
  fc.uint8Array({ maxLength: 200 }),
  fc.nat(400).map((length) => 'é'.repeat(length)),
);
const anyHeaders: fc.Arbitrary<Headers> = fc.array(fc.tuple(anyBytes, anyBytes), { maxLength: 5 });
const anyRecord: fc.Arbitrary<SampleRecord> = fc.record({
  timestamp: fc.oneof(fc.maxSafeNat(), fc.constant(Number.MAX_SAFE_INTEGER)),
  body: anyBytes,
  headers: fc.oneof(fc.constant([]), anyHeaders),
});
const anyBatch = fc.array(anyRecord, { minLength: 1, maxLength: 8 });

/** The bytes that a value stands for, in a form that compares and prints well. */
function hexOf(bytes: Bytes): string {
  return Buffer.from(typeof bytes === 'string' ? new TextEncoder().encode(bytes) : bytes).toString(
    'hex',
  );
}

function readable({ headers, body, ...rest }: StoredRecord): unknown {
  const pairs = headers.map(([name, value]) => [hexOf(name), hexOf(value)]);
  return { ...rest, body: hexOf(body), headers: pairs };
}

function codeOf(run: () => unknown): string | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return EngineError.is(error) ? error.code : String(error);
  }
}

describe('encodeRecord and decodeRecords', () => {
  it('round-trip bytes and text of every kind', () => {
    fc.assert(
      fc.property(anyBatch, fc.maxSafeNat(), (batch, seed) => {
        const firstSeqNum = Math.floor(seed / 2);
        const records = decodeRecords(encodeBatch(batch), firstSeqNum, batch.length);
        const expected = batch.map(({ timestamp, body, headers }, index) => ({
          seqNum: firstSeqNum + index,
          timestamp,
          body: hexOf(body),
          headers: headers.map(([name, value]) => [hexOf(name), hexOf(value)]),
        }));
        expect(records.map(readable)).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  it('take exactly the bytes that recordEncodedBytes announces, in Buffers and in plain views', () => {
    fc.assert(
      fc.property(anyRecord, fc.nat(40), (record, offset) => {
        const { timestamp, body, headers } = record;
        const size = recordEncodedBytes(body, headers);
        // Ends with the record: the writer near the end of the memory is another one.
        for (const spare of [0, 4_000]) {
          const plain = new Uint8Array(offset + size + spare).fill(0xee);
          for (const target of [plain, Buffer.from(plain)]) {
            const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
            const end = encodeRecord(target, view, offset, timestamp, body, headers);
            expect(end).toBe(offset + size);
            expect(target.subarray(0, offset).every((byte) => byte === 0xee)).toBe(true);
            expect(target.subarray(end).every((byte) => byte === 0xee)).toBe(true);
            expect(decodeRecords(target.subarray(offset, end), 0, 1)).toHaveLength(1);
          }
        }
      }),
    );
  });

  it('write into shared memory at an offset of it', () => {
    const target = new Uint8Array(new SharedArrayBuffer(100), 13, 60);
    const view = new DataView(target.buffer, 13, 60);
    const end = encodeRecord(target, view, 2, 5, 'größe', [['a', Uint8Array.of(1)]]);
    const [record] = decodeRecords(target.subarray(2, end), 9, 1);
    expect(record).toMatchObject({ seqNum: 9, timestamp: 5 });
    expect(Buffer.from(record!.body).toString()).toBe('größe');
  });

  it.each([191, 192, 5_000])(
    'write a body of %i bytes into shared memory, up to its end',
    (length) => {
      const body = Uint8Array.from({ length }, (_, index) => index * 7);
      const size = recordEncodedBytes(body, []);
      const target = new Uint8Array(new SharedArrayBuffer(size + 20), 1, size + 9);
      const view = new DataView(target.buffer, 1, size + 9);
      expect(encodeRecord(target, view, 9, 5, body, [])).toBe(target.length);
      expect(sameBytes(decodeRecords(target.subarray(9), 0, 1)[0]!.body, body)).toBe(true);
      expect(() => encodeRecord(target, view, 10, 5, body, [])).toThrow();
      expect([...new Uint8Array(target.buffer, size + 10)]).toEqual(new Array(10).fill(0));
    },
  );

  it('answer views over the given bytes, plain ones even over a Buffer', () => {
    const bytes = Buffer.from(encodeBatch([{ timestamp: 1, body: 'abc', headers: [['n', 'v']] }]));
    const [record] = decodeRecords(bytes, 0, 1);
    expect(record!.body.buffer).toBe(bytes.buffer);
    expect(Object.getPrototypeOf(record!.body)).toBe(Uint8Array.prototype);
    bytes.fill(0x7a, bytes.length - 3);
    expect(Buffer.from(record!.body).toString()).toBe('zzz');
  });
});

describe('encodeRecord', () => {
  const target = new Uint8Array(40);
  const view = new DataView(target.buffer);
  const headers: Headers = [['name', 'value']];

  it.each([-1, 0.5, 2 ** 53, Number.NaN])('refuses the timestamp %d', (timestamp) => {
    expect(() => encodeRecord(target, view, 0, timestamp, '', [])).toThrow('timestamp');
  });

  it.each<[string, number, Bytes, Headers]>([
    ['bytes', 0, new Uint8Array(28), []],
    ['text', 0, 'a'.repeat(28), []],
    ['text of three bytes a character', 0, '€'.repeat(10), []],
    ['an empty body behind the end', 28, '', []],
    ['empty bytes behind the end', 28, new Uint8Array(0), []],
    ['headers', 20, '', headers],
    ['headers of bytes', 20, new Uint8Array(0), [[new Uint8Array(4), new Uint8Array(9)]]],
    ['many empty headers', 0, '', Array<['', '']>(200).fill(['', ''])],
    ['a start near the end', 38, '', []],
    ['a start behind the end', 41, '', []],
  ])('throws rather than cut off: %s', (_, offset, body, some) => {
    expect(() => encodeRecord(target, view, offset, 1, body, some)).toThrow();
  });

  it('fills the memory to its last byte', () => {
    expect(encodeRecord(target, view, 0, 1, '€'.repeat(9), [])).toBe(40);
    expect(encodeRecord(target, view, 40 - RECORD_BYTES_MIN, 1, '', [])).toBe(40);
  });
});

describe('recordEncodedBytes and meteredBytes', () => {
  it('count text by its UTF-8 bytes', () => {
    expect(recordEncodedBytes('', [])).toBe(RECORD_BYTES_MIN);
    expect(recordEncodedBytes('é', [['a', '€']])).toBe(RECORD_BYTES_MIN + 2 + 2 + 1 + 3);
    expect(meteredBytes('é', [['a', '€']])).toBe(8 + 2 + 1 + 3 + 2);
  });

  it('count lengths by their varints', () => {
    const value = new Uint8Array(128);
    expect(recordEncodedBytes('', [['', value]])).toBe(RECORD_BYTES_MIN + 1 + 2 + 128);
    expect(meteredBytes('', [['', value]])).toBe(8 + 2 + 128);
  });
});

describe('decodeRecords', () => {
  const batch = encodeBatch([
    { timestamp: 7, body: 'first', headers: [['ab', 'cde']] },
    { timestamp: 8, body: 'second', headers: [] },
  ]);

  it('reads nothing from nothing', () => {
    expect(decodeRecords(new Uint8Array(0), 0, 0)).toEqual([]);
  });

  it.each<[string, Uint8Array, number]>([
    ['fewer records than there are', batch, 1],
    ['more records than there are', batch, 3],
    ['far more records than bytes', batch, 2 ** 32],
    ['a byte behind the last', Buffer.concat([batch, Buffer.alloc(1)]), 2],
    ['an unsafe timestamp', patched(batch, 7, [1]), 2],
    ['a body beyond the end', patched(batch, 11, [1]), 2],
    ['a body of 4 GiB', patched(batch, 8, [255, 255, 255, 255]), 2],
    ['a header count beyond the end', patched(batch, 12, [100]), 2],
    ['an enormous header count', patched(batch, 12, [255, 255, 255, 255, 15]), 2],
    ['a header count in a longer form', patched(batch, 12, [0x81, 0]), 2],
    ['a name length in a longer form', patched(batch, 13, [0x82, 0]), 2],
    ['a value beyond the end', patched(batch, 14, [127]), 2],
    ['a name beyond the end', patched(batch, 13, [255, 255, 3]), 2],
  ])('refuses %s', (_, bytes, count) => {
    expect(codeOf(() => decodeRecords(bytes, 0, count))).toBe('CORRUPT_OBJECT');
  });

  it('refuses every prefix, whatever memory lies behind it', () => {
    for (let length = 0; length < batch.length; length++) {
      expect(codeOf(() => decodeRecords(batch.subarray(0, length), 0, 2))).toBe('CORRUPT_OBJECT');
    }
  });

  it('never reads beyond its bytes and throws nothing else, whatever they are', () => {
    const noise = fc.oneof(
      fc.uint8Array({ maxLength: 120 }),
      fc
        .record({ offset: fc.nat(batch.length - 1), byte: fc.nat(255) })
        .map(({ offset, byte }) => patched(batch, offset, [byte])),
    );
    fc.assert(
      fc.property(noise, fc.nat(4), (bytes, count) => {
        const memory = new Uint8Array(bytes.length + 400);
        memory.set(bytes);
        const within = memory.subarray(0, bytes.length);
        const code = codeOf(() => {
          for (const { body, headers } of decodeRecords(within, 0, count)) {
            for (const part of [body, ...headers.flat()]) {
              expect(part.byteOffset + part.length).toBeLessThanOrEqual(bytes.length);
            }
          }
        });
        expect([undefined, 'CORRUPT_OBJECT']).toContain(code);
      }),
      { numRuns: 3_000 },
    );
  });

  it('accepts only what encodes to the same bytes again', () => {
    fc.assert(
      fc.property(
        fc.nat(batch.length - 1),
        fc.uint8Array({ minLength: 1, maxLength: 4 }),
        (offset, noise) => {
          const bytes = patched(batch, offset, [...noise].slice(0, batch.length - offset));
          let records;
          try {
            records = decodeRecords(bytes, 0, 2);
          } catch {
            return;
          }
          expect(sameBytes(encodeBatch(records), bytes)).toBe(true);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  encodePreamble,
  headLengths,
  parsePreamble,
  PREAMBLE_BYTES,
  type Preamble,
} from '../../../src/format/preamble.ts';
import { EXISTS_HEAD_BYTES } from '../../../src/ports/bucket-store.ts';
import { anyFields, anyUint32, FIELDS, golden, patched, resealPreamble } from './samples.ts';

const PREAMBLE: Preamble = {
  kind: 'flight',
  ...FIELDS,
  headerBytes: 2 * 56,
  bodyBytes: 1_000,
  entryCount: 2,
  headerChecksum: 1,
  bodyChecksum: 0xffff_ffff,
  alignBytes: 0,
};
const POISON: Preamble = {
  ...PREAMBLE,
  kind: 'poison',
  released: 0,
  headerBytes: 30,
  bodyBytes: 0,
  entryCount: 0,
  bodyChecksum: 0,
};

function encoded(preamble: Preamble): Uint8Array {
  const bytes = new Uint8Array(PREAMBLE_BYTES);
  encodePreamble(bytes, 0, preamble);
  return bytes;
}

function reasonOf(bytes: Uint8Array): string | undefined {
  const read = parsePreamble(bytes);
  return read.ok ? undefined : read.reason;
}

describe('encodePreamble and parsePreamble', () => {
  it('round-trip every flight', () => {
    const sizes = fc
      .record({ entryCount: fc.integer({ min: 1, max: 1024 }), extra: fc.nat(44) })
      .map(({ entryCount, extra }) => ({ entryCount, headerBytes: entryCount * (56 + extra) }));
    const rest = fc.record({
      bodyBytes: fc.integer({ min: 1024, max: 0xffff_ffff }),
      headerChecksum: anyUint32,
      bodyChecksum: anyUint32,
      alignBytes: fc.constantFrom(0, 4096),
    });
    fc.assert(
      fc.property(anyFields, sizes, rest, (fields, size, other) => {
        const preamble: Preamble = { kind: 'flight', ...fields, ...size, ...other };
        expect(parsePreamble(encoded(preamble))).toEqual({ ok: true, preamble });
      }),
    );
  });

  it('write at an offset and touch nothing else, whatever stood there', () => {
    const bytes = new Uint8Array(PREAMBLE_BYTES + 20).fill(0xee);
    encodePreamble(bytes, 7, PREAMBLE);
    expect(parsePreamble(bytes.subarray(7))).toEqual({ ok: true, preamble: PREAMBLE });
    expect(bytes.subarray(0, 7)).toEqual(new Uint8Array(7).fill(0xee));
    expect(bytes.subarray(7 + PREAMBLE_BYTES)).toEqual(new Uint8Array(13).fill(0xee));
  });

  it('fit into what a refused create answers of the object it met', () => {
    expect(PREAMBLE_BYTES).toBeLessThanOrEqual(EXISTS_HEAD_BYTES);
  });

  it.each<[string, Partial<Preamble>]>([
    ['an empty star', { star: '' }],
    ['a star of 64 characters', { star: 'a'.repeat(64) }],
    ['a star with a slash', { star: 'a/b' }],
    ['a star beyond ASCII', { star: 'stär' }],
    ['a negative epoch', { epoch: -1 }],
    ['an unsafe epoch', { epoch: 2 ** 53 }],
    ['a fractional slot', { slot: 0.5, released: 0 }],
    ['a short nonce', { nonce: 'ff' }],
    ['an upper-case nonce', { nonce: 'F'.repeat(32) }],
    ['a nonce beyond ASCII', { nonce: `${'0'.repeat(31)}\u0130` }],
    ['released above the slot', { released: FIELDS.slot + 1 }],
    ['no entry', { entryCount: 0 }],
    ['too many entries', { entryCount: 1025, headerBytes: 1025 * 56, bodyBytes: 2_000 }],
    ['a header below its entries', { headerBytes: 2 * 56 - 1 }],
    ['a header above its entries', { headerBytes: 2 * 100 + 1 }],
    ['a body below its entries', { bodyBytes: 1 }],
    ['a body above 32 bits', { bodyBytes: 2 ** 32 }],
    ['a checksum above 32 bits', { headerChecksum: 2 ** 32 }],
    ['a negative checksum', { bodyChecksum: -1 }],
    ['another alignment', { alignBytes: 512 }],
  ])('refuse to write %s', (_, change) => {
    expect(() => encoded({ ...PREAMBLE, ...change })).toThrow();
  });

  it.each<[string, Partial<Preamble>]>([
    ['a body', { bodyBytes: 1 }],
    ['entries', { entryCount: 1 }],
    ['a watermark', { released: 1 }],
    ['a body checksum', { bodyChecksum: 1 }],
    ['an alignment', { alignBytes: 4096 }],
    ['a header too short for names', { headerBytes: 25 }],
    ['a header too long for names', { headerBytes: 151 }],
  ])('refuse to write poison with %s', (_, change) => {
    expect(() => encoded(POISON)).not.toThrow();
    expect(() => encoded({ ...POISON, ...change })).toThrow();
  });

  it('refuse to write beyond the memory', () => {
    expect(() => {
      encodePreamble(new Uint8Array(PREAMBLE_BYTES), 1, PREAMBLE);
    }).toThrow('does not fit');
  });
});

describe('parsePreamble', () => {
  const bytes = encoded(PREAMBLE);

  it.each<[string, number, number[], string]>([
    ['another magic', 0, [0x42], 'not a slot object'],
    ['a later version', 8, [2], 'unknown version'],
    ['version 0', 8, [0], 'unknown version'],
    ['a large version', 9, [1], 'unknown version'],
    ['another kind', 10, [3], 'unknown kind'],
    ['kind 0', 10, [0], 'unknown kind'],
    ['a star of length 0', 11, [0], 'star is not a name'],
    ['a star of length 64', 11, [64], 'star is not a name'],
    ['a star of length 255', 11, [255], 'star is not a name'],
    ['a star that reaches into its padding', 11, [5], 'star is not a name'],
    ['a star that ends early', 11, [3], 'padding is not zero'],
    ['a slash in the star', 16, [0x2f], 'star is not a name'],
    ['a byte behind the star', 79, [1], 'padding is not zero'],
    ['an unsafe epoch', 86, [0x20], 'number is not a safe integer'],
    ['an unsafe slot', 95, [0x01], 'number is not a safe integer'],
    ['an unsafe watermark', 119, [0xff], 'number is not a safe integer'],
    ['a watermark above the slot', 112, [0x03], 'released is above the slot'],
    ['no entry', 12, [0], 'entry count'],
    ['too many entries', 12, [1, 4], 'entry count'],
    ['a short header', 120, [0x6f], 'header length'],
    ['a long header', 120, [201], 'header length'],
    ['an empty body', 128, [0, 0], 'body length'],
    ['an unknown alignment', 136, [1], 'alignment'],
    ['a byte in the reserved field', 138, [1], 'padding is not zero'],
    ['a byte at the end of the reserved field', 155, [1], 'padding is not zero'],
  ])('refuses %s even with a fitting checksum', (_, offset, values, reason) => {
    expect(reasonOf(bytes)).toBeUndefined();
    expect(reasonOf(resealPreamble(patched(bytes, offset, values)))).toBe(reason);
  });

  it('accepts the largest safe integer and refuses the next number', () => {
    const largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x00];
    const next = [0, 0, 0, 0, 0, 0, 0x20, 0];
    const read = parsePreamble(resealPreamble(patched(bytes, 80, largest)));
    expect(read).toEqual({ ok: true, preamble: { ...PREAMBLE, epoch: Number.MAX_SAFE_INTEGER } });
    expect(reasonOf(resealPreamble(patched(bytes, 80, next)))).toBe('number is not a safe integer');
  });

  it('refuses every prefix', () => {
    for (let length = 0; length < PREAMBLE_BYTES; length++) {
      expect(reasonOf(bytes.subarray(0, length))).toBe('shorter than a preamble');
    }
  });

  it('refuses random bytes, with and without a fitting checksum', () => {
    const random = fc.uint8Array({ minLength: 0, maxLength: 400 });
    fc.assert(
      fc.property(random, (noise) => {
        expect(parsePreamble(noise).ok).toBe(false);
      }),
    );
    const field = fc.record({
      offset: fc.nat(155),
      noise: fc.uint8Array({ minLength: 1, maxLength: 16 }),
    });
    fc.assert(
      fc.property(field, ({ offset, noise }) => {
        const values = [...noise].slice(0, 156 - offset);
        const read = parsePreamble(resealPreamble(patched(bytes, offset, values)));
        // What is accepted is canonical: it encodes to the very bytes it was read from.
        if (read.ok) {
          const again = encoded(read.preamble);
          expect(again).toEqual(resealPreamble(patched(bytes, offset, values)));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('reads a Buffer and a view of shared memory alike', () => {
    const shared = new Uint8Array(new SharedArrayBuffer(200), 11, PREAMBLE_BYTES);
    shared.set(bytes);
    expect(parsePreamble(shared)).toEqual(parsePreamble(Buffer.from(bytes)));
  });
});

describe('headLengths', () => {
  it('tells where header and object end', () => {
    const read = parsePreamble(golden('flight-v1'));
    if (!read.ok) throw new Error(read.reason);
    expect(headLengths(read.preamble)).toEqual({ headBytes: 342, objectBytes: 459 });
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readVarint, VARINT_FAULT, varintBytes, writeVarint } from '../../../src/format/varint.ts';
import { anyUint32 } from './samples.ts';

const EDGES = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, 0xfff_ffff, 0x1000_0000];

function encoded(value: number): Uint8Array {
  const bytes = new Uint8Array(5);
  return bytes.subarray(0, writeVarint(bytes, 0, value));
}

describe('varint', () => {
  it.each([...EDGES, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff])('round-trips the edge %i', (value) => {
    const bytes = encoded(value);
    expect(bytes).toHaveLength(varintBytes(value));
    expect(readVarint(bytes, 0, bytes.length)).toBe(value);
  });

  it('round-trips at any offset', () => {
    fc.assert(
      fc.property(anyUint32, fc.nat(9), (value, offset) => {
        const bytes = new Uint8Array(20).fill(0xff);
        const end = writeVarint(bytes, offset, value);
        expect(end - offset).toBe(varintBytes(value));
        expect(readVarint(bytes, offset, end)).toBe(value);
        expect(bytes[end]).toBe(0xff);
      }),
    );
  });

  it.each([2 ** 32, 2 ** 53, 128.5])('refuses to write %d', (value) => {
    expect(() => encoded(value)).toThrow('varint is not 32 bits');
  });

  it.each<[string, number[]]>([
    ['nothing', []],
    ['a number that is cut off', [0x80]],
    ['a longer form of zero', [0x80, 0x00]],
    ['a longer form of one', [0x81, 0x80, 0x00]],
    ['33 bits', [0xff, 0xff, 0xff, 0xff, 0x1f]],
    ['six groups', [0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
  ])('refuses to read %s', (_, values) => {
    expect(readVarint(Uint8Array.from(values), 0, values.length)).toBe(VARINT_FAULT);
  });

  it('accepts only the one form that it writes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 7 }), (bytes) => {
        const value = readVarint(bytes, 0, bytes.length);
        if (value === VARINT_FAULT) return;
        expect(encoded(value)).toEqual(bytes.slice(0, varintBytes(value)));
      }),
      { numRuns: 2_000 },
    );
  });
});

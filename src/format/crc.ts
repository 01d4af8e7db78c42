import { crc32 as zlibCrc32 } from 'node:zlib';

/** The reversed polynomial of CRC-32 (ISO 3309): what zlib, gzip, PNG and S3 use. */
const POLYNOMIAL = 0xedb88320;
/** The polynomial 1: bit 31 is the coefficient of x to the power 0. */
const ONE = 0x80000000;

/** CRC-32 of `bytes`; with `seed`, of whatever `seed` is the checksum of, followed by `bytes`. */
export function crc32(bytes: Uint8Array, seed = 0): number {
  return zlibCrc32(bytes, seed);
}

/**
 * The checksum of two stretches of bytes written one after the other, from their own checksums:
 * `crc32(second, first)` without looking at the bytes.
 *
 * @param secondLength - bytes of the second stretch, a safe integer.
 */
export function crc32Combine(first: number, second: number, secondLength: number): number {
  if (secondLength === 0) return (first ^ second) >>> 0;
  return (multiply(shiftOf(secondLength), first) ^ second) >>> 0;
}

/** `a * b` modulo the polynomial, in reversed bit order. */
function multiply(a: number, b: number): number {
  let rest = a;
  let factor = b;
  let product = 0;
  while (rest !== 0) {
    // No branch on the bits: they are random, so that the processor would mispredict every second.
    product ^= factor & (rest >> 31);
    factor = (factor >>> 1) ^ (POLYNOMIAL & -(factor & 1));
    rest <<= 1;
  }
  return product;
}

/**
 * `SHIFTS[k][n]` is x to the power `8 * n * 256^k`: what `n * 256^k` following bytes do to a
 * checksum. One table a byte of the length makes a combination at most seven products, where the
 * table of squares that zlib keeps needs one for each bit that is set.
 */
const SHIFTS: readonly Uint32Array[] = buildShifts();

function buildShifts(): readonly Uint32Array[] {
  const tables: Uint32Array[] = [];
  // x to the power 8: one byte.
  let step = ONE >>> 8;
  for (let position = 0; position < 7; position++) {
    const table = new Uint32Array(256);
    table[0] = ONE;
    for (let n = 1; n < 256; n++) table[n] = multiply(table[n - 1]!, step);
    step = multiply(table[255]!, step);
    tables.push(table);
  }
  return tables;
}

function shiftOf(byteCount: number): number {
  let shift = ONE;
  let rest = byteCount;
  for (let position = 0; rest > 0; position++) {
    const digit = rest % 256;
    if (digit !== 0) {
      const power = SHIFTS[position]![digit]!;
      shift = shift === ONE ? power : multiply(power, shift);
    }
    rest = Math.floor(rest / 256);
  }
  return shift;
}

import { createHash } from 'node:crypto';
import { assert } from '../lib/assert.ts';
import { crc32 } from '../format/crc.ts';
import type { Compute } from '../ports/compute.ts';

/** Checksums in the caller's thread, answered at once. For tests, simulation and small flights. */
export function inlineCompute(): Compute {
  return {
    checksums: checksumRanges,
    sha256: sha256Hex,
    close: () => Promise.resolve(),
  };
}

/** CRC-32 of each `[start, end)` of `bytes`. Ranges may overlap; each must lie within the bytes. */
export function checksumRanges(bytes: Uint8Array, ranges: Uint32Array): Uint32Array {
  assert(ranges.length % 2 === 0, 'ranges are not pairs');
  const checksums = new Uint32Array(ranges.length / 2);
  for (let index = 0; index < checksums.length; index++) {
    const start = ranges[2 * index]!;
    const end = ranges[2 * index + 1]!;
    assert(start <= end, 'range ends before it starts');
    assert(end <= bytes.length, 'range ends behind the bytes');
    checksums[index] = crc32(bytes.subarray(start, end));
  }
  return checksums;
}

/** The form that takes memory which threads share. */
export function sha256Hex(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Unsigned LEB128 numbers of at most 32 bits, in their shortest form only. */
import { assert } from '../lib/assert.ts';
import { isUint32 } from './bytes.ts';

export function varintBytes(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  return value < 0x1000_0000 ? 4 : 5;
}

/** Writes at `offset` and returns where the number ends. */
export function writeVarint(target: Uint8Array, offset: number, value: number): number {
  if (value < 0x80) {
    target[offset] = value;
    return offset + 1;
  }
  assert(isUint32(value), 'varint is not 32 bits');
  let at = offset;
  let rest = value;
  while (rest >= 0x80) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}

/** What `readVarint` answers where no number of ours stands. */
export const VARINT_FAULT = -1;

/**
 * Reads a number that must end before `end`; `VARINT_FAULT` if it does not, is not in its shortest
 * form or exceeds 32 bits. It took `varintBytes` of the answer.
 */
export function readVarint(bytes: Uint8Array, offset: number, end: number): number {
  let value = 0;
  for (let position = 0; position < 5; position++) {
    const at = offset + position;
    if (at >= end) return VARINT_FAULT;
    const byte = bytes[at]!;
    // Multiplied, not shifted: the fifth group reaches above 31 bits.
    value += (byte & 0x7f) * 2 ** (7 * position);
    if (byte < 0x80) {
      const shortest = position === 0 || byte !== 0;
      return shortest && isUint32(value) ? value : VARINT_FAULT;
    }
  }
  return VARINT_FAULT;
}

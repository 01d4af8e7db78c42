/**
 * Field encodings that all formats share: little endian, 64-bit numbers as safe integers.
 * A decoder answers `undefined` for what no encoder of ours writes.
 */
import { Buffer } from 'node:buffer';
import { assert } from '../lib/assert.ts';

const TWO_32 = 0x1_0000_0000;
/** High halves above this make a number that JavaScript cannot hold exactly. */
const HIGH_MAX = 0x1f_ffff;

const NOTHING = new Uint8Array(0);
const encoder = new TextEncoder();
// A byte order mark is content here, and replaced bytes would hide damage.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What a parser answers for bytes that are not what they must be; `reason` is a constant text. */
export interface Refusal {
  readonly ok: false;
  readonly reason: string;
}

export function refuse(reason: string): Refusal {
  return { ok: false, reason };
}

/** Text or bytes as callers pass them; text stands for its UTF-8 bytes. */
export type Bytes = Uint8Array | string;

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A Buffer over the same memory, for its hexadecimal and text methods. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

export function isUint32(value: number): boolean {
  return value >>> 0 === value;
}

export function writeUint64(view: DataView, offset: number, value: number): void {
  assert(Number.isSafeInteger(value) && value >= 0, 'not a safe non-negative integer');
  view.setUint32(offset, value >>> 0, true);
  view.setUint32(offset + 4, Math.floor(value / TWO_32), true);
}

export function readUint64(view: DataView, offset: number): number | undefined {
  const high = view.getUint32(offset + 4, true);
  if (high > HIGH_MAX) return undefined;
  return high * TWO_32 + view.getUint32(offset, true);
}

/** UTF-8 bytes of a string; lone surrogates become U+FFFD, as everywhere in the platform. */
export function utf8Encode(text: string): Uint8Array {
  return text === '' ? NOTHING : encoder.encode(text);
}

/** `undefined` for bytes that are not UTF-8. */
export function utf8Decode(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Writes text as UTF-8 into `this` at `offset`, as far as it fits, and answers the bytes written. */
export type Utf8Writer = (this: Uint8Array, text: string, offset: number) => number;

/** `native` where the platform has one: it does without the view that the portable way needs. */
export function utf8WriterOf(native: Utf8Writer | undefined): Utf8Writer {
  return (
    native ??
    function (text, offset) {
      return encoder.encodeInto(text, this.subarray(offset)).written;
    }
  );
}

/** True for text that survives a round trip through UTF-8: it has no lone surrogate. */
export function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** Names of stars, buckets, sets and incarnations: 1 to 63 printable ASCII characters without `/`. */
export const NAME_BYTES_MAX = 63;

export function isName(text: string): boolean {
  return /^[!-.0-~]{1,63}$/.test(text);
}

/** Writes a checked name and returns the bytes it took. */
export function writeName(target: Uint8Array, offset: number, name: string): number {
  assert(isName(name), 'name is not 1 to 63 printable ASCII characters without a slash');
  for (let i = 0; i < name.length; i++) target[offset + i] = name.charCodeAt(i);
  return name.length;
}

export function readName(bytes: Uint8Array, offset: number, length: number): string | undefined {
  if (length < 1 || length > NAME_BYTES_MAX || offset + length > bytes.length) return undefined;
  const name = bufferOf(bytes).toString('latin1', offset, offset + length);
  return isName(name) ? name : undefined;
}

export function isZero(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] !== 0) return false;
  return true;
}

/** Identifiers and nonces are 16 bytes, written as 32 lower-case hexadecimal digits. */
export const ID_BYTES = 16;

export function writeId(target: Uint8Array, offset: number, id: string): void {
  assert(id.length === 2 * ID_BYTES, 'identifier is not 32 hexadecimal digits');
  let faults = 0;
  for (let i = 0; i < ID_BYTES; i++) {
    const high = HEX_DIGITS[id.charCodeAt(2 * i) & 0x7f]!;
    const low = HEX_DIGITS[id.charCodeAt(2 * i + 1) & 0x7f]!;
    faults |= (high | low) & 0xf0;
    faults |= (id.charCodeAt(2 * i) | id.charCodeAt(2 * i + 1)) & 0xff80;
    target[offset + i] = (high << 4) | low;
  }
  assert(faults === 0, 'identifier is not 32 lower-case hexadecimal digits');
}

export function readId(bytes: Buffer, offset: number): string {
  return bytes.toString('hex', offset, offset + ID_BYTES);
}

const HEX_DIGITS = new Uint8Array(128).fill(0xff);
for (let digit = 0; digit < 16; digit++) HEX_DIGITS[digit.toString(16).charCodeAt(0)] = digit;

/**
 * XXH3, 64 bits, of up to 240 bytes: the hash in which the public S2 verification tool keeps what a
 * stream holds. Clients here write short records only.
 */
import { assert } from '../../src/lib/assert.ts';

export const HASHED_BYTES_MAX = 240;

/** The part of the algorithm's own secret that short inputs use. */
const SECRET = new DataView(
  Uint8Array.from(
    Buffer.from(
      'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f' +
        'cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c' +
        '3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
        'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364' +
        'eac5ac8334d3ebc3',
      'hex',
    ),
  ).buffer,
);
const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME_MX1 = 0x165667919e3779f9n;
const PRIME_MX2 = 0x9fb21c651e98df25n;
const MASK = 0xffff_ffff_ffff_ffffn;

const secret64 = (at: number): bigint => SECRET.getBigUint64(at, true);

export function xxh3(bytes: Uint8Array, seed = 0n): bigint {
  const { length } = bytes;
  assert(length <= HASHED_BYTES_MAX, 'hashed bytes are at most 240');
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  if (length === 0) return avalanche64(seed ^ secret64(56) ^ secret64(64));
  if (length <= 3) return upTo3(bytes, seed);
  if (length <= 8) return upTo8(view, seed);
  if (length <= 16) return upTo16(view, seed);
  return length <= 128 ? upTo128(view, seed) : upTo240(view, seed);
}

function upTo3(bytes: Uint8Array, seed: bigint): bigint {
  const { length } = bytes;
  const first = bytes[0]!;
  const middle = bytes[length >> 1]!;
  const last = bytes[length - 1]!;
  const combined = ((first << 16) | (middle << 24) | last | (length << 8)) >>> 0;
  const flip = BigInt((SECRET.getUint32(0, true) ^ SECRET.getUint32(4, true)) >>> 0) + seed;
  return avalanche64(BigInt(combined) ^ (flip & MASK));
}

function upTo8(view: DataView, seed: bigint): bigint {
  const length = view.byteLength;
  const mixedSeed = seed ^ (swap32(seed & 0xffff_ffffn) << 32n);
  const flip = ((secret64(8) ^ secret64(16)) - mixedSeed) & MASK;
  const first = BigInt(view.getUint32(0, true));
  const last = BigInt(view.getUint32(length - 4, true));
  let hash = (last | (first << 32n)) ^ flip;
  hash ^= rotate(hash, 49n) ^ rotate(hash, 24n);
  hash = (hash * PRIME_MX2) & MASK;
  hash ^= (hash >> 35n) + BigInt(length);
  hash = (hash * PRIME_MX2) & MASK;
  return hash ^ (hash >> 28n);
}

function upTo16(view: DataView, seed: bigint): bigint {
  const length = view.byteLength;
  const flipLow = ((secret64(24) ^ secret64(32)) + seed) & MASK;
  const flipHigh = ((secret64(40) ^ secret64(48)) - seed) & MASK;
  const low = view.getBigUint64(0, true) ^ flipLow;
  const high = view.getBigUint64(length - 8, true) ^ flipHigh;
  return avalanche(BigInt(length) + swap64(low) + high + folded(low, high));
}

function upTo128(view: DataView, seed: bigint): bigint {
  const length = view.byteLength;
  let sum = BigInt(length) * PRIME64_1;
  for (let pair = (length - 1) >> 5; pair >= 0; pair--) {
    sum += mixed16(view, 16 * pair, 32 * pair, seed);
    sum += mixed16(view, length - 16 * (pair + 1), 32 * pair + 16, seed);
  }
  return avalanche(sum);
}

function upTo240(view: DataView, seed: bigint): bigint {
  const length = view.byteLength;
  let sum = BigInt(length) * PRIME64_1;
  for (let i = 0; i < 8; i++) sum += mixed16(view, 16 * i, 16 * i, seed);
  sum = avalanche(sum);
  for (let i = 8; i < length >> 4; i++) sum += mixed16(view, 16 * i, 16 * (i - 8) + 3, seed);
  return avalanche(sum + mixed16(view, length - 16, 136 - 17, seed));
}

function mixed16(view: DataView, at: number, secretAt: number, seed: bigint): bigint {
  const low = view.getBigUint64(at, true) ^ ((secret64(secretAt) + seed) & MASK);
  const high = view.getBigUint64(at + 8, true) ^ ((secret64(secretAt + 8) - seed) & MASK);
  return folded(low, high);
}

function folded(left: bigint, right: bigint): bigint {
  const product = left * right;
  return (product & MASK) ^ (product >> 64n);
}

function avalanche(sum: bigint): bigint {
  let hash = sum & MASK;
  hash ^= hash >> 37n;
  hash = (hash * PRIME_MX1) & MASK;
  return hash ^ (hash >> 32n);
}

function avalanche64(start: bigint): bigint {
  let hash = start;
  hash ^= hash >> 33n;
  hash = (hash * PRIME64_2) & MASK;
  hash ^= hash >> 29n;
  hash = (hash * PRIME64_3) & MASK;
  return hash ^ (hash >> 32n);
}

function rotate(value: bigint, by: bigint): bigint {
  return ((value << by) | (value >> (64n - by))) & MASK;
}

function swap32(value: bigint): bigint {
  const buffer = new DataView(new ArrayBuffer(4));
  buffer.setUint32(0, Number(value), true);
  return BigInt(buffer.getUint32(0, false));
}

function swap64(value: bigint): bigint {
  const buffer = new DataView(new ArrayBuffer(8));
  buffer.setBigUint64(0, value, true);
  return buffer.getBigUint64(0, false);
}

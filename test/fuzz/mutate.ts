/** Bytes that are nearly right: what damage, other versions and malice make of sound ones. */
import type { Prng } from '../../src/lib/prng.ts';

const LENGTHS = [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
const TOKENS = [
  '"__proto__":1,',
  '"constructor":{},',
  'null',
  'true',
  '-0',
  '-1',
  '1e999',
  '0.5',
  '9007199254740993',
  '"',
  '\\ud800',
  '[[[[[[[[',
  '{"a":{"a":{"a":',
  '\u0000',
  '\ufeff',
  '\n',
  '//',
  '=',
  '+',
  '../',
];

const LONG_BYTES = 1_000;

type Mutation = (bytes: Uint8Array, random: Prng, other: Uint8Array) => Uint8Array;

const MUTATIONS: readonly Mutation[] = [
  (bytes, random) => changed(bytes, random, (copy, at) => (copy[at]! ^= 1 << random.below(8))),
  (bytes, random) => changed(bytes, random, (copy, at) => (copy[at] = random.below(256))),
  (bytes, random) => changed(bytes, random, (copy, at) => (copy[at] = random.pick([0, 255]))),
  (bytes, random) => bytes.slice(0, random.below(bytes.length + 1)),
  (bytes, random) => bytes.slice(random.below(bytes.length + 1)),
  (bytes, random) => spliced(bytes, random, noise(random, random.below(9))),
  (bytes, random) => spliced(bytes, random, Buffer.from(random.pick(TOKENS))),
  (bytes, random) => spliced(bytes, random, new Uint8Array(0), 1 + random.below(8)),
  // A stretch of itself again, and a stretch of another one.
  (bytes, random) => spliced(bytes, random, stretch(bytes, random)),
  (bytes, random, other) => spliced(bytes, random, stretch(other, random), random.below(16)),
  (bytes, random, other) => {
    const at = random.below(Math.min(bytes.length, other.length) + 1);
    return Buffer.concat([bytes.subarray(0, at), other.subarray(at)]);
  },
  // Very much of a little.
  (bytes, random) => {
    const part = stretch(bytes, random);
    return spliced(
      bytes,
      random,
      Buffer.concat(Array.from({ length: random.below(400) }, () => part)),
    );
  },
  // Lengths and counts that mean "very much".
  (bytes, random) =>
    changed(bytes, random, (copy, at) => {
      const length = new DataView(new ArrayBuffer(4));
      length.setUint32(0, random.pick(LENGTHS), random.chance(0.8));
      for (let i = 0; i < 4 && at + i < copy.length; i++) copy[at + i] = length.getUint8(i);
    }),
  (bytes, random) => {
    const start = random.below(bytes.length + 1);
    return Uint8Array.from(bytes).fill(random.pick([0, 0x30, 0x80, 0xff]), start, start + 8);
  },
];

/** One to four mutations of one of the seeds; now and then nothing but noise. */
export function mutated(seeds: readonly Uint8Array[], random: Prng): Uint8Array {
  if (random.chance(0.02)) return noise(random, random.below(300));
  let bytes = random.pick(seeds);
  for (let left = 1 + random.below(4); left > 0; left--) {
    bytes = random.pick(MUTATIONS)(bytes, random, random.pick(seeds));
  }
  return bytes;
}

export function noise(random: Prng, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => random.below(256));
}

/** Every way in which one byte can differ; of longer inputs every bit, of very long ones one a byte. */
export function* byteFlips(seed: Uint8Array): Generator<Uint8Array> {
  const every = Array.from({ length: 255 }, (_, index) => index + 1);
  const single = [1, 2, 4, 8, 16, 32, 64, 128];
  for (let at = 0; at < seed.length; at++) {
    const one = [single[at % 8]!];
    for (const bits of seed.length > LONG_BYTES ? one : seed.length > 100 ? single : every) {
      const copy = Uint8Array.from(seed);
      copy[at]! ^= bits;
      yield copy;
    }
  }
}

/** Every length below its own; of long inputs one in 31. */
export function* truncations(seed: Uint8Array): Generator<Uint8Array> {
  const step = seed.length > LONG_BYTES ? 31 : 1;
  for (let length = 0; length < seed.length; length += step) yield seed.slice(0, length);
  yield seed.slice(0, -1);
}

/** The first part of one and the second part of the other, cut at every place. */
export function* splices(a: Uint8Array, b: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at <= Math.max(a.length, b.length); at++) {
    yield Uint8Array.from(Buffer.concat([a.subarray(0, at), b.subarray(at)]));
    yield Uint8Array.from(Buffer.concat([a.subarray(0, at), b]));
  }
}

function changed(
  bytes: Uint8Array,
  random: Prng,
  change: (copy: Uint8Array, at: number) => void,
): Uint8Array {
  const copy = Uint8Array.from(bytes);
  if (copy.length > 0) change(copy, random.below(copy.length));
  return copy;
}

function spliced(bytes: Uint8Array, random: Prng, insert: Uint8Array, drop = 0): Uint8Array {
  const at = random.below(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, at), insert, bytes.subarray(at + drop)]);
}

function stretch(bytes: Uint8Array, random: Prng): Uint8Array {
  const start = random.below(bytes.length + 1);
  return bytes.slice(start, start + random.below(64));
}

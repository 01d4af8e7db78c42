/**
 * What the fuzzer knows of each function that takes bytes, text or options from outside.
 * One entry a decoder; `decoders.ts` lists them all, `complete.test.ts` proves that none is missing.
 */
import type fc from 'fast-check';
import type { Prng } from '../../src/lib/prng.ts';
import type { ErrorCode } from '../../src/lib/errors.ts';

interface Common {
  /** The exported name. */
  readonly name: string;
  /** What of it, when one function is fuzzed in several ways. */
  readonly variant?: string;
  /** The file that exports it, from the root of the repository. */
  readonly file: string;
  /** Codes that it may throw; anything else that is thrown is a finding. */
  readonly codes: readonly ErrorCode[];
  /** Of an error without a code that is the documented answer, for example of the command line. */
  readonly mayThrow?: (error: unknown) => boolean;
}

export interface BytesDecoder extends Common {
  readonly kind: 'bytes';
  /** Sound inputs: they decode, and mutations start from them. */
  readonly seeds: readonly Uint8Array[];
  /** Makes further sound inputs: they decode too, and mutations start from them as well. */
  readonly sound?: fc.Arbitrary<Uint8Array> | undefined;
  readonly decode: (input: Uint8Array) => unknown;
  /** True for an answer that says "not ours" without throwing. */
  readonly refuses?: (answer: unknown) => boolean;
  /**
   * Every byte of a seed is covered by a checksum or a fixed value: whatever differs is refused.
   * Otherwise who covers the bytes, or why nobody has to.
   */
  readonly covered: 'all' | { readonly by: string };
  /** Whether an answer to other bytes means what a seed means; without it: it equals a seed's. */
  readonly means?: (answer: unknown) => boolean;
  /** Makes checksums true again after a mutation, so that the checks behind them are reached. */
  readonly reseal?: (input: Uint8Array) => Uint8Array;
  /** Encodes an answer: one decoder, one encoding. The result must be the input byte by byte. */
  readonly encode?: (answer: never) => Uint8Array;
  /** For encodings that are not unique: encodes an answer, and the result must decode to the same. */
  readonly reencode?: (answer: never) => Uint8Array;
}

export interface ValueDecoder extends Common {
  readonly kind: 'value';
  /** Sound arguments; one of them is replaced, or something in it is. */
  readonly seeds: readonly (readonly unknown[])[];
  readonly decode: (...input: never[]) => unknown;
}

export type Decoder = BytesDecoder | ValueDecoder;

export const titleOf = ({ name, variant }: Decoder): string =>
  variant === undefined ? name : `${name} (${variant})`;

/** A generator of one case: the same numbers make the same case again. */
export type CaseOf<T> = (random: Prng) => T;

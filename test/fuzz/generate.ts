/** What fast-check makes: anything at all, and by the tables sound inputs that no golden file holds. */
import fc from 'fast-check';
import type { Prng } from '../../src/lib/prng.ts';
import { anyText } from '../unit/format/samples.ts';

export const anyBytes: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.oneof(fc.json(), anyText).map((text) => Buffer.from(text)),
);

export const anyValue: fc.Arbitrary<unknown> = fc.anything({
  maxDepth: 2,
  maxKeys: 4,
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
});

/** One sample; the same numbers make the same again. */
export function drawn<T>(of: fc.Arbitrary<T>, random: Prng): T {
  const [sample] = fc.sample(of, { seed: random.below(2 ** 31), numRuns: 1 });
  return sample!;
}

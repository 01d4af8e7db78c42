import fc from 'fast-check';
import * as v from 'valibot';
import { expect, test } from 'vitest';
import {
  areSpans,
  spanBytes,
  spans,
  spansInDetail,
  type Span,
} from '../../../src/protocol/spans.ts';

const GOOD: Span = {
  seq: 0,
  count: 1,
  slot: 2,
  offset: 3,
  length: 4,
  checksum: 5,
  first: 6,
  last: 7,
};
const NAMES = Object.keys(GOOD) as (keyof Span)[];
const counts = fc.oneof(
  fc.nat(20),
  fc.maxSafeNat(),
  fc.nat(15).map((power) => 10 ** power - 1),
);
const goodSpans = fc
  .tuple(...NAMES.map((name) => counts.map((n) => [name, Math.max(n, Number(GOOD[name] > 0))])))
  .map((fields) => Object.fromEntries(fields) as unknown as Span);
const oddValues = fc.oneof(
  fc.constantFrom<unknown>(
    -1,
    -0,
    0,
    0.5,
    NaN,
    Infinity,
    2 ** 53,
    '1',
    null,
    undefined,
    true,
    [],
    {},
  ),
  fc.anything(),
);

test('plain code and the schema take the same spans', () => {
  const changed = fc
    .tuple(goodSpans, fc.constantFrom(...NAMES, 'more'), oddValues)
    .map(([good, name, value]): unknown => ({ ...good, [name]: value }));
  const lacking = fc.tuple(goodSpans, fc.constantFrom(...NAMES)).map(([good, name]): unknown => {
    const { [name]: _, ...rest } = good;
    return rest;
  });
  const one = fc.oneof(goodSpans, changed, lacking, oddValues);
  let taken = 0;
  fc.assert(
    fc.property(fc.oneof(fc.array(one, { maxLength: 4 }), oddValues), (input) => {
      const detailed = v.safeParse(spansInDetail, input);
      expect(areSpans(input)).toBe(detailed.success);
      const parsed = v.safeParse(spans, input);
      expect(parsed.success).toBe(detailed.success);
      if (parsed.success) expect(parsed.output).toEqual(detailed.output);
      taken += Number(parsed.success && parsed.output.length > 0);
    }),
    { numRuns: 2_000 },
  );
  expect(taken).toBeGreaterThan(20);
});

test('what is wrong is named to the number', () => {
  const parsed = v.safeParse(spans, [GOOD, { ...GOOD, offset: -1 }]);
  expect(parsed.issues?.map((issue) => v.getDotPath(issue))).toEqual(['1.offset']);
});

test('the bytes of a span are those of its text and a comma', () => {
  fc.assert(
    fc.property(goodSpans, (span) => {
      expect(spanBytes(span)).toBe(JSON.stringify(span).length + 1);
    }),
  );
});

/**
 * The spans of a ref row. A row holds up to some thousands of them and is read and built beside appends,
 * so they are checked and measured by plain code; only what is wrong is looked at by a schema.
 */
import * as v from 'valibot';
import { count, positive } from './numbers.ts';

/** One entry of one flight: where its records lie and what they hash to. */
const span = v.strictObject({
  seq: count,
  count: positive,
  slot: count,
  /** Offset of the entry's bytes in the slot object, and their length. */
  offset: count,
  length: positive,
  checksum: count,
  first: count,
  last: count,
});
export type Span = v.InferOutput<typeof span>;

/** Says what is wrong, number by number; takes 30 times as long as `areSpans`. */
export const spansInDetail = v.array(span);

const taken = v.custom<Span[]>(() => true);
export const spans = v.lazy((input): v.GenericSchema<Span[]> =>
  areSpans(input) ? taken : spansInDetail,
);

/** Whether `spansInDetail` would take it. */
export function areSpans(input: unknown): input is Span[] {
  return Array.isArray(input) && input.every(isSpan);
}

const NAMES = Object.keys(span.entries).length;

function isSpan(input: unknown): boolean {
  if (typeof input !== 'object' || input === null) return false;
  let names = 0;
  for (const _ in input) names++;
  const { seq, count, slot, offset, length, checksum, first, last } = input as Partial<Span>;
  return (
    names === NAMES &&
    isCount(seq) &&
    isCount(count) &&
    count > 0 &&
    isCount(slot) &&
    isCount(offset) &&
    isCount(length) &&
    length > 0 &&
    isCount(checksum) &&
    isCount(first) &&
    isCount(last)
  );
}

function isCount(input: unknown): input is number {
  return Number.isSafeInteger(input) && (input as number) >= 0;
}

const FRAME_BYTES =
  JSON.stringify(Object.fromEntries(Object.keys(span.entries).map((name) => [name, 0]))).length -
  NAMES;
const POWERS = Array.from({ length: 17 }, (_, power) => 10 ** power);

/** Of its JSON text, and one more for the comma: numbers under ASCII names, so characters are bytes. */
export function spanBytes(span: Span): number {
  return (
    FRAME_BYTES +
    digits(span.seq) +
    digits(span.count) +
    digits(span.slot) +
    digits(span.offset) +
    digits(span.length) +
    digits(span.checksum) +
    digits(span.first) +
    digits(span.last) +
    1
  );
}

function digits(value: number): number {
  let power = 1;
  while (value >= POWERS[power]!) power++;
  return power;
}

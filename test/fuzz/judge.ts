/** Runs a decoder on one input and says what is wrong with how it took it. */
import { performance } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import { getHeapStatistics } from 'node:v8';
import { EngineError } from '../../src/lib/errors.ts';
import type { BytesDecoder, Decoder, ValueDecoder } from './decoder.ts';

/** A machine under load may take a while for a microsecond's work; a loop over 2^32 takes longer. */
const MILLIS_MAX = 3_000;
/** Memory for one answer, besides a multiple of its input: no length field may ask for more. */
const SPARE_BYTES = 4 * 1024 * 1024;

type Outcome =
  | { readonly kind: 'answer'; readonly answer: unknown }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };

/** Undefined when all is well. */
export async function judge(
  decoder: Decoder,
  input: Uint8Array | readonly unknown[],
): Promise<string | undefined> {
  if (decoder.kind === 'value') return judgeValue(decoder, input as readonly unknown[]);
  return judgeBytes(decoder, input as Uint8Array);
}

async function judgeValue(
  decoder: ValueDecoder,
  input: readonly unknown[],
): Promise<string | undefined> {
  const decode = decoder.decode as (...input: unknown[]) => unknown;
  const first = await outcomeOf(decoder, () => decode(...input));
  return typeof first === 'string' ? first : undefined;
}

async function judgeBytes(decoder: BytesDecoder, input: Uint8Array): Promise<string | undefined> {
  const copy = Uint8Array.from(input);
  const before = getHeapStatistics();
  const startedAt = performance.now();
  const outcome = await outcomeOf(decoder, () => decoder.decode(copy));
  const millis = performance.now() - startedAt;
  const after = getHeapStatistics();
  if (typeof outcome === 'string') return outcome;
  if (millis > MILLIS_MAX) return `took ${millis.toFixed(0)} ms`;
  const bytes =
    after.external_memory -
    before.external_memory +
    Math.max(0, after.used_heap_size - before.used_heap_size);
  // An object of V8 takes tens of bytes for each that it stands for.
  if (bytes > SPARE_BYTES + 400 * input.length) return `allocated ${bytes} bytes`;
  if (Buffer.compare(copy, input) !== 0) return 'changed its input';
  const again = await outcomeOf(decoder, () => decoder.decode(copy));
  if (!isDeepStrictEqual(again, outcome)) return 'decodes differently the second time';
  return outcome.kind === 'answer' ? judgeAnswer(decoder, input, outcome.answer) : undefined;
}

async function judgeAnswer(
  decoder: BytesDecoder,
  input: Uint8Array,
  answer: unknown,
): Promise<string | undefined> {
  const { encode, reencode, refuses } = decoder;
  if (refuses?.(answer) === true) return undefined;
  if (weightOf(answer) > 256 + 8 * input.length) return 'answers more than there are bytes';
  if (encode !== undefined) {
    const encoded = encode(answer as never);
    if (Buffer.compare(encoded, input) !== 0) {
      return `accepts what no encoder writes: it writes ${Buffer.from(encoded).toString('hex')}`;
    }
  }
  if (reencode === undefined) return undefined;
  const encoded = reencode(answer as never);
  const back = await outcomeOf(decoder, () => decoder.decode(Uint8Array.from(encoded)));
  if (typeof back === 'string') return `of its own encoding: ${back}`;
  return isDeepStrictEqual(plain(back), plain({ kind: 'answer', answer }))
    ? undefined
    : 'does not come back from its own encoding';
}

/** The outcome; a text when it is one that must not be. */
async function outcomeOf(decoder: Decoder, run: () => unknown): Promise<Outcome | string> {
  try {
    return { kind: 'answer', answer: await run() };
  } catch (error) {
    if (EngineError.is(error)) {
      const { code, message } = error;
      if (decoder.codes.includes(code)) return { kind: 'refused', code, message };
      return `throws ${code}, which is none of its codes: ${message}`;
    }
    if (decoder.mayThrow?.(error) === true) {
      return { kind: 'refused', code: 'its own error', message: String(error) };
    }
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return `throws an error without a code: ${text.split('\n').slice(0, 3).join(' | ')}`;
  }
}

/** The answer; undefined for a refusal. */
export async function answerOf(decoder: BytesDecoder, input: Uint8Array): Promise<unknown> {
  const outcome = await outcomeOf(decoder, () => decoder.decode(input));
  if (typeof outcome === 'string') throw new Error(`${decoder.name} ${outcome}`);
  if (outcome.kind === 'refused' || decoder.refuses?.(outcome.answer) === true) return undefined;
  return outcome.answer ?? 'nothing';
}

/** Values in an answer; views count as one, text as its length. */
function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return 1;
  let weight = 1;
  for (const inner of Object.values(value)) weight += weightOf(inner);
  return weight;
}

/** Without stacks and prototypes, for comparison. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? 0 : value;
  if (ArrayBuffer.isView(value)) return Buffer.from(value as Uint8Array).toString('hex');
  if (EngineError.is(value)) return value.toJSON();
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([name, inner]) => [name, plain(inner)]),
  );
}

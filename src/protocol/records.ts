/**
 * Values of the metastore. Each is JSON text, checked on every read; a value that does not parse is
 * METASTORE_CORRUPT and names its key. `attempt` tells one's own write from another's after an
 * answer was lost. Source: DESIGN "Metastore".
 */
import * as v from 'valibot';
import { EngineError } from '../lib/errors.ts';
import { count, positive } from './numbers.ts';
import { spans } from './spans.ts';

const hex = (bytes: number) => v.pipe(v.string(), v.regex(new RegExp(`^[0-9a-f]{${bytes * 2}}$`)));
const id = hex(16);
const attempt = hex(8);
export const starName = v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/));
const storageClass = v.picklist(['standard', 'express']);

export type StorageClass = v.InferOutput<typeof storageClass>;

/** `chains/<star>`: the mint counter and the head epoch of each storage class. */
export const chainRecord = v.strictObject({
  nextEpoch: count,
  heads: v.strictObject({ standard: v.optional(count), express: v.optional(count) }),
  attempt,
});
export type ChainRecord = v.InferOutput<typeof chainRecord>;

/** `chains/<star>/<epoch>`: constants of the mint and the cursors of the epoch. */
export const epochRecord = v.strictObject({
  star: starName,
  epoch: count,
  class: storageClass,
  set: id,
  buckets: positive,
  copyQuorum: positive,
  window: positive,
  incarnation: id,
  /** Written into every flight of the epoch; a flight with another one is foreign. */
  nonce: id,
  state: v.picklist(['open', 'fenced', 'settled', 'retired']),
  /** swept <= trimmed <= rewritten <= checkpoint <= cut */
  checkpoint: count,
  rewritten: count,
  trimmed: count,
  swept: count,
  /** Flights in [cut, cut + window] are gone. */
  tailSwept: v.boolean(),
  cut: v.optional(count),
  fencedBy: v.optional(v.strictObject({ star: starName, incarnation: id, atMillis: count })),
  attempt,
});
export type EpochRecord = v.InferOutput<typeof epochRecord>;

/** `sets/<id>`: the K buckets of a set, in the fixed order of poisoning. */
export const setRecord = v.strictObject({
  set: id,
  metastore: id,
  buckets: v.pipe(v.array(v.strictObject({ bucket: id, name: v.string() })), v.minLength(1)),
  attempt,
});
export type SetRecord = v.InferOutput<typeof setRecord>;

/** `names/<basin>/<hex>` */
export const nameRecord = v.strictObject({ stream: id, attempt });
export type NameRecord = v.InferOutput<typeof nameRecord>;

export const streamConfig = v.strictObject({
  mode: v.picklist(['any', 'fenced']),
  storageClass,
  timestamping: v.picklist(['client-prefer', 'client-require', 'arrival']),
  /** Client timestamps may lie in the future. */
  uncapped: v.boolean(),
});
export type StreamConfig = v.InferOutput<typeof streamConfig>;

/** `streams/<id>` */
export const streamRecord = v.strictObject({
  stream: id,
  name: v.string(),
  basin: v.string(),
  createdAtMillis: count,
  config: streamConfig,
  attempt,
});
export type StreamRecord = v.InferOutput<typeof streamRecord>;

const tenure = v.strictObject({
  star: starName,
  incarnation: id,
  class: storageClass,
  epoch: count,
});
export type Tenure = v.InferOutput<typeof tenure>;

/** `streams/<id>/writer`: the single point of decision of the open gate (T1-T6). */
export const writerRecord = v.variant('kind', [
  v.strictObject({ kind: v.literal('tenure'), tenure, attempt }),
  v.strictObject({ kind: v.literal('released'), tenure, tail: count, attempt }),
  v.strictObject({ kind: v.literal('deleted'), attempt }),
]);
export type WriterRecord = v.InferOutput<typeof writerRecord>;

/** `limbo/<star>/<id>`: a Finish that could not land yet, for whoever looks from outside. */
export const limboRecord = v.strictObject({
  star: starName,
  incarnation: id,
  epoch: count,
  stream: id,
  name: v.string(),
  basin: v.string(),
  sinceMillis: count,
  /** Why the first try failed. */
  code: v.string(),
  message: v.string(),
  attempt,
});
export type LimboRecord = v.InferOutput<typeof limboRecord>;

/** State of a stream as of a position: what a reader or a successor must know besides the bytes. */
export const streamState = v.strictObject({
  fencingToken: v.string(),
  trimPoint: count,
  lastTimestamp: count,
});
export type StreamState = v.InferOutput<typeof streamState>;

export const INITIAL_STREAM_STATE: StreamState = {
  fencingToken: '',
  trimPoint: 0,
  lastTimestamp: 0,
};

/** `streams/<id>/refs/<start>`: covers [start, end) from flights of one epoch. */
export const refRow = v.strictObject({
  start: count,
  end: count,
  star: starName,
  epoch: count,
  set: id,
  spans,
  /** State as of `end`. */
  state: streamState,
  builder: v.strictObject({ star: starName, incarnation: id }),
  /** The clean-release mark; certifies only together with the released record it agrees with. */
  mark: v.optional(v.strictObject({ tenure, tail: count })),
  attempt,
});
export type RefRow = v.InferOutput<typeof refRow>;

/** `metastore/id`: which metastore this is; bucket identities name it. */
export const metastoreIdRecord = v.strictObject({ metastore: id, attempt });
export type MetastoreIdRecord = v.InferOutput<typeof metastoreIdRecord>;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function encodeRecordValue(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/**
 * Parses and validates a value of the metastore.
 *
 * @throws EngineError METASTORE_CORRUPT naming the key and the first thing wrong with it.
 */
export function parseRecordValue<T extends v.GenericSchema>(
  schema: T,
  key: string,
  value: Uint8Array,
): v.InferOutput<T> {
  let json: unknown;
  try {
    json = JSON.parse(decoder.decode(value));
  } catch (cause) {
    throw new EngineError('METASTORE_CORRUPT', 'a metastore value is not json', {
      cause,
      details: { key, valueBytes: value.byteLength },
    });
  }
  const parsed = v.safeParse(schema, json);
  if (parsed.success) return parsed.output;
  const issue = parsed.issues[0];
  throw new EngineError('METASTORE_CORRUPT', 'a metastore value has an unknown shape', {
    details: { key, path: v.getDotPath(issue) ?? '', problem: issue.message },
  });
}

const attemptOnly = v.looseObject({ attempt });

/** The attempt id of any value, or undefined when it has none. */
export function attemptOf(value: Uint8Array): string | undefined {
  try {
    const parsed = v.safeParse(attemptOnly, JSON.parse(decoder.decode(value)));
    return parsed.success ? parsed.output.attempt : undefined;
  } catch {
    return undefined;
  }
}

import type { EngineError } from '../lib/errors.ts';

/**
 * One bucket: immutable objects created only if absent. Keys are `/`-separated ASCII path-like
 * strings (`[a-z0-9._/-]`, at most 512 bytes). Source: DESIGN "Slot objects and buckets".
 *
 * No call rejects for what storage does: every outcome is a value. A fired signal makes the outcome
 * `unknown`. Implementations bound every attempt with time-outs of their own.
 */
export interface BucketStore {
  /** Names the bucket in messages and metrics, for example a directory or a bucket name. */
  readonly name: string;

  /** It stores bytes in memory of `lib/pages.ts`, in whole blocks, without copying them. */
  readonly wantsPages?: boolean;

  /**
   * Creates the object if the key is absent, durably before answering.
   *
   * Resolves only when the implementation no longer touches `bytes`, whatever the outcome, so the
   * caller may reuse the memory. `exists` is answered only when the existing object is as durable
   * as a created one would be.
   */
  createOnly(key: string, bytes: Uint8Array, options?: CallOptions): Promise<CreateOutcome>;

  /** Reads up to `lengthBytes` from the start. With `evidence`, what is answered survives a crash of the store. */
  readHead(key: string, lengthBytes: number, options?: ReadOptions): Promise<ReadOutcome>;

  /** Reads `[start, end)`; shorter when the object ends before. */
  readRange(key: string, start: number, end: number, options?: ReadOptions): Promise<ReadOutcome>;

  /** Deletes; idempotent. */
  delete(key: string, options?: CallOptions): Promise<DeleteOutcome>;

  /** Deletes many; answers the outcome of each, in order. */
  deleteMany(keys: readonly string[], options?: CallOptions): Promise<readonly DeleteOutcome[]>;

  /** Keys under the prefix after `startAfter`, in no promised order beyond paging. Orphan scans only. */
  list(prefix: string, options?: ListOptions): Promise<ListOutcome>;

  /** Whether the bucket keeps the create-only promise: racing creates, exists, durability primitives. */
  probe(options?: CallOptions): Promise<ProbeOutcome>;

  /** Ends background work. Outstanding calls settle first. Idempotent. */
  close(): Promise<void>;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ReadOptions extends CallOptions {
  /** The caller decides a slot's fate from the answer: it must not be undone by a power cut. */
  readonly evidence?: boolean;
}

export interface ListOptions extends CallOptions {
  readonly startAfter?: string;
  readonly limit?: number;
}

export type CreateOutcome =
  | { readonly kind: 'created' }
  /** Another object (or an earlier attempt of ours) holds the key: its first bytes and its size. */
  | { readonly kind: 'exists'; readonly head: Uint8Array; readonly sizeBytes: number }
  /** It may be stored, may still be stored later, or never will. */
  | { readonly kind: 'unknown'; readonly cause: EngineError }
  /** It is not stored and a retry needs somebody's help (full, read-only, forbidden). */
  | { readonly kind: 'refused'; readonly cause: EngineError };

/** Of `unknown` the cause says whether another try may help by itself; see `needsHelp`. */
export type ReadOutcome =
  | { readonly kind: 'found'; readonly bytes: Uint8Array; readonly sizeBytes: number }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

export type DeleteOutcome =
  | { readonly kind: 'deleted' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

export type ListOutcome =
  | { readonly kind: 'listed'; readonly keys: readonly string[]; readonly more: boolean }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

export type ProbeOutcome =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'refused'; readonly cause: EngineError }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

/**
 * Whether another try fails, too, until somebody helps: a wrong key, a missing permission. It says nothing
 * about the object, as whatever else left a call open: what refuses a read shows neither a copy nor an absence.
 * Whoever only looks ends with it; whoever has promised something, a writer or a fence, tries on, since it
 * may pass: keys are renewed, permissions are given back.
 */
export function needsHelp(cause: EngineError): boolean {
  return cause.code === 'BUCKET_REFUSED';
}

/** Bytes that `exists` answers carry of the object found: at least a slot object's preamble. */
export const EXISTS_HEAD_BYTES = 256;

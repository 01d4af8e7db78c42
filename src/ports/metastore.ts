/**
 * Single-key compare-and-set with watches: what Oxia, etcd and LMDB all keep under faults.
 * Source: DESIGN "Metastore". Keys are ASCII, `/`-separated; values at most 100 KiB.
 *
 * Every write is conditional. A version is never used again for a key, not even after a delete.
 * `EngineError METASTORE_UNAVAILABLE` means "not applied and never will be";
 * `METASTORE_INDETERMINATE` means "may be applied now, later or never": read back, then decide.
 * Reads may be stale unless they follow an acknowledged write or a `barrier` on the partition.
 */
export interface Metastore {
  get(key: string, options?: MetaCallOptions): Promise<MetaEntry | undefined>;

  /** Writes `value` if the key's version is `expected` (`'absent'`: if there is no entry). Durable before the answer. */
  put(
    key: string,
    value: Uint8Array,
    expected: MetaVersion | 'absent',
    options?: MetaCallOptions,
  ): Promise<PutResult>;

  /** Deletes the key if its version is `expected`. Durable before the answer. */
  delete(key: string, expected: MetaVersion, options?: MetaCallOptions): Promise<DeleteResult>;

  /** The entry with the greatest key in `[lowerBound, key]` (byte order). */
  floor(key: string, lowerBound: string, options?: MetaCallOptions): Promise<MetaEntry | undefined>;

  /** The entry with the greatest key that starts with `prefix`. */
  lastChild(prefix: string, options?: MetaCallOptions): Promise<MetaEntry | undefined>;

  /** Entries whose key starts with `prefix` and is greater than `startAfter`, in byte order. */
  children(
    prefix: string,
    options?: MetaCallOptions & { readonly startAfter?: string; readonly limit?: number },
  ): Promise<readonly MetaEntry[]>;

  /** After it, reads of this client on the partition see every write acknowledged before the call. */
  barrier(partition: string, options?: MetaCallOptions): Promise<void>;

  /**
   * Reports changes under `prefix` until closed. `ready` comes once the watch is established;
   * `resync` means that changes may have been missed: read again. Listeners must not throw.
   */
  watch(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch;

  close(): Promise<void>;
}

export interface MetaCallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Opaque, comparable with `===`. */
export type MetaVersion = number | string;

export interface MetaEntry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly version: MetaVersion;
}

export type PutResult =
  | { readonly kind: 'applied'; readonly version: MetaVersion }
  /** The condition failed; the entry as it is now (it may be our own earlier attempt's). */
  | { readonly kind: 'conflict'; readonly current: MetaEntry | undefined };

export type DeleteResult =
  | { readonly kind: 'deleted' }
  | { readonly kind: 'conflict'; readonly current: MetaEntry | undefined };

export type MetaWatchEvent =
  | { readonly kind: 'ready' }
  | { readonly kind: 'put'; readonly entry: MetaEntry }
  | { readonly kind: 'deleted'; readonly key: string }
  | { readonly kind: 'resync' };

export interface MetaWatch {
  close(): void;
}

/** Values above this are refused with `INVALID_RECORD`; rows are chunked below it. */
export const META_VALUE_BYTES_MAX = 100 * 1024;

/**
 * The partition of a key: all keys of one stream share one, and all of one chain.
 * `streams/<id>/…` → `streams/<id>`, `chains/<star>/…` → `chains/<star>`, else the first segment.
 */
export function partitionOf(key: string): string {
  const [first = '', second] = key.split('/', 2);
  return (first === 'streams' || first === 'chains') && second !== undefined
    ? `${first}/${second}`
    : first;
}

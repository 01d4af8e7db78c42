import { EngineError } from '../../lib/errors.ts';
import { throwIfAborted } from '../../lib/wait.ts';
import type {
  DeleteResult,
  MetaCallOptions,
  MetaEntry,
  MetaVersion,
  MetaWatch,
  MetaWatchEvent,
  Metastore,
  PutResult,
} from '../../ports/metastore.ts';
import {
  KEY_AFTER,
  checkMetaBound,
  checkMetaKey,
  checkMetaValue,
} from '../../ports/metastore-arguments.ts';
import { SortedKeys } from './sorted-keys.ts';

/** Everything a metastore in memory holds, at one moment. Plain data; values are not to be changed. */
export interface MemoryMetastoreSnapshot {
  /** The last version given out. */
  readonly version: number;
  /** In key order. */
  readonly entries: readonly MetaEntry[];
}

/**
 * The entries behind one or more `MemoryMetastore` handles: share it to let several engines of one
 * process (or of one simulated world) meet in the same metastore.
 */
export class MemoryMetastoreState {
  readonly #entries = new Map<string, MetaEntry>();
  readonly #keys = new SortedKeys();
  readonly #watches = new Set<MemoryWatch>();
  #version = 0;

  get(key: string): MetaEntry | undefined {
    return this.#entries.get(key);
  }

  put(key: string, value: Uint8Array, expected: MetaVersion | 'absent'): PutResult {
    const current = this.#entries.get(key);
    if ((current?.version ?? 'absent') !== expected) return { kind: 'conflict', current };
    const entry = { key, value: value.slice(), version: ++this.#version };
    this.#entries.set(key, entry);
    if (current === undefined) this.#keys.add(key);
    this.#notify(key, { kind: 'put', entry });
    return { kind: 'applied', version: entry.version };
  }

  delete(key: string, expected: MetaVersion): DeleteResult {
    const current = this.#entries.get(key);
    if (current?.version !== expected) return { kind: 'conflict', current };
    this.#entries.delete(key);
    this.#keys.remove(key);
    this.#notify(key, { kind: 'deleted', key });
    return { kind: 'deleted' };
  }

  floor(key: string, lowerBound: string): MetaEntry | undefined {
    const found = this.#keys.floor(key);
    return found === undefined || found < lowerBound ? undefined : this.#entries.get(found);
  }

  range(prefix: string, startAfter: string, limit: number): MetaEntry[] {
    const found: MetaEntry[] = [];
    for (const key of this.#keys.from(startAfter > prefix ? startAfter : prefix)) {
      if (found.length >= limit || !key.startsWith(prefix)) break;
      if (key > startAfter) found.push(this.#entries.get(key)!);
    }
    return found;
  }

  snapshot(): MemoryMetastoreSnapshot {
    return { version: this.#version, entries: this.range('', '', Number.POSITIVE_INFINITY) };
  }

  /**
   * Puts an earlier snapshot back, its version counter included: the accident of a metastore
   * restored from a copy. Watches are told to read again.
   */
  restore(snapshot: MemoryMetastoreSnapshot): void {
    this.#version = snapshot.version;
    this.#entries.clear();
    this.#keys.clear();
    for (const entry of snapshot.entries) {
      this.#entries.set(entry.key, entry);
      this.#keys.add(entry.key);
    }
    for (const watch of this.#watches) watch.push({ kind: 'resync' });
  }

  watch(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch {
    const watch = new MemoryWatch(prefix, listener, () => this.#watches.delete(watch));
    this.#watches.add(watch);
    watch.push({ kind: 'ready' });
    return watch;
  }

  #notify(key: string, event: MetaWatchEvent): void {
    for (const watch of this.#watches) if (key.startsWith(watch.prefix)) watch.push(event);
  }
}

/**
 * A metastore in memory: linearizable, deterministic, built on plain promises only (no timers), so
 * it also runs on a virtual clock. A call takes effect before it returns its promise; events of
 * watches come in later microtasks, in the order of the changes.
 *
 * Closing a handle leaves the shared state to the others.
 */
export class MemoryMetastore implements Metastore {
  readonly state: MemoryMetastoreState;
  readonly #watches = new Set<MetaWatch>();
  #closed = false;

  constructor(state: MemoryMetastoreState = new MemoryMetastoreState()) {
    this.state = state;
  }

  async get(key: string, options: MetaCallOptions = {}): Promise<MetaEntry | undefined> {
    this.#begin(options, 'get');
    checkMetaKey(key);
    return copyOf(this.state.get(key));
  }

  async put(
    key: string,
    value: Uint8Array,
    expected: MetaVersion | 'absent',
    options: MetaCallOptions = {},
  ): Promise<PutResult> {
    this.#begin(options, 'put');
    checkMetaKey(key);
    checkMetaValue(key, value);
    const result = this.state.put(key, value, expected);
    return result.kind === 'applied'
      ? result
      : { kind: 'conflict', current: copyOf(result.current) };
  }

  async delete(
    key: string,
    expected: MetaVersion,
    options: MetaCallOptions = {},
  ): Promise<DeleteResult> {
    this.#begin(options, 'delete');
    checkMetaKey(key);
    const result = this.state.delete(key, expected);
    return result.kind === 'deleted'
      ? result
      : { kind: 'conflict', current: copyOf(result.current) };
  }

  async floor(
    key: string,
    lowerBound: string,
    options: MetaCallOptions = {},
  ): Promise<MetaEntry | undefined> {
    this.#begin(options, 'floor');
    checkMetaBound(key);
    checkMetaBound(lowerBound);
    return copyOf(this.state.floor(key, lowerBound));
  }

  async lastChild(prefix: string, options: MetaCallOptions = {}): Promise<MetaEntry | undefined> {
    this.#begin(options, 'lastChild');
    checkMetaBound(prefix);
    return copyOf(this.state.floor(prefix + KEY_AFTER, prefix));
  }

  async children(
    prefix: string,
    options: MetaCallOptions & { readonly startAfter?: string; readonly limit?: number } = {},
  ): Promise<readonly MetaEntry[]> {
    this.#begin(options, 'children');
    const { startAfter = '', limit = Number.POSITIVE_INFINITY } = options;
    checkMetaBound(prefix);
    checkMetaBound(startAfter);
    return this.state.range(prefix, startAfter, limit).map((entry) => copyOf(entry)!);
  }

  async barrier(_partition: string, options: MetaCallOptions = {}): Promise<void> {
    this.#begin(options, 'barrier');
  }

  watch(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch {
    this.#begin({}, 'watch');
    checkMetaBound(prefix);
    const inner = this.state.watch(prefix, listener);
    const watch: MetaWatch = {
      close: () => {
        this.#watches.delete(watch);
        inner.close();
      },
    };
    this.#watches.add(watch);
    return watch;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const watch of [...this.#watches]) watch.close();
  }

  #begin(options: MetaCallOptions, what: string): void {
    if (this.#closed) throw new EngineError('CLOSED', 'the metastore is closed');
    throwIfAborted(options.signal, `metastore ${what}`);
  }
}

class MemoryWatch implements MetaWatch {
  readonly prefix: string;
  readonly #listener: (event: MetaWatchEvent) => void;
  readonly #onClose: () => void;
  #closed = false;

  constructor(prefix: string, listener: (event: MetaWatchEvent) => void, onClose: () => void) {
    this.prefix = prefix;
    this.#listener = listener;
    this.#onClose = onClose;
  }

  push(event: MetaWatchEvent): void {
    queueMicrotask(() => {
      if (this.#closed) return;
      this.#listener(event.kind === 'put' ? { ...event, entry: copyOf(event.entry)! } : event);
    });
  }

  close(): void {
    this.#closed = true;
    this.#onClose();
  }
}

/** Callers may keep and change what they get. */
function copyOf(entry: MetaEntry | undefined): MetaEntry | undefined {
  return entry === undefined ? undefined : { ...entry, value: entry.value.slice() };
}

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
import { CommitQueue } from './commit-queue.ts';
import { openEnvironment } from './environment.ts';
import type { LmdbEnvironment } from './environment.ts';
import { closedError } from './failures.ts';
import { Table, deleteWrite, putWrite } from './table.ts';
import type { TableWrite, WriteResult } from './table.ts';
import { Watches } from './watches.ts';

export interface LmdbMetastoreOptions {
  /** The directory of `metastore.lmdb` and its lock file; created when missing. On a local disk. */
  readonly directory: string;
  /**
   * Creates no metastore and refuses writes. File and lock file must be writable all the same:
   * readers enter themselves in the lock file so that writers leave them the pages they read.
   *
   * @default false
   */
  readonly readOnly?: boolean;
  /**
   * A write that is not on disk after this long is given up: METASTORE_INDETERMINATE, or
   * METASTORE_UNAVAILABLE when it still waited for writes before it. Happens when the disk hangs or
   * another process is stopped while it holds the write lock.
   *
   * @default 15000
   */
  readonly writeTimeoutMillis?: number;
  /**
   * How often watches look for the changes of other processes.
   *
   * @default 75
   */
  readonly watchPollMillis?: number;
}

const WRITE_TIMEOUT_MILLIS = 15_000;
const WATCH_POLL_MILLIS = 75;
const WATCH_ENTRIES_MAX = 10_000;
const QUEUE_MAX = 65_536;
/** How long `close` waits for the library once every write was answered. */
const CLOSE_GRACE_MILLIS = 5_000;

/**
 * A metastore in one file, shared by the processes and threads of a machine. Linearizable: a read
 * sees every commit made before it, by anybody. Writes are answered when they are on disk; those
 * that arrive together share one flush.
 *
 * A process that is killed in a transaction leaves no trace of it and its lock is freed; one that
 * is *stopped* in a transaction blocks all writers until it goes on or is killed.
 */
export class LmdbMetastore implements Metastore {
  readonly #environment: LmdbEnvironment;
  readonly #table: Table;
  readonly #queue: CommitQueue<TableWrite, WriteResult>;
  readonly #watches: Watches;
  #closed: Promise<void> | undefined;

  private constructor(environment: LmdbEnvironment, options: LmdbMetastoreOptions) {
    this.#environment = environment;
    const table = new Table(environment);
    this.#table = table;
    this.#watches = new Watches(table, {
      pollMillis: options.watchPollMillis ?? WATCH_POLL_MILLIS,
      entriesMax: WATCH_ENTRIES_MAX,
    });
    this.#queue = new CommitQueue({
      commit: (writes) => table.commit(writes),
      bytesOf: (write) => write.frame?.length ?? 0,
      onCommitted: () => this.#watches.lookSoon(),
      queueMax: QUEUE_MAX,
      timeoutMillis: options.writeTimeoutMillis ?? WRITE_TIMEOUT_MILLIS,
    });
  }

  /**
   * Opens the metastore of a directory, creating it when there is none (unless read only).
   *
   * @throws EngineError METASTORE_UNAVAILABLE (directory not usable, disk full), METASTORE_CORRUPT
   *   (not our file, damaged), LAYOUT_VERSION, INVALID_OPTION (network file system)
   */
  static async open(options: LmdbMetastoreOptions): Promise<LmdbMetastore> {
    return new LmdbMetastore(
      openEnvironment(options.directory, options.readOnly ?? false),
      options,
    );
  }

  async get(key: string, options: MetaCallOptions = {}): Promise<MetaEntry | undefined> {
    this.#begin(options, 'get');
    checkMetaKey(key);
    return this.#table.get(key);
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
    this.#refuseReadOnly();
    const write = putWrite(key, value, expected);
    return (await this.#queue.submit(write, options.signal)) as PutResult;
  }

  async delete(
    key: string,
    expected: MetaVersion,
    options: MetaCallOptions = {},
  ): Promise<DeleteResult> {
    this.#begin(options, 'delete');
    checkMetaKey(key);
    this.#refuseReadOnly();
    const write = deleteWrite(key, expected);
    return (await this.#queue.submit(write, options.signal)) as DeleteResult;
  }

  async floor(
    key: string,
    lowerBound: string,
    options: MetaCallOptions = {},
  ): Promise<MetaEntry | undefined> {
    this.#begin(options, 'floor');
    checkMetaBound(key);
    checkMetaBound(lowerBound);
    return this.#table.floor(key, lowerBound);
  }

  async lastChild(prefix: string, options: MetaCallOptions = {}): Promise<MetaEntry | undefined> {
    this.#begin(options, 'lastChild');
    checkMetaBound(prefix);
    return this.#table.floor(prefix + KEY_AFTER, prefix);
  }

  async children(
    prefix: string,
    options: MetaCallOptions & { readonly startAfter?: string; readonly limit?: number } = {},
  ): Promise<readonly MetaEntry[]> {
    this.#begin(options, 'children');
    const { startAfter = '', limit = Number.POSITIVE_INFINITY } = options;
    checkMetaBound(prefix);
    checkMetaBound(startAfter);
    return this.#table.range(prefix, startAfter, limit);
  }

  /** Reads are never stale here. */
  async barrier(_partition: string, options: MetaCallOptions = {}): Promise<void> {
    this.#begin(options, 'barrier');
  }

  watch(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch {
    this.#begin({}, 'watch');
    checkMetaBound(prefix);
    return this.#watches.add(prefix, listener);
  }

  /** Refuses new calls, waits until every accepted write was answered, frees the file. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#watches.close();
    await this.#queue.close();
    let timer: NodeJS.Timeout | undefined;
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_GRACE_MILLIS);
    });
    await Promise.race([this.#environment.close(), grace]);
    clearTimeout(timer);
  }

  #begin(options: MetaCallOptions, what: string): void {
    if (this.#closed !== undefined) throw closedError();
    throwIfAborted(options.signal, `metastore ${what}`);
  }

  #refuseReadOnly(): void {
    if (!this.#environment.readOnly) return;
    throw new EngineError('INVALID_OPTION', 'the metastore was opened to read only', {
      details: { option: 'readOnly', path: this.#environment.path },
    });
  }
}

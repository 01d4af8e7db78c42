import { resolve } from 'node:path';
import { assert } from '../../lib/assert.ts';
import type { EngineError } from '../../lib/errors.ts';
import { checkObjectKey, checkObjectPrefix } from '../../lib/object-key.ts';
import type {
  BucketStore,
  CallOptions,
  CreateOutcome,
  DeleteOutcome,
  ListOptions,
  ListOutcome,
  ProbeOutcome,
  ReadOptions,
  ReadOutcome,
} from '../../ports/bucket-store.ts';
import type { Processes } from '../../ports/processes.ts';
import { systemProcesses } from '../system/processes.ts';
import { Calls } from '../calls/calls.ts';
import type { BucketContext } from './context.ts';
import { createObject } from './create-object.ts';
import { deleteObjects } from './delete-objects.ts';
import { Directories } from './directories.ts';
import { openError } from './failure.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import { Health } from './health.ts';
import { checkLayout, ensureLayout, OBJECTS, TEMPS } from './layout.ts';
import { listObjects } from './list-objects.ts';
import { NODE_FILE_SYSTEM } from './node-file-system.ts';
import { DIRECT_WRITE_BYTES_MIN, ObjectWriter } from './object-writer.ts';
import { probeDirectory } from './probe.ts';
import { readObject } from './read-object.ts';
import { SyncedDirectory } from './synced-directory.ts';
import { TempFiles } from './temp-files.ts';

export interface DirectoryBucketOptions {
  /** The folder of the bucket; made, with the folders above it, if it does not exist. */
  readonly root: string;
  /** Names the bucket in errors and metrics. The folder by default. */
  readonly name?: string;
  /** Tells whose temporary files lie about from earlier runs. Those of the host by default. */
  readonly processes?: Processes;
  /**
   * Creates and removes nothing, not even the folder or left-overs: creations are refused with
   * `BUCKET_REFUSED`, deletions `unknown`. False by default.
   */
  readonly readOnly?: boolean;
  /** Creations at work at once; more wait in a queue. 64 by default. */
  readonly concurrentCreates?: number;
  /** Other calls at work at once. 64 by default. */
  readonly concurrentReads?: number;
  /** Ends a call, queueing included, with `unknown` after this long. 30,000 by default. */
  readonly timeoutMillis?: number;
  /**
   * Objects of at least this size are written past the page cache where the file system allows:
   * cheaper, but read from the disk when read soon after. `Infinity` turns it off; 32 KiB by default.
   */
  readonly directWriteBytesMin?: number;
  /** The host's by default. */
  readonly fileSystem?: DirectoryFileSystem;
}

const CONCURRENT_DEFAULT = 64;
const TIMEOUT_MILLIS_DEFAULT = 30_000;

/**
 * A bucket in a folder of a local file system with hard links. Several stores, threads and processes
 * of one host may use the folder at once. What is answered `created`, `exists` or read as evidence
 * survives a crash of the process and a power cut, as far as the disk keeps what it says it synced.
 *
 * A failed sync ends the store's usefulness: creations under way end `unknown`, later ones are
 * refused with `BUCKET_UNAVAILABLE`, and evidence is `unknown`, until the bucket is opened anew.
 * On Windows directories cannot be synced: `probe` refuses.
 */
export class DirectoryBucketStore implements BucketStore {
  readonly name: string;
  readonly wantsPages = true;
  readonly #context: BucketContext;
  readonly #creates: Calls;
  readonly #others: Calls;
  readonly #timeoutMillis: number;
  #closing: Promise<void> | undefined;

  /** For `open`. */
  private constructor(context: BucketContext, options: DirectoryBucketOptions) {
    const { timeoutMillis = TIMEOUT_MILLIS_DEFAULT } = options;
    const { concurrentCreates = CONCURRENT_DEFAULT, concurrentReads = CONCURRENT_DEFAULT } =
      options;
    this.name = context.name;
    this.#context = context;
    this.#timeoutMillis = timeoutMillis;
    this.#creates = new Calls(context.name, concurrentCreates, timeoutMillis);
    this.#others = new Calls(context.name, concurrentReads, timeoutMillis);
  }

  /**
   * Opens the bucket, makes its folder if there is none, and removes temporary files of processes
   * that are gone.
   *
   * @throws {EngineError} `LAYOUT_VERSION`, `BUCKET_FULL`, `BUCKET_REFUSED` (not permitted),
   * `BUCKET_UNAVAILABLE`.
   */
  static async open(options: DirectoryBucketOptions): Promise<DirectoryBucketStore> {
    const { fileSystem = NODE_FILE_SYSTEM, readOnly = false } = options;
    const processes = options.processes ?? systemProcesses();
    const root = resolve(options.root);
    const name = options.name ?? root;
    try {
      const temps = new TempFiles(`${root}/${TEMPS}`, processes, fileSystem);
      if (readOnly) {
        await checkLayout(fileSystem, root);
      } else {
        await ensureLayout(fileSystem, root, temps);
        await temps.sweep(processes);
      }
      const health = new Health(name);
      const path = `${root}/${OBJECTS}`;
      const fd = await fileSystem.open(path, 'directory');
      const objects = new SyncedDirectory(path, fd, fileSystem, health);
      const context: BucketContext = {
        name,
        readOnly,
        fileSystem,
        health,
        temps,
        objects,
        objectsIdentity: (await fileSystem.stat(fd)).identity,
        directories: new Directories(objects, fileSystem, health),
        writer: new ObjectWriter(
          fileSystem,
          temps,
          options.directWriteBytesMin ?? DIRECT_WRITE_BYTES_MIN,
        ),
      };
      return new DirectoryBucketStore(context, options);
    } catch (error) {
      throw openError(error, name);
    }
  }

  async createOnly(key: string, bytes: Uint8Array, options?: CallOptions): Promise<CreateOutcome> {
    checkObjectKey(key);
    return this.#creates.run<CreateOutcome>({
      what: 'create',
      signal: options?.signal,
      sizeBytes: bytes.byteLength,
      work: (call) => createObject(this.#context, call, key, bytes),
      unknown,
    });
  }

  readHead(key: string, lengthBytes: number, options?: ReadOptions): Promise<ReadOutcome> {
    return this.readRange(key, 0, lengthBytes, options);
  }

  async readRange(
    key: string,
    start: number,
    end: number,
    options?: ReadOptions,
  ): Promise<ReadOutcome> {
    checkObjectKey(key);
    assert(start >= 0 && start <= end, 'range is not within an object');
    const request = { key, start, end, evidence: options?.evidence === true };
    return this.#others.run<ReadOutcome>({
      what: 'read',
      signal: options?.signal,
      work: () => readObject(this.#context, request),
      unknown,
    });
  }

  async delete(key: string, options?: CallOptions): Promise<DeleteOutcome> {
    return (await this.deleteMany([key], options))[0]!;
  }

  async deleteMany(
    keys: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DeleteOutcome[]> {
    for (const key of keys) checkObjectKey(key);
    return this.#others.run<readonly DeleteOutcome[]>({
      what: 'delete',
      signal: options?.signal,
      work: (call) => deleteObjects(this.#context, call, keys),
      unknown: (cause) => keys.map(() => ({ kind: 'unknown', cause })),
    });
  }

  /** Keys in byte order. */
  async list(prefix: string, options: ListOptions = {}): Promise<ListOutcome> {
    checkObjectPrefix(prefix);
    checkObjectPrefix(options.startAfter ?? '');
    return this.#others.run<ListOutcome>({
      what: 'list',
      signal: options.signal,
      work: () => listObjects(this.#context, prefix, options),
      unknown,
    });
  }

  async probe(options?: CallOptions): Promise<ProbeOutcome> {
    return probeDirectory(this, this.#context.health, options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const ended = await Promise.all([this.#creates.close(), this.#others.close()]);
    // Calls that hang still hold descriptors, whose numbers must not be given to other files.
    // Files made ahead are of no call.
    const disposal = this.#context.temps.close(this.#timeoutMillis);
    if (ended.includes(false) || !(await disposal)) return;
    await this.#context.directories.close();
  }
}

function unknown(cause: EngineError): { readonly kind: 'unknown'; readonly cause: EngineError } {
  return { kind: 'unknown', cause };
}

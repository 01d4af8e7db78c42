/**
 * Entries and marks of change in one LMDB file. Reads are synchronous and see all that was committed
 * by any process. Writes are judged and applied by LMDB's own thread, without a callback into
 * JavaScript: a thread that is busy, or dies, never holds the write lock.
 */
import { EngineError } from '../../lib/errors.ts';
import type { DeleteResult, MetaEntry, MetaVersion, PutResult } from '../../ports/metastore.ts';
import { KEY_AFTER } from '../../ports/metastore-arguments.ts';
import type { Answer } from './commit-queue.ts';
import type { LmdbEnvironment } from './environment.ts';
import { lmdbError } from './failures.ts';
import { isDiskFull } from './file-check.ts';
import { beginFrame, openFrame, sealFrame } from './frame.ts';

/** One conditional write; without a frame it deletes. */
export interface TableWrite {
  readonly key: string;
  readonly keyBytes: Buffer;
  readonly frame: Buffer | undefined;
  readonly expected: MetaVersion | 'absent';
}

export type WriteResult = PutResult | DeleteResult;

type TableEnvironment = Pick<
  LmdbEnvironment,
  'directory' | 'path' | 'entries' | 'system' | 'versions'
>;

export function putWrite(
  key: string,
  value: Uint8Array,
  expected: MetaVersion | 'absent',
): TableWrite {
  return { key, keyBytes: bytesOf(key), frame: beginFrame(value), expected };
}

export function deleteWrite(key: string, expected: MetaVersion): TableWrite {
  return { key, keyBytes: bytesOf(key), frame: undefined, expected };
}

export class Table {
  readonly #environment: TableEnvironment;

  constructor(environment: TableEnvironment) {
    this.#environment = environment;
  }

  get(key: string): MetaEntry | undefined {
    return this.#read(() => {
      const keyBytes = bytesOf(key);
      const found = this.#environment.entries.getEntry(keyBytes);
      return found === undefined ? undefined : entryOf({ ...found, key: keyBytes });
    });
  }

  floor(key: string, lowerBound: string): MetaEntry | undefined {
    if (key === '') return undefined;
    return this.#read(() => {
      const options = { start: bytesOf(key), reverse: true, limit: 1, versions: true };
      for (const found of this.#environment.entries.getRange(options)) {
        return found.key.toString('latin1') < lowerBound ? undefined : entryOf(found);
      }
      return undefined;
    });
  }

  range(prefix: string, startAfter: string, limit: number): MetaEntry[] {
    return this.#read(() => {
      const from = startAfter > prefix ? startAfter : prefix;
      const found: MetaEntry[] = [];
      const range = this.#environment.entries.getRange({
        ...(from === '' ? {} : { start: bytesOf(from) }),
        end: bytesOf(prefix + KEY_AFTER),
        versions: true,
      });
      for (const item of range) {
        if (found.length >= limit) break;
        const entry = entryOf(item);
        if (entry.key > startAfter) found.push(entry);
      }
      return found;
    });
  }

  /** A text that differs after every change under the first segment that the prefix names, or begins. */
  changeMark(prefix: string): string {
    const segmentEnd = prefix.indexOf('/');
    const { system } = this.#environment;
    return this.#read(() => {
      if (segmentEnd >= 0) {
        return system.getBinary(markKey(prefix.slice(0, segmentEnd)))?.toString('hex') ?? '';
      }
      const range = system.getRange({
        start: markKey(prefix),
        end: markKey(prefix + KEY_AFTER),
      });
      return Array.from(
        range,
        ({ key, value }) => `${key.toString()}=${value.toString('hex')}`,
      ).join();
    });
  }

  /**
   * Judges and applies writes, in order. Each is answered once its commit is on disk.
   *
   * @throws when nothing was handed to LMDB yet
   */
  async commit(writes: readonly TableWrite[]): Promise<readonly Answer<WriteResult>[]> {
    const { entries, versions: source } = this.#environment;
    const versions = writes.map(() => source.next());
    const submitted = writes.map((write, index) => this.#submit(write, versions[index]!));
    for (const held of submitted) held.catch(ignoreCommitError);
    const settled = await Promise.allSettled(submitted);
    const [flushed] = await Promise.allSettled([entries.flushed]);
    return settled.map((outcome, index): Answer<WriteResult> => {
      const write = writes[index]!;
      if (outcome.status === 'rejected') return this.#failed(outcome.reason, writes);
      if (flushed.status === 'rejected') return this.#failed(flushed.reason, writes);
      if (!outcome.value) return this.#conflict(write);
      return write.frame === undefined
        ? { kind: 'answer', answer: { kind: 'deleted' } }
        : { kind: 'answer', answer: { kind: 'applied', version: versions[index]! } };
    });
  }

  /** Hands one write to LMDB. Resolves once it is judged and committed: whether its condition held. */
  #submit(write: TableWrite, version: number): Promise<boolean> {
    const { entries, system } = this.#environment;
    const { key, keyBytes, frame, expected } = write;
    if (frame !== undefined) sealFrame(frame, keyBytes, version);
    const run = (): void => {
      // Their outcomes are that of the condition.
      if (frame === undefined) void entries.remove(keyBytes);
      else void entries.put(keyBytes, frame, version);
      void system.put(markKey(key.split('/', 1)[0]!), markOf(version));
    };
    if (expected === 'absent') return entries.ifNoExists(keyBytes, run);
    if (typeof expected === 'number') return entries.ifVersion(keyBytes, expected, run);
    // A version of another kind of store is none of ours.
    return Promise.resolve(false);
  }

  #conflict(write: TableWrite): Answer<WriteResult> {
    try {
      return { kind: 'answer', answer: { kind: 'conflict', current: this.get(write.key) } };
    } catch (error) {
      return { kind: 'error', error: error as EngineError };
    }
  }

  /** What a failed commit means for each write that was to be in it. */
  #failed(cause: unknown, writes: readonly TableWrite[]): Answer<WriteResult> {
    const { directory, path } = this.#environment;
    const bytes = writes.reduce((sum, { frame }) => sum + (frame?.length ?? 0), 0);
    const details = { path };
    // Data pages are written before the page that makes them count: on a full disk nothing applies.
    const error = isDiskFull(directory, bytes)
      ? new EngineError('METASTORE_UNAVAILABLE', 'the disk of the metastore is full', {
          cause,
          details,
        })
      : new EngineError('METASTORE_INDETERMINATE', 'the metastore failed to commit', {
          cause,
          details,
          sideEffects: 'possible',
        });
    return { kind: 'error', error };
  }

  /** The library keeps one read snapshot per turn of the event loop: begin a new one. */
  #read<T>(run: () => T): T {
    try {
      this.#environment.entries.resetReadTxn();
      return run();
    } catch (cause) {
      throw lmdbError(cause, 'the metastore cannot be read', this.#environment.path);
    }
  }
}

/** The reason of a failed commit comes as a promise of its own: unhandled, it would end the process. */
function ignoreCommitError(failure: unknown): void {
  const reason = (failure as { commitError?: Promise<unknown> } | null)?.commitError;
  reason?.catch(() => undefined);
}

function bytesOf(key: string): Buffer {
  return Buffer.from(key, 'latin1');
}

function markKey(segment: string): Buffer {
  return bytesOf(`changed/${segment}`);
}

function markOf(version: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(version);
  return bytes;
}

interface Stored {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly version?: number;
}

function entryOf({ key: keyBytes, value: frame, version = 0 }: Stored): MetaEntry {
  const key = keyBytes.toString('latin1');
  return { key, value: openFrame(frame, { key, keyBytes, version }), version };
}

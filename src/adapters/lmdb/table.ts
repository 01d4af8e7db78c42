/**
 * Entries, versions and marks of change in one LMDB file. Everything here is synchronous: reads see
 * all that was committed by any process, `apply` runs inside a write transaction.
 */
import type { EngineError } from '../../lib/errors.ts';
import type { DeleteResult, MetaEntry, MetaVersion, PutResult } from '../../ports/metastore.ts';
import { KEY_AFTER } from '../../ports/metastore-arguments.ts';
import type { Answer } from './commit-queue.ts';
import type { LmdbEnvironment } from './environment.ts';
import { lmdbError } from './failures.ts';
import { beginFrame, openFrame, sealFrame } from './frame.ts';

/** One conditional write; without a frame it deletes. */
export interface TableWrite {
  readonly key: string;
  readonly keyBytes: Buffer;
  readonly frame: Buffer | undefined;
  readonly expected: MetaVersion | 'absent';
}

export type WriteResult = PutResult | DeleteResult;

const COUNTER_KEY = Buffer.from('version');
const COUNTER_BYTES = 6;

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
  readonly #environment: LmdbEnvironment;

  constructor(environment: LmdbEnvironment) {
    this.#environment = environment;
  }

  get(key: string): MetaEntry | undefined {
    return this.#read(() => this.#entry(key, bytesOf(key)));
  }

  floor(key: string, lowerBound: string): MetaEntry | undefined {
    if (key === '') return undefined;
    return this.#read(() => {
      const start = bytesOf(key);
      for (const found of this.#environment.entries.getRange({ start, reverse: true, limit: 1 })) {
        const foundKey = found.key.toString('latin1');
        return foundKey < lowerBound ? undefined : entryOf(foundKey, found.key, found.value);
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
      });
      for (const { key, value } of range) {
        if (found.length >= limit) break;
        const text = key.toString('latin1');
        if (text > startAfter) found.push(entryOf(text, key, value));
      }
      return found;
    });
  }

  /**
   * A number that grows with every change under the segment a prefix names; with every change at
   * all when the prefix does not name a whole segment.
   */
  changeMark(prefix: string): number {
    const end = prefix.indexOf('/');
    const key = end < 0 ? COUNTER_KEY : markKey(prefix.slice(0, end));
    return this.#read(() => this.#counter(key));
  }

  /** The last version given out. */
  version(): number {
    return this.#read(() => this.#counter(COUNTER_KEY));
  }

  /** Judges and applies writes in order, inside the caller's write transaction. */
  apply(writes: readonly TableWrite[]): Answer<WriteResult>[] {
    const { system } = this.#environment;
    const before = this.#counter(COUNTER_KEY);
    let version = before;
    const marks = new Set<string>();
    const answers = writes.map((write): Answer<WriteResult> => {
      const result = this.#applyOne(write, version + 1);
      if (result.kind === 'answer' && result.answer.kind !== 'conflict') {
        version++;
        marks.add(write.key.split('/', 1)[0]!);
      }
      return result;
    });
    if (version !== before) {
      const bytes = counterBytes(version);
      system.putSync(COUNTER_KEY, bytes);
      for (const segment of marks) system.putSync(markKey(segment), bytes);
    }
    return answers;
  }

  #applyOne(write: TableWrite, version: number): Answer<WriteResult> {
    const { entries } = this.#environment;
    let current: MetaEntry | undefined;
    try {
      current = this.#entry(write.key, write.keyBytes);
    } catch (error) {
      return { kind: 'error', error: error as EngineError };
    }
    if ((current?.version ?? 'absent') !== write.expected) {
      return { kind: 'answer', answer: { kind: 'conflict', current } };
    }
    if (write.frame === undefined) {
      entries.removeSync(write.keyBytes);
      return { kind: 'answer', answer: { kind: 'deleted' } };
    }
    sealFrame(write.frame, write.keyBytes, version);
    entries.putSync(write.keyBytes, write.frame);
    return { kind: 'answer', answer: { kind: 'applied', version } };
  }

  #entry(key: string, keyBytes: Buffer): MetaEntry | undefined {
    const frame = this.#environment.entries.getBinary(keyBytes);
    return frame === undefined ? undefined : entryOf(key, keyBytes, frame);
  }

  #counter(key: Buffer): number {
    const bytes = this.#environment.system.getBinary(key);
    return bytes === undefined ? 0 : bytes.readUIntLE(0, COUNTER_BYTES);
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

function bytesOf(key: string): Buffer {
  return Buffer.from(key, 'latin1');
}

function markKey(segment: string): Buffer {
  return bytesOf(`changed/${segment}`);
}

function counterBytes(version: number): Buffer {
  const bytes = Buffer.alloc(COUNTER_BYTES);
  bytes.writeUIntLE(version, 0, COUNTER_BYTES);
  return bytes;
}

function entryOf(key: string, keyBytes: Buffer, frame: Buffer): MetaEntry {
  const { version, value } = openFrame(frame, key, keyBytes);
  return { key, value, version };
}

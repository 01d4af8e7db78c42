import { statSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import type { Database, RootDatabase } from 'lmdb';
import { EngineError } from '../../lib/errors.ts';
import { checkFile, prepareDirectory, syncDirectories } from './file-check.ts';
import { corruptFile, lmdbError } from './failures.ts';
import { VersionSource } from './versions.ts';

export type BytesDatabase = Database<Buffer, Buffer>;

/** One opened file: entries by key, with LMDB's own versions, and what the adapter keeps for itself. */
export interface LmdbEnvironment {
  readonly directory: string;
  readonly path: string;
  readonly readOnly: boolean;
  readonly entries: BytesDatabase;
  readonly system: BytesDatabase;
  /** Versions that nobody else was given or ever will be. */
  readonly versions: VersionSource;
  close(): Promise<void>;
}

const FILE_NAME = 'metastore.lmdb';
const SYSTEM = 'asterlog.system';
const ENTRIES = 'asterlog.entries';
const LAYOUT_KEY = Buffer.from('layout');
const LAYOUT_VERSION = '1';

/** Virtual, not used space: the map never has to move while another process grows the file. */
const MAP_BYTES = 64 * 1024 ** 3;
const READERS_MAX = 512;

/** What one thread has opened of a file, shared by all its handles. */
interface SharedFile {
  readonly root: RootDatabase<Buffer, Buffer>;
  readonly entries: BytesDatabase;
  readonly system: BytesDatabase;
  readonly versions: VersionSource;
  handleCount: number;
}

/**
 * By device and inode. Opening takes the write lock and blocks the thread; were it held by a
 * transaction of another handle of the same thread, which needs the thread to end, both would wait
 * for ever.
 */
const files = new Map<string, SharedFile>();

/**
 * Opens or creates `metastore.lmdb` in `directory`; to read only, it must be there.
 *
 * LMDB itself always opens the file to write: handles of one process share what the first one
 * opened, and a writer cannot share a reader's.
 *
 * Blocks this thread while another process or thread is inside a write transaction (well below a
 * millisecond, unless it is stopped in it).
 *
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT, LAYOUT_VERSION, INVALID_OPTION
 */
export function openEnvironment(directory: string, readOnly: boolean): LmdbEnvironment {
  const path = join(directory, FILE_NAME);
  const created = readOnly ? undefined : prepareDirectory(directory, path);
  checkFile(path, readOnly ? 'present' : 'present-or-empty');
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    const id = `${dev}:${ino}`;
    const file = files.get(id) ?? openFile(path, readOnly);
    files.set(id, file);
    file.handleCount++;
    try {
      if (!readOnly) syncDirectories(directory, created);
    } catch (error) {
      void release(id, file).catch(() => undefined);
      throw error;
    }
    const { entries, system, versions } = file;
    const close = (): Promise<void> => release(id, file);
    return { directory, path, readOnly, entries, system, versions, close };
  } catch (cause) {
    throw lmdbError(cause, 'the metastore cannot be opened', path);
  }
}

function openFile(path: string, readOnly: boolean): SharedFile {
  const root = openRoot(path);
  try {
    refuseForeign(root, path);
    const create = !readOnly;
    const system = openDatabase(root, { name: SYSTEM, create }, path);
    checkLayout(system, path, readOnly);
    const entries = openDatabase(root, { name: ENTRIES, create, useVersions: true }, path);
    return { root, entries, system, versions: new VersionSource(system), handleCount: 0 };
  } catch (error) {
    void root.close().catch(() => undefined);
    throw error;
  }
}

async function release(id: string, file: SharedFile): Promise<void> {
  if (--file.handleCount > 0) return;
  files.delete(id);
  await file.root.close();
}

/** Missing in the library's types: how many writes of one turn begin a transaction early. */
const UNDECLARED_OPTIONS: object = { txnStartThreshold: Number.MAX_SAFE_INTEGER };

function openRoot(path: string): RootDatabase<Buffer, Buffer> {
  return open<Buffer, Buffer>({
    path,
    noSubdir: true,
    // A commit is on disk before anybody can read it: what is read is never undone by a power cut.
    overlappingSync: false,
    // Writes are grouped here: one transaction a group, begun when the group is complete.
    eventTurnBatching: false,
    ...UNDECLARED_OPTIONS,
    keyEncoding: 'binary',
    encoding: 'binary',
    maxDbs: 4,
    maxReaders: READERS_MAX,
    mapSize: MAP_BYTES,
  });
}

function openDatabase(
  root: RootDatabase<Buffer, Buffer>,
  options: { readonly name: string; readonly create: boolean; readonly useVersions?: boolean },
  path: string,
): BytesDatabase {
  const encoding = { keyEncoding: 'binary', encoding: 'binary' } as const;
  // Undefined when there is none and it may not be created, whatever the types say.
  const found = root.openDB<Buffer, Buffer>({ ...options, ...encoding }) as
    BytesDatabase | undefined;
  if (found === undefined) throw notAMetastore(path);
  return found;
}

/** Names of databases are keys of the root: anything else there belongs to another program. */
function refuseForeign(root: RootDatabase<Buffer, Buffer>, path: string): void {
  for (const key of root.getKeys()) {
    const name = key.toString('latin1').replace(/\0$/, '');
    if (name !== SYSTEM && name !== ENTRIES) throw corruptFile(path, 'belongs to another program');
  }
}

function checkLayout(system: BytesDatabase, path: string, readOnly: boolean): void {
  const found = readOnly ? readLayout(system) : system.transactionSync(() => ensureLayout(system));
  if (found === undefined) throw notAMetastore(path);
  if (found !== LAYOUT_VERSION) {
    throw new EngineError('LAYOUT_VERSION', 'the metastore was written by another version', {
      details: { path, found, supported: LAYOUT_VERSION },
    });
  }
}

function readLayout(system: BytesDatabase): string | undefined {
  return system.getBinary(LAYOUT_KEY)?.toString('latin1');
}

function ensureLayout(system: BytesDatabase): string {
  const found = readLayout(system);
  if (found === undefined) system.putSync(LAYOUT_KEY, Buffer.from(LAYOUT_VERSION));
  return found ?? LAYOUT_VERSION;
}

function notAMetastore(path: string): EngineError {
  return new EngineError('METASTORE_UNAVAILABLE', 'there is no metastore yet', {
    details: { path },
  });
}

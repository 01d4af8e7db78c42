/**
 * Checks made before LMDB touches a file: it crashes the process on bytes that are not its own, on
 * a file cut short, on a full disk, and hangs where it may not create files.
 *
 * The lock file is never opened here: closing any descriptor of it would drop the locks that a
 * second handle of this process holds on it.
 */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { EngineError } from '../../lib/errors.ts';
import { corruptFile, lmdbError } from './failures.ts';

/** LMDB maps its file and relies on its locks: neither is sound on these. */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, 'nfs'],
  [0xff534d42, 'cifs'],
  [0xfe534d42, 'smb2'],
]);

/** Below this, creating the lock file and its mapping may kill the process. */
const FREE_BYTES_MIN = 1024 * 1024;

/**
 * Creates the directory and an empty file in it where they are missing, and checks that both can be
 * written. Answers the topmost directory that was created, if any.
 *
 * @throws EngineError METASTORE_UNAVAILABLE, INVALID_OPTION
 */
export function prepareDirectory(directory: string, path: string): string | undefined {
  try {
    const created = makeDirectories(directory);
    checkFileSystem(directory);
    probeWritable(directory, path);
    return created;
  } catch (cause) {
    throw lmdbError(cause, 'the directory of the metastore cannot be used', path);
  }
}

/**
 * Checks that LMDB wrote the file and that its trees begin inside it.
 *
 * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT
 */
export function checkFile(path: string, expected: 'present' | 'present-or-empty'): void {
  // Another process may be writing a meta page or growing the file right now.
  for (let attempt = 0; ; attempt++) {
    let problem: string | undefined;
    try {
      problem = headerProblem(path, expected);
    } catch (cause) {
      throw lmdbError(cause, 'the metastore cannot be read', path);
    }
    if (problem === undefined) return;
    if (attempt === 3) throw corruptFile(path, problem);
  }
}

/** Makes the names of files in `directory`, and of directories from `created` on, survive a power cut. */
export function syncDirectories(directory: string, created: string | undefined): void {
  const last = resolve(created === undefined ? directory : dirname(created));
  for (let path = resolve(directory); ; path = dirname(path)) {
    const descriptor = openSync(path, 'r');
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    if (path === last || path === dirname(path)) return;
  }
}

/** Whether so little room is left that a failed commit is to be blamed on it. */
export function isDiskFull(directory: string, neededBytes: number): boolean {
  try {
    return freeBytes(directory) < neededBytes + FREE_BYTES_MIN;
  } catch {
    return false;
  }
}

/**
 * Creates what is missing and answers the topmost directory created. Node's own recursive form spins
 * for ever where the system answers that the parent is missing though it is there, as in `/proc`.
 */
function makeDirectories(directory: string): string | undefined {
  if (existsSync(directory)) return undefined;
  const parent = dirname(directory);
  const created = parent === directory ? undefined : makeDirectories(parent);
  try {
    mkdirSync(directory);
  } catch (error) {
    // Another process was faster.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return created ?? directory;
}

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

function checkFileSystem(directory: string): void {
  const network = NETWORK_FILE_SYSTEMS.get(statfsSync(directory).type >>> 0);
  if (network !== undefined) {
    throw new EngineError('INVALID_OPTION', 'an embedded metastore needs a local disk', {
      details: { option: 'directory', path: directory, fileSystem: network },
    });
  }
  const free = freeBytes(directory);
  if (free < FREE_BYTES_MIN) {
    throw new EngineError('METASTORE_UNAVAILABLE', 'the disk of the metastore is full', {
      details: { path: directory, freeBytes: free },
    });
  }
}

function probeWritable(directory: string, path: string): void {
  // The data file holds no locks; creating it empty is what LMDB would do.
  closeSync(openSync(path, constants.O_RDWR | constants.O_CREAT, 0o644));
  const lockPath = `${path}-lock`;
  if (existsSync(lockPath)) {
    accessSync(lockPath, constants.R_OK | constants.W_OK);
    return;
  }
  const probe = join(directory, `.probe-${process.pid}`);
  const descriptor = openSync(probe, 'w');
  try {
    writeSync(descriptor, 'x');
  } finally {
    closeSync(descriptor);
    unlinkSync(probe);
  }
}

const META_BYTES = 176;
const MAGIC = 0xbeefc0de;
const DATA_VERSION = 2;
const META_PAGE_FLAG = 0x08;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

interface MetaPage {
  readonly pageSize: number;
  readonly transaction: bigint;
  readonly roots: readonly bigint[];
}

function headerProblem(path: string, expected: 'present' | 'present-or-empty'): string | undefined {
  const descriptor = openSync(path, 'r');
  try {
    if (fstatSync(descriptor).size === 0) {
      return expected === 'present' ? 'empty' : undefined;
    }
    const first = readMeta(descriptor, 0);
    if (typeof first === 'string') return first;
    const second = readMeta(descriptor, first.pageSize);
    if (typeof second === 'string') return second;
    const latest = second.transaction > first.transaction ? second : first;
    const pages = BigInt(Math.floor(fstatSync(descriptor).size / first.pageSize));
    return latest.roots.some((root) => root !== NO_PAGE && root >= pages) ? 'cut short' : undefined;
  } finally {
    closeSync(descriptor);
  }
}

function readMeta(descriptor: number, offset: number): MetaPage | string {
  const bytes = Buffer.alloc(META_BYTES);
  if (readSync(descriptor, bytes, 0, META_BYTES, offset) < META_BYTES) return 'cut short';
  if (bytes.readUInt32LE(24) !== MAGIC || (bytes.readUInt16LE(18) & META_PAGE_FLAG) === 0) {
    return 'not written by LMDB';
  }
  if ((bytes.readUInt32LE(28) & 0xffff) !== DATA_VERSION) return 'another version of LMDB';
  const pageSize = bytes.readUInt32LE(48);
  if (pageSize < 512 || pageSize > 65_536 || (pageSize & (pageSize - 1)) !== 0) return 'page size';
  return {
    pageSize,
    transaction: bytes.readBigUInt64LE(152),
    roots: [bytes.readBigUInt64LE(88), bytes.readBigUInt64LE(136)],
  };
}

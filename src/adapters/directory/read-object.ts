import { EngineError } from '../../lib/errors.ts';
import type { ReadOutcome } from '../../ports/bucket-store.ts';
import type { BucketContext } from './context.ts';
import { codeOf, readError } from './failure.ts';
import type { DirectoryFileSystem } from './file-system.ts';
import { placeOf, type Place } from './names.ts';

/** Reads up to this size are issued together with the question for the file's size. */
const BLIND_READ_BYTES_MAX = 64 * 1024;

export interface ReadRequest {
  readonly key: string;
  readonly start: number;
  readonly end: number;
  readonly evidence: boolean;
}

export async function readObject(
  context: BucketContext,
  { key, start, end, evidence }: ReadRequest,
): Promise<ReadOutcome> {
  const { fileSystem, objects, name } = context;
  const place = placeOf(key);
  try {
    const path = `${objects.path}/${place.directory}/${place.file}`;
    const found = await readFile(fileSystem, path, start, end).catch(undefinedIfAbsent);
    // After the reading: a sync before it would not cover a name that came in between.
    if (evidence) await syncDirectoryOf(context, place, found !== undefined);
    return found === undefined ? await absent(context) : { kind: 'found', ...found };
  } catch (error) {
    return { kind: 'unknown', cause: readError(error, name) };
  }
}

/** Makes what was seen of a name durable: that it is there, or that it was removed. */
async function syncDirectoryOf(
  { directories }: BucketContext,
  { directory: path }: Place,
  mustExist: boolean,
): Promise<void> {
  const directory = await directories.acquire(path, 'undefined');
  if (directory === undefined) {
    if (!mustExist) return;
    throw new EngineError('BUCKET_UNAVAILABLE', 'a directory went away while it was read', {
      details: { directory: path },
    });
  }
  try {
    await directory.sync('evidence');
  } finally {
    directories.release(path);
  }
}

function undefinedIfAbsent(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
  return undefined;
}

/**
 * Nothing is absent from a bucket that is not there: an unmounted disk shows an empty folder, and
 * taking its silence for an answer would cut off acknowledged slots.
 */
export async function absent({
  fileSystem,
  objects,
  objectsIdentity,
  name,
}: BucketContext): Promise<{ readonly kind: 'absent' }> {
  const facts = await fileSystem.stat(objects.path);
  if (facts.identity === objectsIdentity) return { kind: 'absent' };
  throw new EngineError('BUCKET_UNAVAILABLE', 'bucket directory was replaced since it was opened', {
    details: { bucket: name },
  });
}

/** The bytes `[start, end)` of a file, fewer at its end, and its size. */
export async function readFile(
  fileSystem: DirectoryFileSystem,
  path: string,
  start: number,
  end: number,
): Promise<{ readonly bytes: Uint8Array; readonly sizeBytes: number }> {
  const fd = await fileSystem.open(path, 'read');
  try {
    if (end - start > BLIND_READ_BYTES_MAX) {
      const { sizeBytes } = await fileSystem.stat(fd);
      const lengthBytes = Math.max(0, Math.min(end, sizeBytes) - start);
      return { bytes: await readFully(fileSystem, fd, start, lengthBytes), sizeBytes };
    }
    const [bytes, { sizeBytes }] = await Promise.all([
      readFully(fileSystem, fd, start, end - start),
      fileSystem.stat(fd),
    ]);
    return { bytes, sizeBytes };
  } finally {
    // Nobody waits for it: closing what was only read cannot fail in a way that matters.
    fileSystem.close(fd).catch(() => undefined);
  }
}

async function readFully(
  fileSystem: DirectoryFileSystem,
  fd: number,
  start: number,
  lengthBytes: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(lengthBytes);
  let filled = 0;
  while (filled < lengthBytes) {
    const count = await fileSystem.read(fd, bytes.subarray(filled), start + filled);
    if (count === 0) break;
    filled += count;
  }
  return filled === lengthBytes ? bytes : bytes.slice(0, filled);
}

/** What reaches the file system when an object is written past the page cache. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DirectoryBucketStore } from '../../../../src/adapters/directory/bucket-store.ts';
import type { DirectoryFileSystem } from '../../../../src/adapters/directory/file-system.ts';
import { NODE_FILE_SYSTEM } from '../../../../src/adapters/directory/node-file-system.ts';
import { allocatePages } from '../../../../src/lib/pages.ts';

const BLOCK = 4096;
const KEY = 'a1b2/main/0000000000000001/0000000000000001';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'asterlog-object-writer-'));
});
afterEach(() => rm(root, { recursive: true }));

interface Writes {
  readonly memory: ArrayBufferLike[];
  truncates: number;
}

/** Each write takes at most `most` bytes, as a file system may. */
function watched(writes: Writes, most = Infinity): DirectoryFileSystem {
  return {
    ...NODE_FILE_SYSTEM,
    write: (fd, bytes, position) => {
      // Not the small files of the store itself.
      if (bytes.byteLength >= BLOCK) writes.memory.push(bytes.buffer);
      return NODE_FILE_SYSTEM.write(fd, bytes.subarray(0, most), position);
    },
    truncate: (fd, sizeBytes) => {
      writes.truncates++;
      return NODE_FILE_SYSTEM.truncate(fd, sizeBytes);
    },
  };
}

function patterned(bytes: Uint8Array): Uint8Array {
  for (let at = 0; at < bytes.length; at++) bytes[at] = (at * 31 + (at >> 8)) & 0xff;
  return bytes;
}

async function stored(bytes: Uint8Array, fileSystem: DirectoryFileSystem): Promise<Uint8Array> {
  const store = await DirectoryBucketStore.open({ root, fileSystem });
  expect(await store.createOnly(KEY, bytes)).toEqual({ kind: 'created' });
  const read = await store.readRange(KEY, 0, bytes.byteLength + 1);
  await store.close();
  if (read.kind !== 'found') throw new Error(read.kind);
  expect(read.sizeBytes).toBe(bytes.byteLength);
  return read.bytes;
}

it('writes whole blocks of aligned memory as they lie, also in several turns', async () => {
  const memory = patterned(allocatePages(64 * BLOCK));
  const bytes = memory.subarray(3 * BLOCK, 60 * BLOCK);
  const writes: Writes = { memory: [], truncates: 0 };
  const read = await stored(bytes, watched(writes, 20 * BLOCK + 100));
  expect(Buffer.compare(read, bytes)).toBe(0);
  expect(writes.memory.length).toBeGreaterThan(2);
  expect(writes.memory.every((buffer) => buffer === memory.buffer)).toBe(true);
  expect(writes.truncates).toBe(0);
});

it.each([
  ['that begin within a block', allocatePages(64 * BLOCK).subarray(8, 8 + 40 * BLOCK)],
  ['that end within a block', allocatePages(64 * BLOCK).subarray(0, 40 * BLOCK - 1)],
  ['of ordinary memory', new Uint8Array(40 * BLOCK)],
])('copies bytes %s', async (_, bytes) => {
  patterned(bytes);
  const writes: Writes = { memory: [], truncates: 0 };
  const read = await stored(bytes, watched(writes));
  expect(Buffer.compare(read, bytes)).toBe(0);
  expect(writes.memory.includes(bytes.buffer)).toBe(false);
  expect(writes.memory.length).toBeGreaterThan(0);
});

it('falls back to the page cache where direct writes are not supported', async () => {
  const bytes = patterned(allocatePages(40 * BLOCK));
  const refused = Object.assign(new Error('invalid'), { code: 'EINVAL' });
  const read = await stored(bytes, {
    ...NODE_FILE_SYSTEM,
    open: (path, mode) =>
      mode === 'create-direct' ? Promise.reject(refused) : NODE_FILE_SYSTEM.open(path, mode),
    unlink: (path) => NODE_FILE_SYSTEM.unlink(path).catch(() => undefined),
  });
  expect(Buffer.compare(read, bytes)).toBe(0);
});

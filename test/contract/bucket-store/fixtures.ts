import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DirectoryBucketStore } from '../../../src/adapters/directory/bucket-store.ts';
import { MemoryBucketStore } from '../../../src/adapters/memory/bucket-store.ts';
import { Prng } from '../../../src/lib/prng.ts';
import type { Processes } from '../../../src/ports/processes.ts';
import { PowerLossFileSystem, type PowerLossOptions } from '../../support/power-loss-fs.ts';
import type { BucketFixture } from './contract.ts';

/** A process table of the test: `alive` holds the pids that live. */
export function processTable(
  pid: number,
  alive: ReadonlySet<number>,
  bootId = 'boot-1',
): Processes {
  const identity = { bootId, hostName: 'host', pidNamespace: 'pid:[1]', pid, startTime: '100' };
  return {
    self: () => identity,
    judge: (other) => (alive.has(other.pid) && other.startTime === '100' ? 'alive' : 'dead'),
  };
}

export async function memoryFixture(): Promise<BucketFixture> {
  const first = new MemoryBucketStore();
  return {
    open: async () => new MemoryBucketStore({ sharedWith: first }),
    dispose: () => first.close(),
  };
}

export async function directoryFixture(): Promise<BucketFixture> {
  const folder = await mkdtemp(join(tmpdir(), 'asterlog-bucket-'));
  const opened: DirectoryBucketStore[] = [];
  return {
    open: async () => {
      const store = await DirectoryBucketStore.open({ root: join(folder, 'deep', 'bucket') });
      opened.push(store);
      return store;
    },
    dispose: async () => {
      await Promise.all(opened.map((store) => store.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The directory store over the file system that loses power: here it only shuffles calls. */
export async function powerLossFixture(options: PowerLossOptions = {}): Promise<BucketFixture> {
  const fileSystem = new PowerLossFileSystem({
    prng: new Prng(1),
    writeBytesMax: 50_000,
    ...options,
  });
  const opened: DirectoryBucketStore[] = [];
  return {
    open: async () => {
      const pid = opened.length + 1;
      const processes = processTable(pid, new Set(opened.map((_, index) => index + 1)));
      const store = await DirectoryBucketStore.open({
        root: '/data/bucket',
        processes,
        fileSystem,
      });
      opened.push(store);
      return store;
    },
    dispose: async () => {
      await Promise.all(opened.map((store) => store.close()));
    },
  };
}

import { describe, expect, it } from 'vitest';
import type {
  DirectoryFileSystem,
  SyncSite,
} from '../../../../src/adapters/directory/file-system.ts';
import { Health } from '../../../../src/adapters/directory/health.ts';
import { SyncedDirectory } from '../../../../src/adapters/directory/synced-directory.ts';
import { deferred, type Deferred } from '../../../../src/lib/wait.ts';
import { errno } from '../../../support/power-loss-fs.ts';

function setUp() {
  const syncs: { readonly sites: readonly SyncSite[]; readonly end: Deferred<void> }[] = [];
  const fileSystem = {
    syncDirectory: (_fd: number, sites: readonly SyncSite[]) => {
      const end = deferred<void>();
      syncs.push({ sites, end });
      return end.promise;
    },
  } as DirectoryFileSystem;
  const health = new Health('bucket');
  return { syncs, health, directory: new SyncedDirectory('/d', 3, fileSystem, health) };
}

const turn = (): Promise<void> => new Promise(setImmediate);

describe('a directory that is synced', () => {
  it('shares one sync among all who asked before it began', async () => {
    const { syncs, directory } = setUp();
    const waiters = [
      directory.sync('created'),
      directory.sync('exists'),
      directory.sync('created'),
    ];
    await turn();
    expect(syncs.map(({ sites }) => sites)).toEqual([['created', 'exists', 'created']]);
    syncs[0]!.end.resolve();
    await Promise.all(waiters);
    expect(syncs).toHaveLength(1);
  });

  it('does not answer with a sync that had begun before', async () => {
    const { syncs, directory } = setUp();
    const first = directory.sync('created');
    await turn();
    let answered = false;
    const second = directory.sync('evidence').then(() => (answered = true));
    const third = directory.sync('created');
    syncs[0]!.end.resolve();
    await first;
    await turn();
    expect(answered).toBe(false);
    expect(syncs.map(({ sites }) => sites)).toEqual([['created'], ['evidence', 'created']]);
    syncs[1]!.end.resolve();
    await Promise.all([second, third]);
  });

  it('runs one sync at a time', async () => {
    const { syncs, directory } = setUp();
    const waiters: Promise<void>[] = [];
    for (let round = 0; round < 5; round++) {
      waiters.push(directory.sync('created'));
      await turn();
    }
    expect(syncs).toHaveLength(1);
    syncs[0]!.end.resolve();
    await turn();
    expect(syncs).toHaveLength(2);
    expect(syncs[1]!.sites).toHaveLength(4);
    syncs[1]!.end.resolve();
    await Promise.all(waiters);
  });

  it('fails all who share a failed sync and all who come later, without another try', async () => {
    const { syncs, directory, health } = setUp();
    const together = [directory.sync('created'), directory.sync('exists')];
    await turn();
    const behind = directory.sync('created');
    syncs[0]!.end.reject(errno('EIO'));
    const settled = await Promise.allSettled([...together, behind, directory.sync('deleted')]);
    for (const result of settled) {
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { code: 'BUCKET_UNAVAILABLE', details: { systemCode: 'EIO' } },
      });
    }
    expect(syncs).toHaveLength(1);
    expect(health.failure?.sideEffects).toBe('possible');
  });

  it('does not trust a sync that ended well after another directory failed', async () => {
    const { syncs, directory, health } = setUp();
    const waiting = directory.sync('created');
    await turn();
    health.fail(errno('EIO'), ['evidence']);
    syncs[0]!.end.resolve();
    await expect(waiting).rejects.toMatchObject({ code: 'BUCKET_UNAVAILABLE' });
  });
});

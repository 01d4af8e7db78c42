/** One short story per rule, where the histories need luck. */
import { describe, expect, it } from 'vitest';
import { DirectoryBucketStore } from '../../../../src/adapters/directory/bucket-store.ts';
import type { SyncSite } from '../../../../src/adapters/directory/file-system.ts';
import { bytesOf, pattern } from '../../../contract/bucket-store/contract.ts';
import { processTable } from '../../../contract/bucket-store/fixtures.ts';
import { PowerLossFileSystem, type FileSystemCall } from '../../../support/power-loss-fs.ts';

const KEY = 'a/main/7/42';
const BODY = pattern(1, 5_000);

class World {
  readonly fileSystem: PowerLossFileSystem;
  #pid = 0;

  constructor(ignoreSync?: SyncSite) {
    this.fileSystem = new PowerLossFileSystem({ ignoreSync });
  }

  open(): Promise<DirectoryBucketStore> {
    return DirectoryBucketStore.open({
      root: '/data/bucket',
      processes: processTable(++this.#pid, new Set([1, 2, 3, 4])),
      fileSystem: this.fileSystem.mount(),
    });
  }

  /** Creates the object in a process that dies at the first call that matches. */
  async createUntil(matches: (call: FileSystemCall) => boolean): Promise<void> {
    const store = await this.open();
    const reached = new Promise<void>((resolve) => {
      this.fileSystem.options.before = (call) => {
        if (!matches(call)) return undefined;
        resolve();
        return new Promise(() => undefined);
      };
    });
    void store.createOnly(KEY, BODY);
    await reached;
    delete this.fileSystem.options.before;
    this.fileSystem.processCrash();
  }

  async isStoredAfterPowerLoss(): Promise<boolean> {
    this.fileSystem.powerLoss();
    const store = await this.open();
    const found = await store.readHead(KEY, 10_000);
    if (found.kind !== 'found') return false;
    return Buffer.compare(bytesOf(found), BODY) === 0;
  }
}

const beforeSyncOf = (site: SyncSite) => (call: FileSystemCall) => call.sites.includes(site);

describe.each([
  { site: undefined, kept: true },
  { site: 'exists', kept: false },
] as const)('`exists` for a name its creator never made durable ($site forgotten)', (row) => {
  it(row.kept ? 'survives' : 'is lost', async () => {
    const world = new World(row.site);
    await world.createUntil(beforeSyncOf('created'));
    const store = await world.open();
    expect(await store.createOnly(KEY, pattern(2, 10))).toMatchObject({ kind: 'exists' });
    expect(await world.isStoredAfterPowerLoss()).toBe(row.kept);
  });
});

describe.each([
  { site: undefined, kept: true },
  { site: 'evidence', kept: false },
] as const)('evidence of a name its creator never made durable ($site forgotten)', (row) => {
  it(row.kept ? 'survives' : 'is lost', async () => {
    const world = new World(row.site);
    await world.createUntil(beforeSyncOf('created'));
    const store = await world.open();
    expect(await store.readHead(KEY, 10, { evidence: true })).toMatchObject({ kind: 'found' });
    expect(await world.isStoredAfterPowerLoss()).toBe(row.kept);
  });
});

describe.each([
  { site: undefined, kept: true },
  { site: 'new-directory', kept: false },
] as const)('a directory its maker never made durable ($site forgotten)', (row) => {
  it.each(['creation', 'evidence'] as const)(
    row.kept ? 'is made durable by a later %s' : 'takes a later %s with it',
    async (use) => {
      const world = new World(row.site);
      await world.createUntil(beforeSyncOf(use === 'creation' ? 'new-directory' : 'created'));
      const store = await world.open();
      if (use === 'creation') {
        expect(await store.createOnly(KEY, BODY)).toEqual({ kind: 'created' });
      } else {
        expect(await store.readHead(KEY, 10, { evidence: true })).toMatchObject({ kind: 'found' });
      }
      expect(await world.isStoredAfterPowerLoss()).toBe(row.kept);
    },
  );
});

describe('a folder that was made but never synced', () => {
  it.each([
    [
      'objects/',
      ({ operation, path }: FileSystemCall) => operation === 'mkdir' && path.endsWith('objects'),
    ],
    ['the layout file', ({ operation }: FileSystemCall) => operation === 'link'],
    ['the sync of the folder', beforeSyncOf('root')],
    ['the sync of the folder above', beforeSyncOf('above-root')],
  ])(
    'is made durable by the next process that opens it, if one died before %s',
    async (_, matches) => {
      const world = new World();
      const reached = new Promise<void>((resolve) => {
        world.fileSystem.options.before = (call) => {
          if (!matches(call)) return undefined;
          resolve();
          return new Promise(() => undefined);
        };
      });
      void world.open();
      await reached;
      world.fileSystem.processCrash();
      delete world.fileSystem.options.before;
      const store = await world.open();
      expect(await store.createOnly(KEY, BODY)).toEqual({ kind: 'created' });
      expect(await world.isStoredAfterPowerLoss()).toBe(true);
    },
  );
});

describe('a plain read', () => {
  it('promises nothing', async () => {
    const world = new World();
    await world.createUntil(beforeSyncOf('created'));
    const store = await world.open();
    expect(await store.readHead(KEY, 10)).toMatchObject({ kind: 'found' });
    expect(await world.isStoredAfterPowerLoss()).toBe(false);
  });
});

describe('an object whose creator died before its name', () => {
  it('is never there, also after its temporary file was swept', async () => {
    const world = new World();
    await world.createUntil(({ operation }) => operation === 'link');
    const store = await world.open();
    expect(await store.readHead(KEY, 10, { evidence: true })).toEqual({ kind: 'absent' });
    expect(await store.createOnly(KEY, BODY)).toEqual({ kind: 'created' });
  });
});

describe.each(['evidence', 'exists'] as const)('%s of a name that appears meanwhile', (use) => {
  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])(
    'before call %d of the observer',
    async (pausedAt) => {
      const world = new World();
      const observer = await world.open();
      await observer.createOnly('a/main/7/1', BODY);
      let calls = 0;
      let resume!: () => void;
      const paused = new Promise<void>((resolve) => (resume = resolve));
      const reached = new Promise<void>((resolve) => {
        world.fileSystem.options.before = () => {
          if (calls++ !== pausedAt) return undefined;
          resolve();
          return paused;
        };
      });
      const answering =
        use === 'evidence'
          ? observer.readHead(KEY, 10_000, { evidence: true })
          : observer.createOnly(KEY, pattern(2, 10));
      const answered = await Promise.race([reached.then(() => 'paused'), answering]);
      if (answered !== 'paused') return;
      // The creator publishes and hangs before it makes the name durable.
      const creator = await world.open();
      const published = new Promise<void>((resolve) => {
        world.fileSystem.options.before = (call) => {
          if (!call.sites.includes('created')) return undefined;
          resolve();
          return new Promise(() => undefined);
        };
      });
      await Promise.race([published, creator.createOnly(KEY, BODY)]);
      resume();
      const outcome = await answering;
      if (outcome.kind !== 'found' && outcome.kind !== 'exists') return;
      expect(await world.isStoredAfterPowerLoss()).toBe(true);
    },
  );
});

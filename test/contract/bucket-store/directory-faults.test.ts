/** A directory bucket on a file system that fails it. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  DirectoryBucketStore,
  type DirectoryBucketOptions,
} from '../../../src/adapters/directory/bucket-store.ts';
import type { SyncSite } from '../../../src/adapters/directory/file-system.ts';
import { deferred } from '../../../src/lib/wait.ts';
import type { CreateOutcome } from '../../../src/ports/bucket-store.ts';
import { errno, PowerLossFileSystem, type FileSystemCall } from '../../support/power-loss-fs.ts';
import { allKeys, bytesOf, expectUnknown, pattern } from './contract.ts';
import { processTable } from './fixtures.ts';

const ROOT = '/data/bucket';
const KEY = 'a/main/7/42';
const BODY = pattern(1, 9_000);
const CREATED = { kind: 'created' };

let fileSystem: PowerLossFileSystem;

beforeEach(() => {
  fileSystem = new PowerLossFileSystem({ hasDirectWrites: true });
});

function open(options: Partial<DirectoryBucketOptions> = {}): Promise<DirectoryBucketStore> {
  const processes = processTable(1, new Set([1]));
  return DirectoryBucketStore.open({ root: ROOT, processes, fileSystem, ...options });
}

/** Fails the calls that match, from now on. */
function fail(code: string, matches: (call: FileSystemCall) => boolean): void {
  fileSystem.options.before = (call) => {
    if (matches(call)) throw errno(code);
  };
}

function mend(): void {
  delete fileSystem.options.before;
  delete fileSystem.options.after;
}

const isCall =
  (...operations: FileSystemCall['operation'][]) =>
  (call: FileSystemCall): boolean =>
    operations.includes(call.operation);

function expectRefused(outcome: CreateOutcome, code: string, systemCode?: string): void {
  expect(outcome).toMatchObject({ kind: 'refused', cause: { code } });
  if (systemCode !== undefined)
    expect(outcome).toMatchObject({ cause: { details: { systemCode } } });
}

async function temps(): Promise<string[]> {
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  return await fileSystem.readdir(`${ROOT}/tmp`);
}

describe('a full disk', () => {
  it.each([20_000, 100_000])(
    'refuses bodies of %d bytes and takes smaller ones again',
    async (sizeBytes) => {
      const store = await open();
      fileSystem.options = { ...fileSystem.options, capacityBytes: 250_000 };
      const outcomes: CreateOutcome[] = [];
      for (let slot = 0; slot < 20; slot++) {
        outcomes.push(await store.createOnly(`e/${slot}`, pattern(slot, sizeBytes)));
        await temps();
      }
      const stored = outcomes.filter(({ kind }) => kind === 'created').length;
      expect(stored).toBe(Math.floor(250_000 / sizeBytes));
      for (const outcome of outcomes.slice(stored)) expectRefused(outcome, 'BUCKET_FULL', 'ENOSPC');
      expect(await allKeys(store, '')).toHaveLength(stored);
      expect(await temps()).toEqual([]);
      expect(await store.delete('e/0')).toEqual({ kind: 'deleted' });
      expect(await store.createOnly('e/again', pattern(1, sizeBytes))).toEqual(CREATED);
    },
  );

  it.each(['open', 'mkdir', 'write', 'syncFile', 'link'] as const)(
    'refuses when %s finds no room, and does not distrust the disk for it',
    async (operation) => {
      for (const code of ['ENOSPC', 'EDQUOT']) {
        const store = await open();
        fail(code, isCall(operation));
        expectRefused(
          await store.createOnly(`new-${code.toLowerCase()}/1`, BODY),
          'BUCKET_FULL',
          code,
        );
        mend();
        expect(await store.createOnly(`new-${code.toLowerCase()}/1`, BODY)).toEqual(CREATED);
        await store.close();
      }
    },
  );

  it('knows a quota by its number, where the system has no name for it', async () => {
    const store = await open();
    fileSystem.options.before = ({ operation }) => {
      if (operation === 'write')
        throw Object.assign(errno('Unknown system error -122'), { errno: -122 });
    };
    expectRefused(await store.createOnly(KEY, BODY), 'BUCKET_FULL', 'EDQUOT');
  });
});

describe('a folder that may not be written', () => {
  it.each(['EROFS', 'EACCES', 'EPERM'])('refuses what is asked of it after %s', async (code) => {
    const store = await open();
    await store.createOnly(KEY, BODY);
    fail(code, isCall('open', 'mkdir', 'link', 'unlink'));
    expectRefused(await store.createOnly('a/main/7/43', BODY), 'BUCKET_REFUSED', code);
    expectUnknown(await store.delete(KEY), 'BUCKET_REFUSED');
    expectUnknown(await store.readHead(KEY, 10), 'BUCKET_REFUSED');
    mend();
    expect(await store.createOnly('a/main/7/43', BODY)).toEqual(CREATED);
    expect((await store.readHead(KEY, 10)).kind).toBe('found');
  });

  it('does not open', async () => {
    fail('EACCES', isCall('mkdir'));
    await expect(open()).rejects.toMatchObject({ code: 'BUCKET_REFUSED' });
  });

  it('opens below a parent that may not be read', async () => {
    await (await open()).close();
    fail('EACCES', ({ operation, path }) => operation === 'open' && path === '/data');
    await (await open()).close();
  });
});

describe('a file system without link(2)', () => {
  it.each(['EPERM', 'ENOTSUP', 'EXDEV', 'ENOSYS'])(
    'is refused after %s, with the reason',
    async (code) => {
      const store = await open();
      fail(code, isCall('link'));
      const outcome = await store.probe();
      expect(outcome).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details: { systemCode: code } },
      });
      expectRefused(await store.createOnly(KEY, BODY), 'BUCKET_REFUSED', code);
      mend();
      expect(await temps()).toEqual([]);
      expect(await store.probe()).toEqual({ kind: 'accepted' });
    },
  );

  it('does not open, as the layout file cannot be made', async () => {
    fail('EPERM', isCall('link'));
    await expect(open()).rejects.toMatchObject({ code: 'BUCKET_REFUSED' });
  });
});

describe('a file system that replaces names', () => {
  it('is found by the race of the probe', async () => {
    const store = await open();
    const { link, unlink } = fileSystem;
    fileSystem.link = async (existing, target) => {
      await unlink.call(fileSystem, target).catch(() => undefined);
      await link.call(fileSystem, existing, target);
    };
    expect(await store.probe()).toMatchObject({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED' },
    });
  });
});

describe('a file system whose directories cannot be synced', () => {
  it('is refused', async () => {
    const store = await open();
    fail('EINVAL', isCall('syncDirectory'));
    expect(await store.probe()).toMatchObject({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED' },
    });
  });
});

describe('a failed sync', () => {
  const steps: readonly (readonly [SyncSite, (store: DirectoryBucketStore) => Promise<unknown>])[] =
    [
      ['object', (store) => store.createOnly('e/1', BODY)],
      ['created', (store) => store.createOnly('e/1', BODY)],
      ['new-directory', (store) => store.createOnly('new/1', BODY)],
      ['exists', (store) => store.createOnly(KEY, BODY)],
      ['evidence', (store) => store.readHead(KEY, 10, { evidence: true })],
      ['deleted', (store) => store.delete(KEY)],
    ];

  it.each(steps)('of %s makes the outcome unknown and is never tried again', async (site, step) => {
    const store = await open();
    await store.createOnly(KEY, BODY);
    await store.createOnly('e/0', BODY);
    fail('EIO', ({ sites }) => sites.includes(site));
    expect(await step(store)).toMatchObject({
      kind: 'unknown',
      cause: {
        code: 'BUCKET_UNAVAILABLE',
        sideEffects: 'possible',
        details: { systemCode: 'EIO' },
      },
    });
    mend();
    const syncs = vi.spyOn(fileSystem, 'syncDirectory');
    expectRefused(await store.createOnly('e/2', BODY), 'BUCKET_UNAVAILABLE', 'EIO');
    expectUnknown(await store.readHead('e/0', 10, { evidence: true }), 'BUCKET_UNAVAILABLE');
    expectUnknown(await store.delete('e/0'), 'BUCKET_UNAVAILABLE');
    expect(syncs).not.toHaveBeenCalled();
    await store.close();

    const reopened = await open();
    expect(await reopened.createOnly('e/2', BODY)).toEqual(CREATED);
    expect(bytesOf(await reopened.readHead('e/2', 10_000, { evidence: true }))).toEqual(BODY);
    await reopened.close();
  });

  it('reaches everybody who waited for it', async () => {
    const store = await open();
    await store.createOnly(KEY, BODY);
    fail('EIO', ({ sites }) => sites.includes('created'));
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, slot) => store.createOnly(`a/main/7/b${slot}`, BODY)),
    );
    for (const outcome of outcomes) {
      expect(['unknown', 'refused']).toContain(outcome.kind);
      expect(outcome).toMatchObject({ cause: { code: 'BUCKET_UNAVAILABLE' } });
    }
    expect(bytesOf(await store.readHead(KEY, 10_000))).toEqual(BODY);
  });
});

describe('a link with a lost answer', () => {
  it('is our own object when the system says that the name is taken', async () => {
    const store = await open();
    fileSystem.options.after = ({ operation }) => {
      if (operation === 'link') throw errno('EEXIST');
    };
    expect(await store.createOnly(KEY, BODY)).toEqual(CREATED);
  });

  it('is unknown after any other error, and found by the next attempt', async () => {
    const store = await open();
    fileSystem.options.after = ({ operation }) => {
      if (operation === 'link') throw errno('ETIMEDOUT');
    };
    expectUnknown(await store.createOnly(KEY, BODY), 'BUCKET_UNAVAILABLE');
    mend();
    expect(await store.createOnly(KEY, BODY)).toMatchObject({ kind: 'exists', sizeBytes: 9_000 });
  });
});

describe('other failures', () => {
  it.each(['open', 'write', 'truncate', 'link'] as const)(
    'leave a creation unknown when %s fails, and the bucket usable',
    async (operation) => {
      const store = await open();
      const body = pattern(2, 70_001);
      await store.createOnly('a/main/7/1', BODY);
      const spares = await temps();
      fail('EMFILE', isCall(operation));
      expectUnknown(await store.createOnly(KEY, body), 'BUCKET_UNAVAILABLE');
      mend();
      expect(await temps()).toEqual(spares);
      expect(await store.createOnly(KEY, body)).toEqual(CREATED);
      await store.close();
      expect(await temps()).toEqual([]);
    },
  );

  it.each(['open', 'read', 'stat'] as const)(
    'leave a read unknown when %s fails',
    async (operation) => {
      const store = await open();
      await store.createOnly(KEY, BODY);
      fail('EIO', ({ operation: other, path }) => other === operation && path.endsWith('/42'));
      for (const end of [10, 200_000]) {
        if (operation === 'read' || operation === 'stat' || end === 10) {
          expectUnknown(await store.readRange(KEY, 0, end), 'BUCKET_UNAVAILABLE');
        }
      }
      mend();
      expect(bytesOf(await store.readHead(KEY, 10_000))).toEqual(BODY);
      await store.close();
      await new Promise(setImmediate);
      expect(fileSystem.openCount).toBe(0);
    },
  );

  it('leave a deletion unknown, each key for itself', async () => {
    const store = await open();
    for (const slot of [1, 2, 3]) await store.createOnly(`e/${slot}`, BODY);
    fail('EIO', ({ operation, path }) => operation === 'unlink' && path.endsWith('/2'));
    const outcomes = await store.deleteMany(['e/1', 'e/2', 'e/3', 'none/4']);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['deleted', 'unknown', 'deleted', 'absent']);
  });

  it('leave a listing unknown', async () => {
    const store = await open();
    fail('EIO', isCall('readdir'));
    expectUnknown(await store.list(''), 'BUCKET_UNAVAILABLE');
  });
});

describe('a bucket whose folder went away', () => {
  it('answers unknown, never absent', async () => {
    const store = await open();
    await store.createOnly(KEY, BODY);
    // Another bucket in its place: an unmounted disk, a folder restored from a copy.
    fileSystem.processCrash();
    const other = new PowerLossFileSystem();
    for (let files = 0; files < 20; files++)
      await other.close(await other.open(`/${files}`, 'create'));
    await (await open({ fileSystem: other })).close();
    for (const method of ['open', 'stat', 'unlink', 'readdir'] as const) {
      fileSystem[method] = other[method].bind(other) as never;
    }
    for (const evidence of [false, true]) {
      for (const key of [KEY, 'nowhere/1']) {
        expectUnknown(
          await store.readHead(key, 10, { evidence: evidence && key !== KEY }),
          'BUCKET_UNAVAILABLE',
        );
      }
    }
    expectUnknown(await store.delete('nowhere/1'), 'BUCKET_UNAVAILABLE');
  });
});

describe('giving up at every step of a creation', () => {
  const steps = ['open', 'write', 'truncate', 'syncFile', 'link', 'syncDirectory'] as const;
  const published = ['link', 'syncDirectory'];

  it.each(steps)('during %s', async (step) => {
    const store = await open();
    await store.createOnly('a/main/7/1', BODY);
    const body = pattern(3, 50_001);
    const arena = body.slice();
    const gate = deferred<void>();
    const reached = deferred<void>();
    fileSystem.options.before = ({ operation }) => {
      if (operation !== step) return undefined;
      reached.resolve();
      return gate.promise;
    };
    const controller = new AbortController();
    const creating = store.createOnly(KEY, arena, { signal: controller.signal });
    await reached.promise;
    controller.abort();
    const isTouching = ['open', 'write', 'truncate'].includes(step);
    const later = new Promise(setImmediate).then(() => 'later');
    expect((await Promise.race([creating, later])) === 'later').toBe(isTouching);
    mend();
    gate.resolve();
    expectUnknown(await creating, 'ABORTED');
    arena.fill(0);
    await store.close();
    expect(await temps()).toEqual([]);

    const reopened = await open();
    const found = await reopened.readHead(KEY, 100_000);
    expect(found.kind).toBe(published.includes(step) ? 'found' : 'absent');
    if (found.kind === 'found') expect(Buffer.compare(found.bytes, body)).toBe(0);
    await reopened.close();
    await new Promise(setImmediate);
    expect(fileSystem.openCount).toBe(0);
  });
});

describe('a file system that hangs', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(['syncFile', 'link', 'syncDirectory', 'read'] as const)(
    'in %s is left alone after the time-out',
    async (operation) => {
      const store = await open({ timeoutMillis: 1_000 });
      await store.createOnly(KEY, BODY);
      fileSystem.options.before = (call) =>
        call.operation === operation ? new Promise(() => undefined) : undefined;
      const call =
        operation === 'read'
          ? store.readHead(KEY, 10, { evidence: true })
          : store.createOnly('a/main/7/43', BODY);
      await new Promise(setImmediate);
      vi.advanceTimersByTime(1_000);
      expectUnknown(await call, 'BUCKET_UNAVAILABLE');
      const closing = store.close();
      vi.advanceTimersByTime(1_000);
      await closing;
    },
  );

  it('while a file is made ahead: closing ends after the time-out', async () => {
    const store = await open({ timeoutMillis: 1_000 });
    let isHanging = false;
    fileSystem.options.before = ({ operation }) => {
      if (operation === 'link') isHanging = true;
      return isHanging && operation === 'open' ? new Promise(() => undefined) : undefined;
    };
    expect(await store.createOnly(KEY, BODY)).toEqual(CREATED);
    const closing = store.close();
    let isClosed = false;
    void closing.then(() => (isClosed = true));
    await new Promise(setImmediate);
    expect(isClosed).toBe(false);
    vi.advanceTimersByTime(1_000);
    await closing;
  });

  it('keeps no file made ahead, also where a call hangs while the store closes', async () => {
    const store = await open({ timeoutMillis: 1_000 });
    await store.createOnly(KEY, BODY);
    await new Promise(setImmediate);
    expect(await temps()).toHaveLength(1);
    fileSystem.options.before = ({ operation }) =>
      operation === 'read' ? new Promise(() => undefined) : undefined;
    const call = store.readHead(KEY, 10);
    await new Promise(setImmediate);
    const closing = store.close();
    vi.advanceTimersByTime(1_000);
    await closing;
    expectUnknown(await call, 'BUCKET_UNAVAILABLE');
    await new Promise(setImmediate);
    expect(await temps()).toEqual([]);
  });

  it('does not collect files, buffers and calls', async () => {
    const store = await open({ timeoutMillis: 1_000, concurrentCreates: 4 });
    await store.createOnly(KEY, BODY);
    const before = fileSystem.openCount;
    fileSystem.options.before = (call) =>
      call.operation === 'syncFile' ? new Promise(() => undefined) : undefined;
    for (let round = 0; round < 20; round++) {
      const creating = Array.from({ length: 10 }, (_, slot) =>
        store.createOnly(`e/${round}-${slot}`, BODY),
      );
      await new Promise(setImmediate);
      vi.advanceTimersByTime(1_000);
      for (const outcome of await Promise.all(creating)) expect(outcome.kind).toBe('unknown');
    }
    expect(fileSystem.openCount - before).toBeLessThanOrEqual(5);
  });
});

describe('many creations at once', () => {
  it('are bounded in files and calls under way, and share the syncs of their directory', async () => {
    const store = await open({ concurrentCreates: 8 });
    await store.createOnly('e/first', BODY);
    let underWay = 0;
    let most = 0;
    let syncs = 0;
    fileSystem.options.before = async ({ operation, sites }) => {
      if (sites.includes('created')) syncs++;
      if (operation === 'close' || operation === 'unlink') return;
      most = Math.max(most, ++underWay);
      await Promise.resolve();
      underWay--;
    };
    const outcomes = await Promise.all(
      Array.from({ length: 400 }, (_, slot) => store.createOnly(`e/${slot}`, BODY)),
    );
    expect(outcomes.every(({ kind }) => kind === 'created')).toBe(true);
    expect(most).toBeLessThanOrEqual(9);
    expect(syncs).toBeLessThan(250);
    await store.close();
    expect(fileSystem.openCount).toBe(0);
    expect(await fileSystem.readdir(`${ROOT}/tmp`)).toEqual([]);
  });

  it('over many directories keep a bounded number of them open', async () => {
    const store = await open();
    for (let epoch = 0; epoch < 300; epoch++) {
      expect(await store.createOnly(`e${epoch}/1`, BODY)).toEqual(CREATED);
    }
    await new Promise(setImmediate);
    expect(fileSystem.openCount).toBeLessThan(80);
    const all = await Promise.all(
      Array.from({ length: 300 }, (_, epoch) => store.createOnly(`e${epoch}/2`, BODY)),
    );
    expect(all.every(({ kind }) => kind === 'created')).toBe(true);
    await new Promise(setImmediate);
    expect(fileSystem.openCount).toBeLessThan(80);
    await store.close();
    expect(fileSystem.openCount).toBe(0);
  });
});

describe('the layout', () => {
  async function writeLayout(text: string): Promise<void> {
    await fileSystem.unlink(`${ROOT}/layout.json`);
    const fd = await fileSystem.open(`${ROOT}/layout.json`, 'create');
    if (text !== '') await fileSystem.write(fd, Buffer.from(text), 0);
    await fileSystem.close(fd);
  }

  it.each([
    '{"asterlog":"bucket","layoutVersion":2}',
    '{"layoutVersion":"1"}',
    '{"asterlog":"bucket"}',
    'null',
    '{"asterlog":"buc',
    '',
  ])('is refused when it reads %s', async (text) => {
    await (await open()).close();
    await writeLayout(text);
    for (const readOnly of [false, true]) {
      await expect(open({ readOnly })).rejects.toMatchObject({
        code: 'LAYOUT_VERSION',
        details: { expected: 1 },
      });
    }
  });

  it('is refused when it is gone and objects are there', async () => {
    const store = await open();
    await store.createOnly(KEY, BODY);
    await store.close();
    await fileSystem.unlink(`${ROOT}/layout.json`);
    await expect(open()).rejects.toMatchObject({ code: 'LAYOUT_VERSION' });
  });

  it('is made once by many who open at the same time', async () => {
    const stores = await Promise.all(Array.from({ length: 10 }, () => open()));
    for (const store of stores) await store.close();
    expect((await fileSystem.readdir(ROOT)).sort()).toEqual(['layout.json', 'objects', 'tmp']);
    expect(await fileSystem.readdir(`${ROOT}/tmp`)).toEqual([]);
  });
});

describe('a bucket opened to read only', () => {
  it('is not made', async () => {
    await expect(open({ readOnly: true })).rejects.toMatchObject({ code: 'BUCKET_UNAVAILABLE' });
    expect(await fileSystem.readdir('/')).toEqual([]);
  });

  it('reads, also as evidence, and changes nothing', async () => {
    const writer = await open();
    await writer.createOnly(KEY, BODY);
    await writer.close();
    const changes = vi.fn();
    fileSystem.options.before = ({ operation, path }) => {
      if (['link', 'unlink', 'mkdir', 'write', 'truncate'].includes(operation))
        changes(operation, path);
    };
    const store = await open({ readOnly: true });
    expect(bytesOf(await store.readHead(KEY, 10_000, { evidence: true }))).toEqual(BODY);
    expect(await store.readHead('none/1', 10, { evidence: true })).toEqual({ kind: 'absent' });
    expect(await allKeys(store, '')).toEqual([KEY]);
    expectRefused(await store.createOnly('a/1', BODY), 'BUCKET_REFUSED');
    expectUnknown(await store.delete(KEY), 'BUCKET_REFUSED');
    expect(await store.probe()).toMatchObject({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED' },
    });
    await store.close();
    expect(changes).not.toHaveBeenCalled();
  });
});

import { describe, expect, it } from 'vitest';
import { TempFiles } from '../../../../src/adapters/directory/temp-files.ts';
import { judgeOwner, ownerPrefix } from '../../../../src/adapters/directory/temp-names.ts';
import type { ProcessIdentity, Processes } from '../../../../src/ports/processes.ts';
import { errno, PowerLossFileSystem } from '../../../support/power-loss-fs.ts';

const SELF: ProcessIdentity = {
  bootId: '6f1c0f4e-0000-4000-8000-000000000001',
  hostName: 'host',
  pidNamespace: 'pid:[4026531836] time:[4026531834]',
  pid: 100,
  startTime: '5000',
};

/** Pid 100 and 200 live, started at 5000; every other pid is gone. */
const PROCESSES: Processes = {
  self: () => SELF,
  judge: ({ pid, startTime }) =>
    (pid === 100 || pid === 200) && startTime === '5000' ? 'alive' : 'dead',
};

const NAMES = [
  { who: 'this process', identity: SELF, judged: 'alive' },
  { who: 'another live process', identity: { ...SELF, pid: 200 }, judged: 'alive' },
  { who: 'a process that is gone', identity: { ...SELF, pid: 300 }, judged: 'dead' },
  {
    who: 'an earlier process of the same pid',
    identity: { ...SELF, startTime: '4000' },
    judged: 'dead',
  },
  { who: 'an earlier boot', identity: { ...SELF, bootId: 'other' }, judged: 'dead' },
  { who: 'another host or container', identity: { ...SELF, hostName: 'other' }, judged: 'unknown' },
  { who: 'another pid namespace', identity: { ...SELF, pidNamespace: 'other' }, judged: 'unknown' },
  {
    who: 'a system that does not tell boots',
    identity: { ...SELF, bootId: '' },
    judged: 'unknown',
  },
] as const;

async function folder(): Promise<PowerLossFileSystem> {
  const fileSystem = new PowerLossFileSystem();
  await fileSystem.mkdir('/tmp');
  await fileSystem.mkdir('/objects');
  return fileSystem;
}

async function leave(fileSystem: PowerLossFileSystem, path: string): Promise<void> {
  await fileSystem.close(await fileSystem.open(path, 'create'));
}

describe('names of temporary files', () => {
  it.each(NAMES)('judges a file of $who: $judged', ({ identity, judged }) => {
    expect(judgeOwner(`${ownerPrefix(identity)}.a1b2c3.1z`, PROCESSES)).toBe(judged);
  });

  it('cannot judge names of another making, nor boots it cannot tell apart itself', () => {
    for (const name of ['', 'editor.swp', '.nfs0001', ownerPrefix(SELF), '1.2.3.4.5.6']) {
      expect(judgeOwner(name, PROCESSES)).toBe('unknown');
    }
    const blind: Processes = { ...PROCESSES, self: () => ({ ...SELF, bootId: '' }) };
    expect(judgeOwner(`${ownerPrefix({ ...SELF, bootId: 'x' })}.a1.1`, blind)).toBe('unknown');
  });

  it('gives every file a name of its own, within what file systems take', async () => {
    const stores = [1, 2].map(() => new TempFiles('/tmp', PROCESSES, new PowerLossFileSystem()));
    const paths = stores.flatMap((temps) => Array.from({ length: 50 }, () => temps.nextPath()));
    expect(new Set(paths).size).toBe(100);
    for (const path of paths) {
      expect(path.length).toBeLessThan(255);
      expect(judgeOwner(path.slice('/tmp/'.length), PROCESSES)).toBe('alive');
    }
  });
});

describe('sweeping', () => {
  it.each(NAMES)('unpublished file of $who ($judged)', async ({ identity, judged }) => {
    const fileSystem = await folder();
    await leave(fileSystem, `/tmp/${ownerPrefix(identity)}.a1.1`);
    await new TempFiles('/tmp', PROCESSES, fileSystem).sweep(PROCESSES);
    expect(await fileSystem.readdir('/tmp')).toHaveLength(judged === 'dead' ? 0 : 1);
    expect(await fileSystem.readdir('/objects')).toEqual([]);
  });

  it.each(NAMES)('published file of $who: only the object stays', async ({ identity }) => {
    const fileSystem = await folder();
    const path = `/tmp/${ownerPrefix(identity)}.a1.1`;
    await leave(fileSystem, path);
    await fileSystem.link(path, '/objects/1');
    await new TempFiles('/tmp', PROCESSES, fileSystem).sweep(PROCESSES);
    expect(await fileSystem.readdir('/tmp')).toEqual([]);
    expect((await fileSystem.stat('/objects/1')).linkCount).toBe(1);
  });

  it('leaves files it does not know and survives a second sweep at the same time', async () => {
    const fileSystem = await folder();
    await leave(fileSystem, '/tmp/notes.txt');
    for (let pid = 300; pid < 310; pid++) {
      await leave(fileSystem, `/tmp/${ownerPrefix({ ...SELF, pid })}.a1.1`);
    }
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    await Promise.all([temps.sweep(PROCESSES), temps.sweep(PROCESSES)]);
    expect(await fileSystem.readdir('/tmp')).toEqual(['notes.txt']);
  });
});

describe('files made ahead', () => {
  it('are there for the next creation of their kind, after one that had its way', async () => {
    const fileSystem = await folder();
    fileSystem.options = { hasDirectWrites: true };
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    temps.replace(await temps.take('create'));
    await temps.drained();
    const [spare] = await fileSystem.readdir('/tmp');
    expect(await temps.take('create-direct')).not.toMatchObject({ path: `/tmp/${spare}` });
    expect(await temps.take('create')).toMatchObject({ path: `/tmp/${spare}`, mode: 'create' });
    expect(await temps.take('create')).not.toMatchObject({ path: `/tmp/${spare}` });
  });

  it('are few, and none is left when the bucket closes, not even one being made', async () => {
    const fileSystem = await folder();
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    const taken = await Promise.all(Array.from({ length: 50 }, () => temps.take('create')));
    for (const file of taken) temps.replace(file);
    await temps.drained();
    expect(await fileSystem.readdir('/tmp')).toHaveLength(4);
    temps.replace(await temps.take('create'));
    await temps.close(60_000);
    expect(await fileSystem.readdir('/tmp')).toEqual([]);
    expect(fileSystem.openCount).toBe(0);
  });

  it('are no failure when they cannot be made', async () => {
    const fileSystem = await folder();
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    const file = await temps.take('create');
    fileSystem.options.before = ({ operation }) => {
      if (operation === 'open') throw errno('EMFILE');
    };
    temps.replace(file);
    await temps.close(60_000);
    await expect(temps.take('create')).rejects.toMatchObject({ code: 'EMFILE' });
    expect(await fileSystem.readdir('/tmp')).toEqual([]);
  });
});

describe('disposal', () => {
  it('closes and removes behind the answers, and makes creations wait when far behind', async () => {
    const fileSystem = await folder();
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    let release!: () => void;
    const gate = new Promise<void>((resolve) => (release = resolve));
    fileSystem.options.before = ({ operation }) => (operation === 'close' ? gate : undefined);
    for (let index = 0; index < 500 && temps.room() === undefined; index++) {
      const path = temps.nextPath();
      temps.discard({ path, fd: await fileSystem.open(path, 'create') });
    }
    const waiting = temps.room();
    expect(waiting).toBeInstanceOf(Promise);
    expect(fileSystem.openCount).toBeLessThan(200);
    release();
    await waiting;
    await temps.drained();
    expect(fileSystem.openCount).toBe(0);
    expect(await fileSystem.readdir('/tmp')).toEqual([]);
    expect(temps.room()).toBeUndefined();
    await temps.drained();
  });

  it('goes on when a file cannot be removed', async () => {
    const fileSystem = await folder();
    const temps = new TempFiles('/tmp', PROCESSES, fileSystem);
    fileSystem.options.before = ({ operation, path }) => {
      if (operation === 'unlink' && path.endsWith('.0')) throw errno('EIO');
    };
    for (let index = 0; index < 3; index++) {
      const path = temps.nextPath();
      temps.discard({ path, fd: await fileSystem.open(path, 'create') });
    }
    await temps.drained();
    expect(await fileSystem.readdir('/tmp')).toHaveLength(1);
    expect(fileSystem.openCount).toBe(0);
  });
});

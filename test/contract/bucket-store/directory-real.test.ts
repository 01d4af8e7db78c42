/** The directory bucket on file systems of the host: several processes, small and read-only disks. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DirectoryBucketStore } from '../../../src/adapters/directory/bucket-store.ts';
import { allKeys, bytesOf, expectUnknown, pattern } from './contract.ts';

const CHILD = fileURLToPath(new URL('./directory-child.ts', import.meta.url));
const CREATED = { kind: 'created' };

let folder: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'asterlog-bucket-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

interface Child {
  readonly lines: string[];
  readonly process: ChildProcess;
  /** Resolves once so many lines were printed, or the process has ended. */
  printed(count: number): Promise<void>;
}

function start(...args: string[]): Child {
  const child = spawn(process.execPath, ['--import', 'tsx', CHILD, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines: string[] = [];
  let rest = '';
  let check = (): void => undefined;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop()!;
    lines.push(...parts);
    check();
  });
  let hasEnded = false;
  child.on('close', () => {
    hasEnded = true;
    check();
  });
  const printed = (count: number): Promise<void> =>
    new Promise((resolve) => {
      check = () => {
        if (hasEnded || lines.length >= count) resolve();
      };
      check();
    });
  return { lines, process: child, printed };
}

function body(text: string, index: number): Buffer {
  return Buffer.alloc(10_000, `${text} ${index} `);
}

describe('processes that share a bucket', () => {
  it('let one of them win each key', async () => {
    const names = ['left', 'right'];
    const racers = names.map((name) => start(folder, 'race', '200', name));
    await Promise.all(racers.map((racer) => racer.printed(Infinity)));
    const outcomes = racers.map(({ lines }) => new Set(lines));
    const store = await DirectoryBucketStore.open({ root: folder });
    for (let index = 0; index < 200; index++) {
      const winners = names.filter((_, racer) => outcomes[racer]!.has(`${index} created`));
      expect(winners, `key ${index}`).toHaveLength(1);
      expect(racers.every((_, racer) => outcomes[racer]!.size === 201)).toBe(true);
      const found = await store.readHead(`race/${index}`, 20_000);
      expect(Buffer.from(bytesOf(found)).equals(body(winners[0]!, index))).toBe(true);
    }
    await store.close();
    expect(await readdir(join(folder, 'tmp'))).toEqual([]);
  });

  it('leave whole objects and no rubbish when one is killed', async () => {
    for (let round = 0; round < 3; round++) {
      const victim = start(folder, `round${round}`, '100000', 'victim');
      await victim.printed(150 + 100 * round);
      const ended = new Promise((resolve) => victim.process.on('close', resolve));
      victim.process.kill('SIGKILL');
      await ended;
      const store = await DirectoryBucketStore.open({ root: folder });
      const created = victim.lines.filter((line) => line.endsWith(' created'));
      expect(created.length).toBeGreaterThan(100);
      const keys = new Set(await allKeys(store, `round${round}/`));
      for (const line of created) expect(keys).toContain(`round${round}/${parseInt(line)}`);
      for (const key of keys) {
        const found = await store.readHead(key, 20_000, { evidence: true });
        const whole = body('victim', Number(key.split('/')[1]));
        expect(Buffer.from(bytesOf(found)).equals(whole)).toBe(true);
      }
      expect(await readdir(join(folder, 'tmp'))).toEqual([]);
      await store.close();
    }
  });

  it('leave the temporary files of a live one alone', async () => {
    const worker = start(folder, 'busy', '100000', 'busy');
    await worker.printed(50);
    for (let round = 0; round < 20; round++) {
      const store = await DirectoryBucketStore.open({ root: folder });
      await store.close();
    }
    await worker.printed(worker.lines.length + 200);
    worker.process.kill('SIGKILL');
    const outcomes = new Set(worker.lines.slice(1).map((line) => line.split(' ')[1]));
    expect(outcomes).toEqual(new Set(['created']));
  });
});

describe('a folder without write permission', () => {
  it('refuses', async () => {
    const root = join(folder, 'bucket');
    await chmod(folder, 0o755);
    const store = await DirectoryBucketStore.open({ root });
    await store.createOnly('e/1', pattern(1, 100));
    const restore = becomeSomebodyElse();
    try {
      await chmod(root, 0o555).catch(() => undefined);
      expect(await store.createOnly('e/2', pattern(1, 100))).toMatchObject({
        kind: 'refused',
        // EPERM: a file made before, of another user, takes no second name.
        cause: {
          code: 'BUCKET_REFUSED',
          details: { systemCode: expect.stringMatching(/^(EACCES|EPERM)$/) },
        },
      });
      expect(await store.probe()).toMatchObject({ kind: 'refused' });
      expectUnknown(await store.delete('e/1'), 'BUCKET_REFUSED');
      expect(await store.readHead('e/1', 10, { evidence: true })).toMatchObject({ kind: 'found' });
      await expect(
        DirectoryBucketStore.open({ root: join(folder, 'other') }),
      ).rejects.toMatchObject({ code: 'BUCKET_REFUSED' });
    } finally {
      restore();
    }
    await store.close();
  });

  /** Root may write everything: the system must see another user. */
  function becomeSomebodyElse(): () => void {
    if (process.geteuid?.() !== 0) return () => undefined;
    process.seteuid!(65_534);
    return () => process.seteuid!(0);
  }
});

describe('objects at rest', () => {
  it('lie where the layout says', async () => {
    const store = await DirectoryBucketStore.open({ root: folder });
    await store.createOnly('a1b2/main/0000000000000007/0000000000000042', pattern(1, 100));
    await store.createOnly('identity', pattern(2, 100));
    await store.close();
    const layout = JSON.parse(await readFile(join(folder, 'layout.json'), 'utf8')) as unknown;
    expect(layout).toEqual({ asterlog: 'bucket', layoutVersion: 1 });
    const file = join(folder, 'objects/a1b2+main+0000000000000007/0000000000000042');
    expect(new Uint8Array(await readFile(file))).toEqual(pattern(1, 100));
    expect(new Uint8Array(await readFile(join(folder, 'objects/+/identity')))).toEqual(
      pattern(2, 100),
    );
  });

  it('are answered as they are, damaged or not', async () => {
    const store = await DirectoryBucketStore.open({ root: folder });
    await store.createOnly('e/1', pattern(1, 1_000));
    await writeFile(join(folder, 'objects/e/1'), 'cut');
    expect(await store.readHead('e/1', 100)).toMatchObject({ kind: 'found', sizeBytes: 3 });
    expect(await store.createOnly('e/1', pattern(1, 10))).toMatchObject({ sizeBytes: 3 });
    await store.close();
  });
});

// Where nobody may mount, these tests are reported as skipped.
describe.skipIf(!mayMount())('a disk of its own (needs root and mount)', () => {
  let small: string;

  beforeAll(async () => {
    small = await mkdtemp(join(tmpdir(), 'asterlog-disk-'));
    expect(mountAt(small)).toBe(true);
  });
  afterAll(async () => {
    system('umount', small);
    await rm(small, { recursive: true, force: true });
  });

  it('fills up, refuses, and goes on once there is room', async () => {
    const store = await DirectoryBucketStore.open({ root: join(small, 'bucket') });
    const refused = new Set<string>();
    const stored: string[] = [];
    for (let round = 0; round < 40; round++) {
      const keys = Array.from({ length: 4 }, (_, index) => `e/${round}-${index}`);
      const bytes = pattern(round, 200_000);
      const outcomes = await Promise.all(keys.map((key) => store.createOnly(key, bytes)));
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome.kind === 'created') stored.push(keys[index]!);
        else if (outcome.kind === 'refused') refused.add(outcome.cause.code);
        else expect.unreachable(`creation answered ${outcome.kind}`);
      }
    }
    expect([...refused]).toEqual(['BUCKET_FULL']);
    expect((await allKeys(store, '')).sort()).toEqual(stored.sort());
    for (const key of stored) {
      const round = Number(/\d+/.exec(key)![0]);
      const found = await store.readHead(key, 300_000);
      expect(Buffer.compare(bytesOf(found), pattern(round, 200_000))).toBe(0);
    }
    await store.deleteMany(stored);
    expect(await store.createOnly('e/again', pattern(1, 200_000))).toEqual(CREATED);
    await store.close();
    expect(await readdir(join(small, 'bucket/tmp'))).toEqual([]);
  });

  it('refuses when it has become read-only', async () => {
    const root = join(small, 'read-only');
    const store = await DirectoryBucketStore.open({ root });
    expect(await store.createOnly('e/1', pattern(1, 100))).toEqual(CREATED);
    await store.delete('e/none');
    await store.close();
    expect(system('mount', '-o', 'remount,ro', small)).toBe(true);
    try {
      await expect(DirectoryBucketStore.open({ root: join(small, 'new') })).rejects.toMatchObject({
        code: 'BUCKET_REFUSED',
      });
      const reopened = await DirectoryBucketStore.open({ root });
      expect(await reopened.createOnly('e/2', pattern(1, 100))).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details: { systemCode: 'EROFS' } },
      });
      expect(await reopened.readHead('e/1', 10, { evidence: true })).toMatchObject({
        kind: 'found',
      });
      await reopened.close();
    } finally {
      system('mount', '-o', 'remount,rw', small);
    }
  });

  it('answers unknown, never absent, once it is unmounted', async () => {
    const root = join(small, 'gone');
    const store = await DirectoryBucketStore.open({ root });
    await store.createOnly('e/1', pattern(1, 100));
    expect(system('umount', '-l', small)).toBe(true);
    try {
      for (const evidence of [false, true]) {
        expectUnknown(await store.readHead('e/1', 10, { evidence: false }), 'BUCKET_UNAVAILABLE');
        expectUnknown(await store.readHead('f/1', 10, { evidence }), 'BUCKET_UNAVAILABLE');
      }
      expectUnknown(await store.createOnly('e/2', pattern(1, 100)), 'BUCKET_UNAVAILABLE');
      await store.close();
    } finally {
      mountAt(small);
    }
  });
});

/** Runs a program of the system; false when it fails. */
function system(program: string, ...args: string[]): boolean {
  return spawnSync(program, args).status === 0;
}

function mountAt(path: string): boolean {
  return system('mount', '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', path);
}

function mayMount(): boolean {
  if (process.geteuid?.() !== 0) return false;
  const path = mkdtempSync(join(tmpdir(), 'asterlog-mount-'));
  const mounted = mountAt(path);
  if (mounted) system('umount', path);
  rmdirSync(path);
  return mounted;
}

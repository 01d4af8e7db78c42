import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';
import { workerFile } from '../../../../src/lib/worker-file.ts';
import type { MetaVersion, MetaWatchEvent, PutResult } from '../../../../src/ports/metastore.ts';
import { spawnTypeScript } from '../../../support/child-process.ts';

const WRITER = new URL('./writer.process.ts', import.meta.url);
const RACER = new URL('./racer.process.ts', import.meta.url);
const READER = new URL('./reader.process.ts', import.meta.url);
const HOLDER = new URL('./lock-holder.process.ts', import.meta.url);

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asterlog-metastore-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('one LMDB file in several processes', () => {
  it('lets exactly one process win each round of a race', async () => {
    const rounds = 150;
    const store = await LmdbMetastore.open({ directory });
    const racers = ['a', 'b', 'c'].map((name) =>
      spawnTypeScript(RACER, [directory, name, String(rounds)]),
    );
    await store.put('round/0', Buffer.from('open'), 'absent');
    await Promise.all(racers.map((racer) => racer.ended));
    const results = racers.map(
      (racer) => JSON.parse(racer.output()) as { won: number[]; lost: number },
    );
    const won = results.map((result) => result.won);
    const all = won.flat().sort((a, b) => a - b);
    expect(all).toEqual(Array.from({ length: rounds }, (_, i) => i));
    for (const [index, name] of ['a', 'b', 'c'].entries()) {
      for (const round of won[index]!) {
        const entry = await store.get(`round/${round}`);
        expect(Buffer.from(entry!.value).toString()).toBe(name);
      }
    }
    // A race that nobody ever loses proves nothing.
    expect(results.reduce((sum, { lost }) => sum + lost, 0)).toBeGreaterThan(3);
    await store.close();
  });

  it('finds every answered write of processes that were killed, and none of their locks', async () => {
    const events: MetaWatchEvent[] = [];
    const store = await LmdbMetastore.open({ directory, watchPollMillis: 20 });
    store.watch('kill/', (event) => events.push(event));
    const expected = new Map<string, number | undefined>();
    for (let round = 0; round < 3; round++) {
      const writers = [`${round}a`, `${round}b`].map((name) =>
        spawnTypeScript(WRITER, [directory, name]),
      );
      const lines = (): number =>
        writers.reduce((sum, writer) => sum + writer.output().split('\n').length - 1, 0);
      await expect.poll(lines, { timeout: 20_000, interval: 5 }).toBeGreaterThan(100 + round * 37);
      for (const writer of writers) writer.process.kill('SIGKILL');
      for (const writer of writers) {
        expect(await writer.ended).toMatchObject({ signal: 'SIGKILL' });
        for (const line of writer.output().split('\n').slice(0, -1)) {
          const told = JSON.parse(line) as { key: string; version?: number; deleted?: true };
          expected.set(told.key, told.version);
        }
      }
      // The write lock of the dead is free, and their pages are sound.
      const mine = await store.put(`mine/${round}`, Buffer.from('x'), 'absent');
      expect(mine.kind).toBe('applied');
    }
    const fresh = await LmdbMetastore.open({ directory });
    const versions = new Set<unknown>();
    for (const entry of await fresh.children('')) {
      versions.add(entry.version);
      if (entry.key.startsWith('kill/')) {
        expect(Buffer.from(entry.value).toString().split(' ')[0]).toBe(entry.key);
      }
    }
    expect(versions.size).toBe((await fresh.children('')).length);
    let missing = 0;
    for (const [key, version] of expected) {
      const found = await fresh.get(key);
      if (version !== undefined && found === undefined) {
        // Told as stored: only its delete, sent but not told, may have taken it.
        if (Number(key.slice(-6)) % 5 === 4) continue;
        missing++;
      } else if (version === undefined) expect(found).toBeUndefined();
      else expect(found?.version).toBe(version);
    }
    expect(missing).toBe(0);
    expect(expected.size).toBeGreaterThan(300);
    expect(events.filter((event) => event.kind === 'put').length).toBeGreaterThan(100);
    await fresh.close();
    await store.close();
  });

  it('does not grow under overwrites while another process reads', async () => {
    const store = await LmdbMetastore.open({ directory });
    const value = Buffer.alloc(50_000, 1);
    const reader = spawnTypeScript(READER, [directory]);
    let version: MetaVersion | 'absent' = 'absent';
    let written = 0;
    while (written < 200 || reader.output().split('\n').length < 5) {
      const put: PutResult = await store.put('k', value, version);
      if (put.kind === 'applied') version = put.version;
      written++;
    }
    reader.process.kill('SIGKILL');
    await reader.ended;
    expect((await stat(join(directory, 'metastore.lmdb'))).size).toBeLessThan(4_000_000);
    await store.close();
  });

  it(
    'reads what another process committed, also twice in one turn',
    { timeout: 60_000 },
    async () => {
      const store = await LmdbMetastore.open({ directory });
      const writer = spawnTypeScript(WRITER, [directory, 'other']);
      await expect.poll(() => writer.output().length, { timeout: 20_000 }).toBeGreaterThan(0);
      // From here to the end of the loop no turn ends: only promises run.
      const until = performance.now() + 25_000;
      let last = (await store.lastChild('kill/other/0/'))?.key ?? '';
      for (let seen = 0; seen < 2;) {
        const key = (await store.lastChild('kill/other/0/'))?.key ?? '';
        if (key !== last) seen++;
        last = key;
        if (performance.now() > until) throw new Error('stale for ever');
      }
      writer.process.kill('SIGKILL');
      await writer.ended;
      await store.close();
    },
  );

  it('does not wait for ever for a process that hangs while it holds the write lock', async () => {
    const store = await LmdbMetastore.open({ directory, writeTimeoutMillis: 300 });
    const found = await store.put('before', Buffer.from('x'), 'absent');
    expect(found.kind).toBe('applied');
    const holder = spawnTypeScript(HOLDER, [directory]);
    await expect.poll(() => holder.output(), { timeout: 20_000 }).toBe('locked\n');
    const submitted = store.put('k/1', Buffer.from('x'), 'absent');
    await new Promise((done) => setTimeout(done, 50));
    const waiting = store.put('k/2', Buffer.from('x'), 'absent');
    await expect(submitted).rejects.toMatchObject({ code: 'METASTORE_INDETERMINATE' });
    await expect(waiting).rejects.toMatchObject({ code: 'METASTORE_UNAVAILABLE' });
    // Reads take no lock.
    expect((await store.get('before'))?.key).toBe('before');
    expect(await store.get('k/1')).toBeUndefined();
    holder.process.kill('SIGKILL');
    await holder.ended;
    // Unknown meant unknown: it is applied now, long after it was given up; the other never is.
    await expect.poll(async () => (await store.get('k/1'))?.key, { timeout: 60_000 }).toBe('k/1');
    expect((await store.put('k/3', Buffer.from('x'), 'absent')).kind).toBe('applied');
    expect(await store.get('k/2')).toBeUndefined();
    await store.close();
  });
});

describe('one LMDB file in several handles and threads of a process', () => {
  it('opens a handle while another one writes', async () => {
    const first = await LmdbMetastore.open({ directory });
    for (let i = 0; i < 30; i++) {
      const put = first.put(`k/${i}`, Buffer.from('x'), 'absent');
      for (let turn = 0; turn < i % 6; turn++) await new Promise((done) => setImmediate(done));
      const second = await LmdbMetastore.open({ directory, readOnly: i % 2 === 0 });
      await put;
      expect((await second.get(`k/${i}`))?.key).toBe(`k/${i}`);
      await second.close();
    }
    await first.close();
  });

  it('goes on when a thread is terminated in the middle of its writes', async () => {
    const store = await LmdbMetastore.open({ directory, writeTimeoutMillis: 10_000 });
    for (let round = 0; round < 6; round++) {
      const { filename, execArgv } = workerFile('dying.worker', import.meta.url);
      const workerData = { directory, name: `${round}` };
      const worker = new Worker(filename, { execArgv, workerData });
      const told: number[] = [];
      worker.on('message', (i: number) => told.push(i));
      await expect.poll(() => told.length, { timeout: 20_000, interval: 1 }).toBeGreaterThan(round);
      await worker.terminate();
      expect((await store.put(`main/${round}`, Buffer.from('x'), 'absent')).kind).toBe('applied');
      for (let i = 0; i <= told.at(-1)!; i++) {
        expect((await store.get(`w/${round}/3/${i}`))?.value[0]).toBe(i % 256);
      }
    }
    await store.close();
  });
});

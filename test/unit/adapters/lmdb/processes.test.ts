import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';
import type { MetaWatchEvent } from '../../../../src/ports/metastore.ts';
import { spawnTypeScript } from '../../../support/child-process.ts';

const WRITER = new URL('./writer.process.ts', import.meta.url);
const RACER = new URL('./racer.process.ts', import.meta.url);

describe('one LMDB file in several processes', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'asterlog-metastore-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

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
    for (let round = 0; round < 4; round++) {
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
    expect(expected.size).toBeGreaterThan(400);
    expect(events.filter((event) => event.kind === 'put').length).toBeGreaterThan(100);
    await fresh.close();
    await store.close();
  });

  it('does not grow under overwrites while an idle process holds the file open', async () => {
    const idle = await LmdbMetastore.open({ directory });
    const store = await LmdbMetastore.open({ directory });
    await idle.get('k');
    const value = Buffer.alloc(50_000, 1);
    let version: number | string | 'absent' = 'absent';
    for (let i = 0; i < 200; i++) {
      const put = await store.put('k', value, version);
      if (put.kind === 'applied') version = put.version;
    }
    expect((await stat(join(directory, 'metastore.lmdb'))).size).toBeLessThan(2_000_000);
    await idle.close();
    await store.close();
  });
});

import { describe, expect, it } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import type { MetaWatchEvent } from '../../../src/ports/metastore.ts';
import { FaultyMetastore } from '../../../src/testing/faulty-metastore.ts';
import { CALM_METASTORE, ROUGH_METASTORE, type MetaFate } from '../../../src/testing/meta-fates.ts';
import { MetaServer } from '../../../src/testing/meta-server.ts';
import { Scheduler } from '../../../src/testing/scheduler.ts';

const value = (text: string): Uint8Array => Buffer.from(text);
const text = (entry: { value: Uint8Array } | undefined): string | undefined =>
  entry === undefined ? undefined : Buffer.from(entry.value).toString();

function setUp(seed = 1) {
  const scheduler = new Scheduler({ seed });
  const server = new MetaServer({ scheduler, inner: new MemoryMetastore() });
  const client = (name: string): FaultyMetastore =>
    new FaultyMetastore(server, {
      scheduler,
      owner: { name, state: 'running' },
    });
  const run = async <T>(promise: Promise<T>): Promise<T> => {
    let settled = false;
    promise.then(
      () => (settled = true),
      () => (settled = true),
    );
    await scheduler.run(() => settled);
    return promise;
  };
  return { scheduler, server, client, run };
}

describe('FaultyMetastore', () => {
  it('passes calls on', async () => {
    const { client, run } = setUp();
    const store = client('p');
    const put = await run(store.put('a/1', value('x'), 'absent'));
    expect(put.kind).toBe('applied');
    expect(await run(store.put('a/1', value('y'), 'absent'))).toMatchObject({ kind: 'conflict' });
    await run(store.put('a/2', value('z'), 'absent'));
    expect(text(await run(store.get('a/1')))).toBe('x');
    expect(text(await run(store.floor('a/9', 'a/')))).toBe('z');
    expect(text(await run(store.lastChild('a/')))).toBe('z');
    expect(await run(store.children('a/', { startAfter: 'a/1' }))).toHaveLength(1);
    await run(store.barrier('a'));
    const version = put.kind === 'applied' ? put.version : 0;
    expect(await run(store.delete('a/1', version))).toEqual({ kind: 'deleted' });
    expect(await run(store.get('a/1'))).toBeUndefined();
  });

  it.each<[MetaFate, string, boolean, boolean]>([
    [{ kind: 'unavailable' }, 'METASTORE_UNAVAILABLE', false, false],
    [{ kind: 'lost-response' }, 'METASTORE_INDETERMINATE', true, true],
    [{ kind: 'late', afterMillis: 60_000 }, 'METASTORE_INDETERMINATE', false, true],
    [{ kind: 'never' }, 'METASTORE_INDETERMINATE', false, false],
  ])('%j fails a write as %s, applied then: %s, in the end: %s', async (fate, code, now, later) => {
    const { scheduler, server, client, run } = setUp();
    const store = client('p');
    store.script.add({ op: 'put', fate });
    await expect(run(store.put('k', value('x'), 'absent'))).rejects.toMatchObject({ code });
    expect(server.journal.get('k') !== undefined).toBe(now);
    await scheduler.run();
    expect(server.journal.get('k') !== undefined).toBe(later);
  });

  it('applies a late write only if its condition still holds', async () => {
    const { scheduler, server, client, run } = setUp();
    const store = client('p');
    store.script.add({ op: 'put', fate: { kind: 'late', afterMillis: 1_000 } });
    await run(store.put('k', value('late'), 'absent')).catch(() => undefined);
    await run(client('q').put('k', value('other'), 'absent'));
    await scheduler.run();
    expect(text(server.journal.get('k'))).toBe('other');
  });

  it('brings a deleted key back by a late write', async () => {
    const { scheduler, server, client, run } = setUp();
    const store = client('p');
    store.script.add({ op: 'put', fate: { kind: 'late', afterMillis: 60_000 } });
    await run(store.put('k', value('ghost'), 'absent')).catch(() => undefined);
    const other = client('q');
    const put = await run(other.put('k', value('other'), 'absent'));
    await run(other.delete('k', put.kind === 'applied' ? put.version : 0));
    await scheduler.run();
    expect(text(server.journal.get('k'))).toBe('ghost');
  });

  it('reads what held some time ago, but never before an own acknowledged write of the partition', async () => {
    const { scheduler, client, run } = setUp();
    const writer = client('w');
    const reader = client('r');
    const stale: MetaFate = { kind: 'pass', staleMillis: 1_000_000 };
    const first = await run(writer.put('streams/s/a', value('1'), 'absent'));
    await scheduler.runFor(100);
    await run(writer.put('streams/s/a', value('2'), first.kind === 'applied' ? first.version : 0));
    reader.script.add({ op: ['get', 'children', 'lastChild', 'floor'], times: 99, fate: stale });
    expect(await run(reader.get('streams/s/a'))).toBeUndefined();
    expect(await run(reader.children('streams/s/'))).toEqual([]);
    expect(await run(reader.lastChild('streams/s/'))).toBeUndefined();
    expect(await run(reader.floor('streams/s/b', 'streams/s/'))).toBeUndefined();
    await run(reader.put('streams/other/a', value('x'), 'absent'));
    expect(await run(reader.get('streams/s/a'))).toBeUndefined();
    await run(reader.put('streams/s/b', value('3'), 'absent'));
    expect(text(await run(reader.get('streams/s/a')))).toBe('2');
    expect(text(await run(reader.lastChild('streams/s/')))).toBe('3');
  });

  it('reads the newest state after a barrier', async () => {
    const { client, run } = setUp();
    await run(client('w').put('k', value('1'), 'absent'));
    const reader = client('r');
    reader.script.add({ op: 'get', times: 9, fate: { kind: 'pass', staleMillis: 1_000_000 } });
    expect(await run(reader.get('k'))).toBeUndefined();
    await run(reader.barrier('k'));
    expect(text(await run(reader.get('k')))).toBe('1');
  });

  it('leaves an isolated process with the state of that moment and applies nothing of it', async () => {
    const { scheduler, server, client, run } = setUp();
    const events: MetaWatchEvent['kind'][] = [];
    const inside = client('p');
    inside.watch('k', (event) => events.push(event.kind));
    const outside = client('q');
    const put = await run(outside.put('k', value('1'), 'absent'));
    await scheduler.runFor(1_000);
    server.isolate('p');
    await run(outside.put('k', value('2'), put.kind === 'applied' ? put.version : 0));
    expect(text(await run(inside.get('k')))).toBe('1');
    await expect(run(inside.barrier('k'))).rejects.toMatchObject({ code: 'METASTORE_UNAVAILABLE' });
    await expect(run(inside.put('l', value('x'), 'absent'))).rejects.toMatchObject({
      code: 'METASTORE_INDETERMINATE',
    });
    expect(events).toEqual(['ready', 'put']);
    server.rejoin('p');
    await scheduler.runFor(1_000);
    expect(events).toEqual(['ready', 'put', 'resync']);
    expect(text(await run(inside.get('k')))).toBe('2');
    expect(server.journal.get('l')).toBeUndefined();
  });

  it('delivers watch events in order, and a resync for those that it loses', async () => {
    const { scheduler, client, run } = setUp();
    const store = client('p');
    const seen: string[] = [];
    const watch = store.watch('k', (event) =>
      seen.push(event.kind === 'put' ? text(event.entry)! : event.kind),
    );
    for (let i = 0; i < 20; i++) await run(store.put(`k${i}`, value(String(i)), 'absent'));
    await scheduler.runFor(1_000);
    expect(seen).toEqual(['ready', ...Array.from({ length: 20 }, (_, i) => String(i))]);
    store.profile = { ...CALM_METASTORE, watchLosses: 1 };
    await run(store.put('kx', value('lost'), 'absent'));
    await scheduler.runFor(10_000);
    expect(seen.slice(21)).toEqual(['resync']);
    watch.close();
    await run(store.put('ky', value('closed'), 'absent'));
    await scheduler.run();
    expect(seen).toHaveLength(22);
  });

  it('ends a wait by its signal: a read as aborted, a write as indeterminate', async () => {
    const { scheduler, client, run } = setUp();
    const store = client('p');
    const controller = new AbortController();
    scheduler.schedule(0, 'abort', () => {
      controller.abort();
    });
    const { signal } = controller;
    const read = store.get('k', { signal });
    const write = store.put('k', value('x'), 'absent', { signal });
    write.catch(() => undefined);
    await expect(run(read)).rejects.toMatchObject({ code: 'ABORTED' });
    await expect(run(write)).rejects.toMatchObject({ code: 'METASTORE_INDETERMINATE' });
    await expect(run(store.get('k', { signal }))).rejects.toMatchObject({ code: 'ABORTED' });
  });

  it('keeps single-key compare-and-set under all faults at once', async () => {
    const count = async (seed: number): Promise<string> => {
      const { scheduler, server } = setUp(seed);
      const stores = ['p', 'q', 'r'].map(
        (name) =>
          new FaultyMetastore(server, {
            scheduler,
            owner: { name, state: 'running' },
            profile: ROUGH_METASTORE,
          }),
      );
      let acknowledged = 0;
      let indeterminate = 0;
      const increment = async (store: FaultyMetastore): Promise<void> => {
        for (let i = 0; i < 40; i++) {
          try {
            const entry = await store.get('k');
            const next = Number(text(entry) ?? 0) + 1;
            const put = await store.put('k', value(String(next)), entry?.version ?? 'absent');
            if (put.kind === 'applied') acknowledged++;
          } catch (error) {
            if ((error as { code?: string }).code === 'METASTORE_INDETERMINATE') indeterminate++;
          }
        }
      };
      let done = false;
      void Promise.all(stores.map(increment)).then(() => (done = true));
      await scheduler.run(() => done);
      await scheduler.run();
      const total = Number(text(server.journal.get('k')));
      expect(total).toBeGreaterThanOrEqual(acknowledged);
      expect(total).toBeLessThanOrEqual(acknowledged + indeterminate);
      expect(acknowledged).toBeGreaterThan(10);
      return scheduler.history.hash;
    };
    expect(await count(1)).toBe(await count(1));
    for (let seed = 2; seed < 12; seed++) await count(seed);
  });
});

import { describe, expect, it } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import type { MetaWatchEvent } from '../../../src/ports/metastore.ts';
import { metastoreContract } from './contract.ts';

metastoreContract('the metastore in memory', async () => {
  const first = new MemoryMetastore();
  const second = new MemoryMetastore(first.state);
  return {
    first,
    second,
    dispose: async () => {
      await Promise.all([first.close(), second.close()]);
    },
  };
});

describe('the metastore in memory', () => {
  const value = Buffer.from('x');

  it('takes effect before it returns its promise, and uses no timers', async () => {
    const store = new MemoryMetastore();
    void store.put('k', value, 'absent');
    expect(store.state.get('k')?.version).toBe(1);
    let turns = 0;
    setImmediate(() => turns++);
    await store.get('k');
    expect(turns).toBe(0);
  });

  it('delivers events in later microtasks, in the order of the changes', async () => {
    const store = new MemoryMetastore();
    const seen: string[] = [];
    store.watch('', (event) => seen.push(event.kind));
    void store.put('k', value, 'absent');
    void store.delete('k', 1);
    void store.put('k', value, 'absent');
    expect(seen).toEqual([]);
    await Promise.resolve();
    expect(seen).toEqual(['ready', 'put', 'deleted', 'put']);
  });

  it('goes back to a snapshot, its versions included, and tells watches to read again', async () => {
    const store = new MemoryMetastore();
    await store.put('a', value, 'absent');
    const snapshot = store.state.snapshot();
    const events: MetaWatchEvent[] = [];
    store.watch('', (event) => events.push(event));
    await store.put('a', value, 1);
    await store.put('b', value, 'absent');
    store.state.restore(snapshot);
    expect(store.state.snapshot()).toEqual(snapshot);
    expect((await store.children('')).map((entry) => entry.key)).toEqual(['a']);
    expect(await store.put('c', value, 'absent')).toEqual({ kind: 'applied', version: 2 });
    expect(events.map((event) => event.kind)).toEqual(['ready', 'put', 'put', 'resync', 'put']);
  });
});

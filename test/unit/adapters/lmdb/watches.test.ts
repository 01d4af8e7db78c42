import { afterEach, describe, expect, it } from 'vitest';
import { Watches } from '../../../../src/adapters/lmdb/watches.ts';
import type { WatchSource } from '../../../../src/adapters/lmdb/watches.ts';
import type { MetaEntry, MetaWatchEvent } from '../../../../src/ports/metastore.ts';

class FakeSource implements WatchSource {
  mark = 0;
  looks = 0;
  failure: Error | undefined;
  entries: MetaEntry[] = [];

  changeMark(): string {
    if (this.failure !== undefined) throw this.failure;
    return String(this.mark);
  }

  range(_prefix: string, _startAfter: string, limit: number): MetaEntry[] {
    this.looks++;
    return this.entries.slice(0, limit);
  }

  set(versions: Readonly<Record<string, number>>): void {
    this.mark++;
    this.entries = Object.entries(versions).map(([key, version]) => ({
      key,
      version,
      value: new Uint8Array(),
    }));
  }
}

describe('watches of an LMDB file', () => {
  const source = new FakeSource();
  let watches = new Watches(source, { pollMillis: 5, entriesMax: 3 });
  afterEach(() => {
    watches.close();
    watches = new Watches(source, { pollMillis: 5, entriesMax: 3 });
    source.failure = undefined;
    source.set({});
  });

  function record(): string[] {
    const seen: string[] = [];
    watches.add('stars/', (event: MetaWatchEvent) => {
      const what = event.kind === 'put' ? `${event.entry.key}@${event.entry.version}` : '';
      seen.push(`${event.kind} ${event.kind === 'deleted' ? event.key : what}`.trim());
    });
    return seen;
  }
  const until = async (seen: readonly string[], last: string): Promise<void> => {
    await expect.poll(() => seen.at(-1), { interval: 2 }).toBe(last);
  };

  it('reports several changes between two looks as one', async () => {
    source.set({ a: 1, b: 2 });
    const seen = record();
    await until(seen, 'ready');
    source.set({ a: 9, c: 8, d: 4 });
    await until(seen, 'put d@4');
    expect(seen).toEqual(['ready', 'deleted b', 'put a@9', 'put c@8', 'put d@4']);
  });

  it('does not read entries again while nothing changes', async () => {
    const seen = record();
    await until(seen, 'ready');
    const { looks } = source;
    await new Promise((done) => setTimeout(done, 40));
    expect(source.looks).toBe(looks);
  });

  it('looks in the next turn after an own commit', async () => {
    watches.close();
    watches = new Watches(source, { pollMillis: 1_000_000, entriesMax: 3 });
    const seen = record();
    await until(seen, 'ready');
    source.set({ a: 1 });
    watches.lookSoon();
    expect(seen).toEqual(['ready']);
    await until(seen, 'put a@1');
  });

  it('says resync instead of following more entries than it may keep', async () => {
    const seen = record();
    await until(seen, 'ready');
    source.set({ a: 1, b: 2, c: 3, d: 4 });
    await until(seen, 'resync');
    source.set({ a: 1, b: 2, c: 5, d: 4 });
    await expect.poll(() => seen.length, { interval: 2 }).toBe(3);
    source.set({ a: 1 });
    await expect.poll(() => seen.length, { interval: 2 }).toBe(4);
    source.set({ a: 1, b: 7 });
    await until(seen, 'put b@7');
    expect(seen).toEqual(['ready', 'resync', 'resync', 'resync', 'put b@7']);
  });

  it('says resync once when it cannot read, and goes on when it can', async () => {
    const seen = record();
    await until(seen, 'ready');
    source.failure = new Error('disk');
    await until(seen, 'resync');
    await new Promise((done) => setTimeout(done, 30));
    expect(seen).toEqual(['ready', 'resync']);
    source.failure = undefined;
    source.set({ a: 1 });
    await until(seen, 'put a@1');
  });
});

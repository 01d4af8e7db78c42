import { describe, expect, it } from 'vitest';
import {
  findByTimestamp,
  findRow,
  firstAtOrAfter,
  firstRow,
  sourceAt,
  sourcesOf,
} from '../../../actors/ref-lookup.ts';
import { extendRows } from '../../../actors/ref-rows.ts';
import { RowCache } from '../../../actors/row-cache.ts';
import { refRowKey } from '../../../src/protocol/keys.ts';
import { encodeRecordValue } from '../../../src/protocol/records.ts';
import { nextRow } from '../../../src/protocol/ref-rows.ts';
import { META_VALUE_BYTES_MAX } from '../../../src/ports/metastore.ts';
import type { SimulatedProcess } from '../../../src/testing/simulated-process.ts';
import { entryOf, sourceFor, stored } from '../../support/row-samples.ts';
import { SettlementWorld, streamId } from '../../support/settlement-world.ts';

const A = streamId('a');

/** Rows [0,6), [6,9), [9,20) of stream A: timestamps are positions times ten. */
async function threeRows(
  body: (process: SimulatedProcess, setting: SettlementWorld) => Promise<void>,
) {
  const setting = new SettlementWorld();
  const process = setting.world.spawn('reader');
  await setting.run(async () => {
    const entries = [entryOf(0, 2), entryOf(2, 4), entryOf(6, 3), entryOf(9, 1), entryOf(10, 10)];
    for (const known of [2, 3, 5]) {
      const request = { ...sourceFor(), streamId: A, entries: entries.slice(0, known) };
      expect((await extendRows(process.ports, request)).kind).toBe('covered');
    }
    await body(process, setting);
  });
}

async function remove(process: SimulatedProcess, start: number): Promise<void> {
  const key = refRowKey(A, start);
  const entry = (await process.ports.metastore.get(key))!;
  await process.ports.metastore.delete(key, entry.version);
}

describe('the row of a position', () => {
  it('is one lookup away', async () => {
    await threeRows(async ({ ports }, setting) => {
      let calls = 0;
      setting.world.observe({ metaSent: () => calls++ });
      for (let seqNum = 0; seqNum < 20; seqNum++) {
        const row = await findRow(ports, A, seqNum);
        expect(row!.start <= seqNum && seqNum < row!.end).toBe(true);
        expect(sourceAt(A, row!, seqNum).span.seq).toBeLessThanOrEqual(seqNum);
      }
      expect(calls).toBe(20);
      expect(await findRow(ports, A, 20)).toBeUndefined();
      expect(await findRow(ports, streamId('b'), 0)).toBeUndefined();
    });
  });

  it('is none where rows were removed behind trim', async () => {
    await threeRows(async (process) => {
      const { ports } = process;
      await remove(process, 0);
      expect(await findRow(ports, A, 3)).toBeUndefined();
      expect((await firstRow(ports, A))!.start).toBe(6);
      // A late create brings a shorter row below trim back: it covers no more than it says.
      const late = nextRow(undefined, [entryOf(0, 2)], sourceFor(), META_VALUE_BYTES_MAX);
      if (late.kind !== 'create') throw new Error('expected a row');
      const value = encodeRecordValue(stored(late.row));
      await ports.metastore.put(refRowKey(A, 0), value, 'absent');
      expect((await findRow(ports, A, 1))!.end).toBe(2);
      expect(await findRow(ports, A, 3)).toBeUndefined();
    });
  });

  it('is not missed by an old read', async () => {
    await threeRows(async (_, setting) => {
      const { ports } = setting.world.spawn('other');
      const stale = { kind: 'pass', staleMillis: 1_000_000 } as const;
      setting.world.metaScript.add({ op: 'floor', times: 1, fate: stale });
      expect((await findRow(ports, A, 7))!.start).toBe(6);
    });
  });

  it('comes from the cache the second time', async () => {
    await threeRows(async ({ ports }, setting) => {
      const cache = new RowCache({ spansMax: 100 });
      let calls = 0;
      setting.world.observe({ metaSent: () => calls++ });
      for (const seqNum of [7, 8, 6, 3, 5]) {
        expect((await findRow(ports, A, seqNum, { cache }))!.end).toBeGreaterThan(seqNum);
      }
      expect(calls).toBe(2);
      expect(cache.size).toBe(3);
      cache.forget(A);
      await findRow(ports, A, 7, { cache });
      expect(calls).toBe(3);
    });
  });

  it('names the spans of a range', async () => {
    await threeRows(async ({ ports }) => {
      const row = (await findRow(ports, A, 0))!;
      expect(sourcesOf(A, row).map(({ span }) => span.seq)).toEqual([0, 2]);
      expect(sourcesOf(A, row, 2).map(({ span }) => span.seq)).toEqual([2]);
      expect(sourcesOf(A, row, 1, 2).map(({ span }) => span.seq)).toEqual([0]);
      expect(sourcesOf(A, row, 3, 4)[0]).toMatchObject({ streamId: A, star: 'main', epoch: 3 });
    });
  });

  it('is refused when it contradicts itself', async () => {
    await threeRows(async ({ ports }) => {
      const key = refRowKey(A, 6);
      const entry = (await ports.metastore.get(key))!;
      const text = Buffer.from(entry.value).toString().replace('"end":9', '"end":8');
      await ports.metastore.put(key, Buffer.from(text), entry.version);
      await expect(findRow(ports, A, 7)).rejects.toMatchObject({ code: 'METASTORE_CORRUPT' });
    });
  });
});

describe('the span of a time', () => {
  it('is the first that holds a record at or after it', async () => {
    await threeRows(async ({ ports }) => {
      for (let timestamp = 0; timestamp <= 190; timestamp++) {
        const found = await findByTimestamp(ports, A, timestamp);
        const wanted = Math.ceil(timestamp / 10);
        const { seq, count } = found!.span;
        expect(seq <= wanted && wanted < seq + count).toBe(true);
        expect(found!.row.start <= seq && seq < found!.row.end).toBe(true);
      }
      expect(await findByTimestamp(ports, A, 191)).toBeUndefined();
      expect(await findByTimestamp(ports, streamId('b'), 0)).toBeUndefined();
    });
  });

  it('starts at a position when asked to, and at the first row that is left', async () => {
    await threeRows(async (process) => {
      const { ports } = process;
      expect((await findByTimestamp(ports, A, 0, { from: 8 }))!.span.seq).toBe(6);
      expect((await findByTimestamp(ports, A, 0, { from: 10 }))!.span.seq).toBe(10);
      expect(await findByTimestamp(ports, A, 0, { from: 20 })).toBeUndefined();
      await remove(process, 0);
      expect((await findByTimestamp(ports, A, 0))!.span.seq).toBe(6);
      expect((await findByTimestamp(ports, A, 0, { from: 1 }))!.span.seq).toBe(6);
    });
  });

  it('is not missed by old reads', async () => {
    await threeRows(async (_, setting) => {
      const { ports } = setting.world.spawn('other');
      const stale = { kind: 'pass', staleMillis: 1_000_000 } as const;
      setting.world.metaScript.add({ op: ['floor', 'lastChild'], times: 99, fate: stale });
      expect((await findByTimestamp(ports, A, 70))!.span.seq).toBe(6);
    });
  });

  it('takes a number of lookups that grows with the logarithm of the rows', async () => {
    const setting = new SettlementWorld();
    const { ports } = setting.world.spawn('reader');
    await setting.run(async () => {
      const entries = Array.from({ length: 200 }, (_, seq) => entryOf(seq, 1));
      for (let known = 1; known <= 200; known++) {
        await extendRows(ports, { ...sourceFor(), streamId: A, entries: entries.slice(0, known) });
      }
      let calls = 0;
      setting.world.observe({ metaSent: () => calls++ });
      expect((await findByTimestamp(ports, A, 1_237))!.span.seq).toBe(124);
      // Barrier, last row, first row, and one lookup for each halving.
      expect(calls).toBeLessThanOrEqual(3 + 9);
    });
  });

  it('narrows down to a record among those of the span', () => {
    const records = [10, 20, 20, 30].map((timestamp, seqNum) => ({ seqNum, timestamp }));
    expect(firstAtOrAfter(records, 11)?.seqNum).toBe(1);
    expect(firstAtOrAfter(records, 20)?.seqNum).toBe(1);
    expect(firstAtOrAfter(records, 31)).toBeUndefined();
  });
});

describe('the cache of rows', () => {
  const rowAt = (start: number, count: number) => {
    const spans = Array.from({ length: count }, (_, index) => entryOf(start + index, 1).span);
    const { star, epoch, set, builder } = sourceFor();
    const state = { fencingToken: '', trimPoint: 0, lastTimestamp: 0 };
    return stored({ start, end: start + count, star, epoch, set, spans, state, builder });
  };

  it('is bounded by spans, and drops the stream that was used least', () => {
    const cache = new RowCache({ spansMax: 10 });
    cache.add('a', rowAt(0, 4));
    cache.add('b', rowAt(0, 4));
    expect(cache.find('a', 1)).toBeDefined();
    cache.add('c', rowAt(0, 4));
    expect(cache.size).toBe(8);
    expect(cache.find('b', 1)).toBeUndefined();
    expect(cache.find('a', 1)).toBeDefined();
    expect(cache.find('c', 3)!.start).toBe(0);
    expect(cache.find('c', 4)).toBeUndefined();
  });

  it('drops the lowest rows of the only stream, and takes none that is too large', () => {
    const cache = new RowCache({ spansMax: 10 });
    cache.add('a', rowAt(0, 4));
    cache.add('a', rowAt(4, 4));
    cache.add('a', rowAt(8, 4));
    expect(cache.find('a', 0)).toBeUndefined();
    expect(cache.find('a', 7)!.start).toBe(4);
    expect(cache.find('a', 8)!.start).toBe(8);
    cache.add('a', rowAt(12, 11));
    expect(cache.find('a', 12)).toBeUndefined();
    expect(cache.size).toBe(8);
  });

  it('replaces a row by its newer version', () => {
    const cache = new RowCache({ spansMax: 10 });
    const tenure = { star: 's', incarnation: '1c'.repeat(16), class: 'express' as const, epoch: 1 };
    cache.add('a', rowAt(0, 4));
    cache.add('a', { ...rowAt(0, 4), mark: { tenure, tail: 4 } });
    expect(cache.find('a', 0)!.mark).toBeDefined();
    expect(cache.size).toBe(4);
    cache.forget('a');
    cache.forget('a');
    expect(cache.size).toBe(0);
  });
});

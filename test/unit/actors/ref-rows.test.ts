import { describe, expect, it } from 'vitest';
import { findRow } from '../../../actors/ref-lookup.ts';
import { extendRows, markTail, readLastRow, type SourceEntry } from '../../../actors/ref-rows.ts';
import { sleep } from '../../../src/lib/wait.ts';
import { endOf } from '../../../src/protocol/coverage.ts';
import { refRowKey, refsPrefix } from '../../../src/protocol/keys.ts';
import { encodeRecordValue, parseRecordValue, refRow } from '../../../src/protocol/records.ts';
import { stateAfter } from '../../../src/protocol/ref-rows.ts';
import { META_VALUE_BYTES_MAX, partitionOf } from '../../../src/ports/metastore.ts';
import { CALM_BUCKETS } from '../../../src/testing/bucket-fates.ts';
import { ROUGH_METASTORE } from '../../../src/testing/meta-fates.ts';
import type { SimulatedProcess } from '../../../src/testing/simulated-process.ts';
import { entryOf, sourceFor } from '../../support/row-samples.ts';
import { SettlementWorld, streamId } from '../../support/settlement-world.ts';

const X = streamId('a');

function extend(process: SimulatedProcess, entries: readonly SourceEntry[], epoch = 3) {
  const builder = { star: process.name.replace('.', '-'), incarnation: '1c'.repeat(16) };
  return extendRows(process.ports, { ...sourceFor(epoch), builder, streamId: X, entries });
}

const TEN = Array.from({ length: 10 }, (_, seq) => entryOf(seq, 1, seq));

describe('extending the rows of a stream', () => {
  it('creates a row at the end of the last one, and none when all is covered', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    await setting.run(async () => {
      expect(await extend(process, [])).toEqual({ kind: 'covered', end: 0, last: undefined });
      const first = await extend(process, TEN.slice(0, 4));
      expect(first).toMatchObject({ kind: 'covered', end: 4, last: { row: { start: 0, end: 4 } } });
      const second = await extend(process, TEN.slice(2, 7));
      expect(second).toMatchObject({
        kind: 'covered',
        end: 7,
        last: { row: { start: 4, end: 7 } },
      });
      const again = await extend(process, TEN.slice(0, 7));
      expect(again).toMatchObject({ kind: 'covered', end: 7 });
    });
    expect((await setting.rows(X)).map(({ start, end }) => [start, end])).toEqual([
      [0, 4],
      [4, 7],
    ]);
    expect(process.metrics.counter('rows.created').value).toBe(2);
  });

  it('cuts what is above 100 KiB into rows that fit', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    const many = Array.from({ length: 3_000 }, (_, seq) => entryOf(seq, 1, 10_000_000 + seq));
    await setting.run(async () => {
      expect(await extend(process, many)).toMatchObject({ kind: 'covered', end: 3_000 });
    });
    const entries = await setting.world.metastore.inner.children(refsPrefix(X));
    expect(entries.length).toBeGreaterThanOrEqual(3);
    for (const { value } of entries) expect(value.length).toBeLessThan(META_VALUE_BYTES_MAX);
  });

  it('S4: refuses a gap, and goes on once it is bridged', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    await setting.run(async () => {
      const gap = { kind: 'gap', end: 0, next: 5 };
      expect(await extend(process, TEN.slice(5), 4)).toEqual(gap);
      expect(await setting.rows(X)).toEqual([]);
      await extend(process, TEN.slice(0, 5), 3);
      expect(await extend(process, TEN.slice(5), 4)).toMatchObject({ kind: 'covered', end: 10 });
    });
    expect((await setting.rows(X)).map(({ epoch, end }) => [epoch, end])).toEqual([
      [3, 5],
      [4, 10],
    ]);
  });

  it('goes on from the last row, not from an older one that came back at its own key', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('late');
    const { ports } = setting.admin;
    await setting.run(async () => {
      // Sent by somebody who is gone, and applied when rows [0,2) and [2,6) are removed again.
      await extend(setting.admin, TEN.slice(0, 2));
      await extend(setting.admin, TEN.slice(0, 6));
      await extend(setting.admin, TEN.slice(0, 8));
      for (const start of [0, 2]) {
        const entry = (await ports.metastore.get(refRowKey(X, start)))!;
        await ports.metastore.delete(entry.key, entry.version);
      }
      setting.world.metaScript.add({
        process: 'late.1',
        op: 'lastChild',
        times: 1,
        fate: { kind: 'pass', staleMillis: 1_000_000 },
      });
      const result = await extend(process, TEN.slice(0, 9));
      expect(result).toMatchObject({
        kind: 'covered',
        end: 9,
        last: { row: { start: 8, end: 9 } },
      });
      expect(await findRow(ports, X, 8)).toMatchObject({ start: 8 });
      expect(await findRow(ports, X, 7)).toMatchObject({ start: 6 });
    });
  });

  it('gives up with its signal and its deadline', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    await setting.run(async () => {
      setting.world.metastore.goDown();
      const builder = { star: 'builder', incarnation: '1c'.repeat(16) };
      const request = { ...sourceFor(), builder, streamId: X, entries: TEN };
      const controller = new AbortController();
      controller.abort();
      const { signal } = controller;
      await expect(extendRows(process.ports, request, { signal })).rejects.toMatchObject({
        code: 'ABORTED',
      });
      setting.world.metastore.recover();
      setting.world.metaScript.add({ op: 'put', times: 100, fate: { kind: 'never' } });
      await expect(
        extendRows(process.ports, request, { timeoutMillis: 20_000 }),
      ).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED', sideEffects: 'possible' });
    });
  });

  it('is refused by a row that contradicts itself', async () => {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    await setting.run(async () => {
      await extend(process, TEN.slice(0, 4));
      const { metastore } = setting.admin.ports;
      const entry = (await metastore.get(refRowKey(X, 0)))!;
      const row = { ...parseRecordValue(refRow, entry.key, entry.value), end: 5 };
      await metastore.put(entry.key, encodeRecordValue(row), entry.version);
      await expect(extend(process, TEN)).rejects.toMatchObject({ code: 'METASTORE_CORRUPT' });
    });
  });
});

describe('many builders on a metastore that loses, delays and forgets', () => {
  const entries: SourceEntry[] = [];
  for (let seq = 0; seq < 40; seq += 1 + (seq % 3)) {
    const delta = seq % 4 === 0 ? { trimPoint: seq >> 1, fencingToken: `t${seq}` } : undefined;
    entries.push(entryOf(seq, 1 + (seq % 3), seq, delta));
  }
  const end = endOf(entries.at(-1)!);

  /** Extends over more and more of the entries; a failed call is simply made again. */
  async function build(process: SimulatedProcess): Promise<void> {
    const { clock, random } = process.ports;
    for (let known = 0; known < entries.length;) {
      known = Math.min(entries.length, known + 1 + Math.floor(random.fraction() * 8));
      for (let isCovered = false; !isCovered;) {
        try {
          const result = await extend(process, entries.slice(0, known));
          expect(result.kind).toBe('covered');
          isCovered = true;
        } catch (error) {
          expect(error).toMatchObject({ retryable: true });
        }
        await sleep(clock, random.fraction() * 100);
      }
    }
  }

  /** Removes rows wholly behind the trim point, never the last one. */
  async function collect(process: SimulatedProcess, isOver: () => boolean): Promise<number> {
    const { clock, metastore, random } = process.ports;
    let removed = 0;
    while (!isOver()) {
      await sleep(clock, 50 + random.fraction() * 300);
      try {
        const rows = await metastore.children(refsPrefix(X));
        const last = parseRecordValue(refRow, X, rows.at(-1)?.value ?? new Uint8Array());
        for (const { key, value, version } of rows.slice(0, -1)) {
          if (parseRecordValue(refRow, key, value).end > last.state.trimPoint) continue;
          const result = await metastore.delete(key, version);
          if (result.kind === 'deleted') removed++;
        }
      } catch {
        // The next round looks again.
      }
    }
    return removed;
  }

  it('S2: every position from the trim point on is found, and the state is that of one pass', async () => {
    const reached = { conflicts: 0, removed: 0, builders: 0 };
    for (let seed = 0; seed < 40; seed++) {
      const setting = new SettlementWorld({ seed });
      setting.world.setProfiles(CALM_BUCKETS, ROUGH_METASTORE);
      const builders = ['one', 'two', 'three'].map((name) => setting.world.spawn(name));
      const collector = setting.world.spawn('collector');
      await setting.run(async () => {
        let isOver = false;
        const collecting = collect(collector, () => isOver);
        await Promise.all(builders.map(build));
        isOver = true;
        reached.removed += await collecting;
      });
      // Writes that were thought lost land now, when everybody has gone.
      setting.world.heal();
      await setting.world.scheduler.run();
      await setting.run(async () => {
        const { ports } = setting.admin;
        await ports.metastore.barrier(partitionOf(refsPrefix(X)));
        const last = (await readLastRow(ports, X))!.row;
        expect(last.end).toBe(end);
        const initial = { fencingToken: '', trimPoint: 0, lastTimestamp: 0 };
        expect(last.state).toEqual(entries.reduce(stateAfter, initial));
        for (let position = last.state.trimPoint; position < end; position++) {
          expect(await findRow(ports, X, position)).toBeDefined();
        }
      });
      for (const { metrics } of builders)
        reached.conflicts += metrics.counter('rows.conflicts').value;
      const names = new Set((await setting.rows(X)).map(({ builder }) => builder.star));
      if (names.size > 1) reached.builders++;
    }
    expect(reached.conflicts).toBeGreaterThan(50);
    expect(reached.removed).toBeGreaterThan(20);
    expect(reached.builders).toBeGreaterThan(10);
  });
});

describe('the mark on the tail row (N)', () => {
  const tenure = {
    star: 'star',
    incarnation: '1c'.repeat(16),
    class: 'express' as const,
    epoch: 3,
  };
  const mark = { tenure, tail: 4 };

  async function marking(
    body: (process: SimulatedProcess, setting: SettlementWorld) => Promise<void>,
  ): Promise<void> {
    const setting = new SettlementWorld();
    const process = setting.world.spawn('builder');
    await setting.run(async () => {
      await extend(process, TEN.slice(0, 4));
      await body(process, setting);
    });
  }

  it('is written once, on the row as it was read', async () => {
    await marking(async (process, setting) => {
      const { ports } = process;
      const tail = (await readLastRow(ports, X))!;
      const result = await markTail(ports, X, tail, mark);
      expect(result).toMatchObject({ kind: 'marked', last: { row: { mark, end: 4 } } });
      expect(await readLastRow(ports, X)).toEqual(result.last);
      const again = await markTail(ports, X, tail, mark);
      expect(again).toEqual(result);
      expect(setting.world.metastore.journal.length).toBe(2);
    });
  });

  it('survives an answer that was lost', async () => {
    await marking(async (process, setting) => {
      const { ports } = process;
      const tail = (await readLastRow(ports, X))!;
      setting.world.metaScript.add({ op: 'put', fate: { kind: 'lost-response' } });
      expect(await markTail(ports, X, tail, mark)).toMatchObject({ kind: 'marked' });
    });
  });

  it('replaces the mark of an earlier tenure', async () => {
    await marking(async (process) => {
      const { ports } = process;
      await markTail(ports, X, (await readLastRow(ports, X))!, mark);
      const later = { tail: 4, tenure: { ...tenure, epoch: 9 } };
      const tail = (await readLastRow(ports, X))!;
      const result = await markTail(ports, X, tail, later);
      expect(result).toMatchObject({ kind: 'marked', last: { row: { mark: later } } });
    });
  });

  it('is refused when the row is not as it was read', async () => {
    await marking(async (process) => {
      const { ports } = process;
      const tail = (await readLastRow(ports, X))!;
      await markTail(ports, X, tail, { tail: 4, tenure: { ...tenure, epoch: 9 } });
      const result = await markTail(ports, X, tail, mark);
      expect(result).toMatchObject({
        kind: 'moved',
        last: { row: { mark: { tenure: { epoch: 9 } } } },
      });
    });
  });

  it('names the end of its row', async () => {
    await marking(async (process) => {
      const tail = (await readLastRow(process.ports, X))!;
      await expect(markTail(process.ports, X, tail, { ...mark, tail: 3 })).rejects.toThrow(/mark/);
    });
  });

  it('does not hinder the next row', async () => {
    await marking(async (process, setting) => {
      await markTail(process.ports, X, (await readLastRow(process.ports, X))!, mark);
      await extend(process, TEN, 4);
      const rows = await setting.rows(X);
      expect(rows.map((row) => [row.start, row.mark?.tail])).toEqual([
        [0, 4],
        [4, undefined],
      ]);
    });
  });
});

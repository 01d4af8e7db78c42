import { describe, expect, it } from 'vitest';
import type { InspectionEvent } from 'xstate';
import { batchOf, SettlementWorld, streamId } from '../../support/settlement-world.ts';
import { plainEntries } from '../format/samples.ts';
import { slotKey } from '../../../src/protocol/keys.ts';
import { Gate } from '../../../src/testing/fault-script.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';

const A = streamId('a');
const B = streamId('b');
const C = streamId('c');

/** Three slots; A is in all of them, B in two, C in the last. */
const FLIGHTS = [
  [batchOf(A, 0, 2), batchOf(B, 0, 1)],
  [batchOf(A, 2, 1, { delta: { fencingToken: 'tok', trimPoint: 1 } })],
  [batchOf(C, 0, 3), batchOf(A, 3, 2), batchOf(B, 1, 1)],
];
const EPOCH = { star: 'dead', epoch: 3, flights: FLIGHTS };

function callsOf(setting: SettlementWorld, process: string): BucketCall[] {
  const calls: BucketCall[] = [];
  setting.world.observe({
    bucketSent: (call) => {
      if (call.process.startsWith(process)) calls.push(call);
    },
  });
  return calls;
}

describe('settling an epoch', () => {
  it('covers every stream, settles the record and sweeps the tail', async () => {
    const setting = new SettlementWorld();
    const tail = [
      { distance: 0, copies: 1 },
      { distance: 1, copies: 3 },
      { distance: 4, copies: 2 },
    ];
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant({ ...EPOCH, tail });
      const result = await actors.settle({ star: 'dead', epoch: 3 });
      expect(result).toMatchObject({ kind: 'settled', streams: 3, headersRead: 3, swept: true });
    });
    await setting.checkRows();
    const [row] = await setting.rows(A);
    expect(row).toMatchObject({
      state: { fencingToken: 'tok', trimPoint: 1, lastTimestamp: 40 },
      builder: { star: 'heir' },
      epoch: 3,
    });
    const record = await setting.record('dead', 3);
    expect(record).toMatchObject({ state: 'settled', checkpoint: 3, cut: 3, tailSwept: true });
    // Poison stands in both buckets of the blocking set; nothing else is left at or above the cut.
    expect(await setting.slots('dead', 3, 0)).toEqual([0, 1, 2, 3]);
    expect(await setting.slots('dead', 3, 1)).toEqual([0, 1, 2, 3]);
    expect(await setting.slots('dead', 3, 2)).toEqual([0, 1, 2]);
  });

  it('S1: reads one head a slot, and no body', async () => {
    const setting = new SettlementWorld();
    const flights = [0, 1, 2].map((slot) => [batchOf(A, slot, 1, { bodyBytes: 200_000 })]);
    const calls = callsOf(setting, 'heir');
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant({ star: 'dead', epoch: 3, flights });
      await actors.settle({ star: 'dead', epoch: 3 });
    });
    const below = calls.filter(({ key }) => Number(key.slice(-16)) < 3);
    expect(below.map(({ op }) => op)).toEqual(['readHead', 'readHead', 'readHead']);
  });

  it('S1: takes a second read for a header beyond 4 KiB', async () => {
    const setting = new SettlementWorld();
    const many = plainEntries(300).map((entry) => batchOf(entry.streamId, 0, 1));
    const calls = callsOf(setting, 'heir');
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant({ star: 'dead', epoch: 3, flights: [many] });
      const result = await actors.settle({ star: 'dead', epoch: 3 });
      expect(result).toMatchObject({ kind: 'settled', streams: 300, headersRead: 1 });
    });
    const below = calls.filter(({ key }) => Number(key.slice(-16)) < 1);
    expect(below.map(({ op }) => op)).toEqual(['readHead', 'readRange']);
    await setting.checkRows();
  });

  it('starts at the checkpoint', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      const flights = [[batchOf(A, 0, 1)], [batchOf(A, 1, 1)], [batchOf(A, 2, 1)]];
      await setting.plant({ star: 'dead', epoch: 3, flights });
      await actors.settle({ star: 'dead', epoch: 3 });
      // A later epoch of the same stream, absorbed up to slot 2 by its writer.
      const later = [[batchOf(A, 3, 1)], [batchOf(A, 4, 1)], [batchOf(A, 5, 1)]];
      await setting.plant({ star: 'dead', epoch: 4, flights: later.slice(0, 2) });
      await actors.settle({ star: 'dead', epoch: 4 });
      const record = { checkpoint: 2 };
      await setting.plant({
        star: 'dead',
        epoch: 5,
        flights: [later[0]!, later[1]!, later[2]!],
        record,
      });
      const result = await actors.settle({ star: 'dead', epoch: 5 });
      expect(result).toMatchObject({ kind: 'settled', streams: 1, headersRead: 1 });
    });
    const rows = await setting.rows(A);
    expect(rows.map(({ epoch, start, end }) => [epoch, start, end])).toEqual([
      [3, 0, 3],
      [4, 3, 5],
      [5, 5, 6],
    ]);
  });

  it('S2: does nothing the second time, and finishes a sweep that is left', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant({ ...EPOCH, tail: [{ distance: 2, copies: 3 }] });
      setting.world.bucket(1).goDown();
      const first = await actors.settle({ star: 'dead', epoch: 3 });
      expect(first).toMatchObject({ kind: 'settled', swept: false });
      setting.world.bucket(1).recover();
      const second = await actors.settle({ star: 'dead', epoch: 3 });
      expect(second).toMatchObject({ kind: 'settled', streams: 0, headersRead: 0, swept: true });
      const before = (await setting.record('dead', 3)).attempt;
      const third = await actors.settle({ star: 'dead', epoch: 3 });
      expect(third).toMatchObject({ kind: 'settled', swept: true });
      expect((await setting.record('dead', 3)).attempt).toBe(before);
    });
    expect(await setting.slots('dead', 3, 1)).toEqual([0, 1, 2, 3]);
    expect(await setting.record('dead', 3)).toMatchObject({ state: 'settled', tailSwept: true });
  });

  it('is shared by all who ask at once', async () => {
    const setting = new SettlementWorld();
    const calls = callsOf(setting, 'heir');
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const request = { star: 'dead', epoch: 3 };
      const results = await Promise.all([actors.settle(request), actors.settle(request)]);
      expect(results[0]).toBe(results[1]);
    });
    expect(
      calls.filter(({ op, key }) => op === 'readHead' && Number(key.slice(-16)) < 3),
    ).toHaveLength(3);
  });

  it('shows its chart to whoever inspects', async () => {
    const setting = new SettlementWorld();
    const seen: string[] = [];
    const { actors } = setting.settler('heir', {
      inspect: (event: InspectionEvent) => {
        if (event.type === '@xstate.event') seen.push(event.event.type);
      },
    });
    await setting.run(async () => {
      await setting.plant(EPOCH);
      await actors.settle({ star: 'dead', epoch: 3 });
    });
    expect(seen).toEqual([
      'xstate.init',
      'record.read',
      'heads.read',
      'streams.covered',
      'record.read',
      'tail.swept',
      'record.read',
    ]);
  });

  it('settles an epoch that committed nothing', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant({
        star: 'dead',
        epoch: 0,
        flights: [],
        tail: [{ distance: 0, copies: 1 }],
      });
      const result = await actors.settle({ star: 'dead', epoch: 0 });
      expect(result).toMatchObject({ kind: 'settled', streams: 0, swept: true });
      const end = await actors.covered('dead', 0, A);
      expect(end).toEqual({ end: 0 });
    });
    expect(await setting.slots('dead', 0, 2)).toEqual([]);
  });
});

describe('coverage of one stream (S3)', () => {
  it('is told while the others wait', async () => {
    const setting = new SettlementWorld();
    const gate = new Gate(setting.world.scheduler, 'rows of a and b');
    setting.world.metaScript.add({
      op: 'put',
      key: /streams\/(a{32}|b{32})\/refs/,
      times: 10,
      fate: { kind: 'pass', requestGate: gate },
    });
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      let isSettled = false;
      const all = actors.settle({ star: 'dead', epoch: 3 }).then(() => (isSettled = true));
      expect(await actors.covered('dead', 3, C)).toEqual({ end: 3 });
      expect(await actors.covered('dead', 3, streamId('d'))).toEqual({ end: 0 });
      expect(isSettled).toBe(false);
      expect(await setting.rows(A)).toEqual([]);
      gate.open();
      await all;
      expect(await actors.covered('dead', 3, A)).toEqual({ end: 5 });
    });
    await setting.checkRows();
  });

  it('comes first for the streams that are asked for', async () => {
    const setting = new SettlementWorld();
    const order: string[] = [];
    setting.world.observe({
      metaSent: ({ op, key }) => {
        if (op === 'lastChild') order.push(key.slice(8, 9));
      },
    });
    const ids = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];
    const flights = [ids.map((digit) => batchOf(streamId(digit), 0, 1))];
    const { actors } = setting.settler('heir', { streamsConcurrency: 1 });
    await setting.run(async () => {
      await setting.plant({ star: 'dead', epoch: 3, flights });
      const first = [streamId('7'), streamId('2'), streamId('7')];
      await actors.settle({ star: 'dead', epoch: 3, first });
    });
    const distinct = [...new Set(order)];
    expect(distinct.slice(0, 2)).toEqual(['7', '2']);
    expect(distinct.slice().sort()).toEqual(ids);
  });

  it('holds for a stream of an epoch that somebody settled', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    const other = setting.settler('other');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      await other.actors.settle({ star: 'dead', epoch: 3 });
      expect(await actors.covered('dead', 3, A)).toEqual({ end: 5 });
    });
  });
});

describe('a gap (S4)', () => {
  const older = { star: 'older', epoch: 1, flights: [[batchOf(A, 0, 2)], [batchOf(A, 2, 1)]] };
  const newer = { star: 'newer', epoch: 1, flights: [[batchOf(A, 3, 2), batchOf(B, 0, 1)]] };

  it('leaves the epoch unsettled and builds no row above it', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(older, newer);
      const gap = { kind: 'gap', streamId: A, end: 0, next: 3 };
      expect(await actors.settle({ star: 'newer', epoch: 1 })).toEqual(gap);
      await expect(actors.covered('newer', 1, A)).rejects.toMatchObject({
        code: 'STREAM_UNSETTLED',
        details: { stream: A, end: 0, next: 3 },
      });
      // Other streams of the epoch are covered nevertheless.
      expect(await actors.covered('newer', 1, B)).toEqual({ end: 1 });
      expect(await setting.rows(A)).toEqual([]);
      expect(await setting.record('newer', 1)).toMatchObject({ state: 'fenced', checkpoint: 0 });
      await actors.settle({ star: 'older', epoch: 1 });
      const after = await actors.settle({ star: 'newer', epoch: 1 });
      expect(after).toMatchObject({ kind: 'settled', streams: 2 });
    });
    await setting.checkRows();
  });

  it('reads the headers once for both tries', async () => {
    const setting = new SettlementWorld();
    const calls = callsOf(setting, 'heir');
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(older, newer);
      await actors.settle({ star: 'newer', epoch: 1 });
      await actors.settle({ star: 'older', epoch: 1 });
      await actors.settle({ star: 'newer', epoch: 1 });
    });
    const key = slotKey('newer', 1, 0);
    expect(calls.filter((call) => call.op === 'readHead' && call.key === key)).toHaveLength(1);
  });

  it('is none for a deleted stream', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(newer);
      await setting.deleteWriter(A);
      const result = await actors.settle({ star: 'newer', epoch: 1 });
      expect(result).toMatchObject({ kind: 'settled', streams: 2 });
      expect(await setting.rows(A)).toEqual([]);
    });
    await setting.checkRows([A]);
  });

  it('is not concluded from an old read', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    const other = setting.settler('other');
    setting.world.metaScript.add({
      process: 'heir.1',
      op: 'lastChild',
      fate: { kind: 'pass', staleMillis: 1_000_000 },
      times: 1,
    });
    await setting.run(async () => {
      await setting.plant(older, newer);
      await other.actors.settle({ star: 'older', epoch: 1 });
      const result = await actors.settle({ star: 'newer', epoch: 1 });
      expect(result.kind).toBe('settled');
    });
    await setting.checkRows();
  });
});

describe('what a settler refuses', () => {
  it('an epoch whose cut is not published', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      const { flights } = EPOCH;
      await setting.plant({ star: 'live', epoch: 3, flights, record: { state: 'open' } });
      const settling = actors.settle({ star: 'live', epoch: 3 });
      await expect(settling).rejects.toMatchObject({ code: 'INVARIANT' });
      await expect(actors.covered('live', 3, A)).rejects.toMatchObject({ code: 'INVARIANT' });
      expect(await setting.rows(A)).toEqual([]);
    });
  });

  it('an epoch without a record', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      const settling = actors.settle({ star: 'nobody', epoch: 3 });
      await expect(settling).rejects.toMatchObject({ code: 'EPOCH_UNKNOWN' });
    });
  });

  it('work after it was closed, which ends its waits', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const settling = actors.settle({ star: 'dead', epoch: 3 });
      const covered = actors.covered('dead', 3, A);
      await Promise.all([
        expect(settling).rejects.toMatchObject({ code: 'CLOSED' }),
        expect(covered).rejects.toMatchObject({ code: 'CLOSED' }),
        actors.close(),
      ]);
      await expect(actors.settle({ star: 'dead', epoch: 3 })).rejects.toMatchObject({
        code: 'CLOSED',
      });
      await actors.close();
    });
  });
});

import { describe, expect, it } from 'vitest';
import { extendRows } from '../../../actors/ref-rows.ts';
import type { SettlementActors, SettlementResult } from '../../../actors/settlement.actor.ts';
import { PREAMBLE_BYTES } from '../../../src/format/preamble.ts';
import { sleep } from '../../../src/lib/wait.ts';
import { sourceOf, type SourceEntry } from '../../../src/protocol/coverage.ts';
import { slotKey } from '../../../src/protocol/keys.ts';
import { headBytes } from '../../../src/format/flight.ts';
import { CALM_BUCKETS, ROUGH_BUCKETS } from '../../../src/testing/bucket-fates.ts';
import { Gate } from '../../../src/testing/fault-script.ts';
import { CALM_METASTORE, ROUGH_METASTORE } from '../../../src/testing/meta-fates.ts';
import type { SimulatedProcess } from '../../../src/testing/simulated-process.ts';
import { SET_ID } from '../../support/row-samples.ts';
import {
  batchOf,
  SettlementWorld,
  streamId,
  type PlantedEpoch,
} from '../../support/settlement-world.ts';
import { encodeFlight } from '../format/samples.ts';

const A = streamId('a');
const B = streamId('b');
const C = streamId('c');

const EPOCH: PlantedEpoch = {
  star: 'dead',
  epoch: 3,
  flights: [
    [batchOf(A, 0, 2), batchOf(B, 0, 1)],
    [batchOf(A, 2, 1)],
    [batchOf(C, 0, 3), batchOf(A, 3, 2), batchOf(B, 1, 1)],
    [batchOf(B, 2, 2), batchOf(A, 5, 1)],
  ],
  tail: [
    { distance: 0, copies: 1 },
    { distance: 2, copies: 3 },
  ],
};
const REQUEST = { star: 'dead', epoch: 3 };

/** What the dead writer's absorb knows: the entries of one stream in the first slots. */
function entriesOf(id: string, slots: number): SourceEntry[] {
  return EPOCH.flights.slice(0, slots).flatMap((batches, slot) => {
    const fields = { star: 'dead', epoch: 3, slot, nonce: '03'.repeat(16), released: 0 };
    const { entries } = encodeFlight(fields, batches);
    return entries
      .filter((entry) => entry.streamId === id)
      .map((entry) => sourceOf(entry, slot, headBytes(entries)));
  });
}

/** Absorbs like a writer that does not know yet that it is fenced, at its own pace. */
async function absorb(process: SimulatedProcess): Promise<void> {
  const { ports } = process;
  const builder = { star: 'dead', incarnation: '00'.repeat(16) };
  for (let slots = 1; slots <= EPOCH.flights.length; slots++) {
    await sleep(ports.clock, ports.random.fraction() * 40);
    for (const id of [A, B, C]) {
      const source = { star: 'dead', epoch: 3, set: SET_ID, builder };
      const result = await extendRows(ports, {
        ...source,
        streamId: id,
        entries: entriesOf(id, slots),
      });
      expect(result.kind).toBe('covered');
    }
  }
}

async function settleUntilDone(actors: SettlementActors): Promise<SettlementResult> {
  for (;;) {
    const result = await actors.settle(REQUEST);
    if (result.kind === 'gap' || result.swept) return result;
  }
}

describe('settlers beside each other and beside a late writer (S2)', () => {
  it('leave one chain of rows, on calm stores', async () => {
    for (let seed = 0; seed < 15; seed++) {
      const setting = new SettlementWorld({ seed });
      await setting.run(() => setting.plant(EPOCH));
      const settlers = [setting.settler('one'), setting.settler('two'), setting.settler('three')];
      const zombie = setting.world.spawn('zombie');
      await setting.run(async () => {
        const settling = settlers.map(({ actors }) => actors.settle(REQUEST));
        const results = await Promise.all([...settling, absorb(zombie)]);
        for (const result of results.slice(0, 3)) expect(result).toMatchObject({ kind: 'settled' });
      });
      await setting.checkRows();
      expect(await setting.record('dead', 3)).toMatchObject({ state: 'settled', checkpoint: 4 });
    }
  });

  it('leave one chain of rows, whatever the stores do', async () => {
    const reached = { conflicts: 0, rivals: 0, stale: 0 };
    for (let seed = 100; seed < 125; seed++) {
      const setting = new SettlementWorld({ seed });
      await setting.run(() => setting.plant(EPOCH));
      setting.world.setProfiles(ROUGH_BUCKETS, ROUGH_METASTORE);
      setting.world.observe({
        metaConflicted: () => reached.conflicts++,
        metaStale: () => reached.stale++,
      });
      const settlers = [setting.settler('one'), setting.settler('two')];
      const zombie = setting.world.spawn('zombie');
      await setting.run(async () => {
        const settling = settlers.map(({ actors }) => settleUntilDone(actors));
        const absorbing = absorb(zombie).catch((error: unknown) => {
          // A read that fails is the absorber's to repeat.
          expect(error).toMatchObject({ retryable: true });
        });
        await Promise.all([...settling, absorbing]);
      });
      // What is late arrives after everybody has gone, and must change nothing.
      await setting.world.scheduler.run();
      await setting.checkRows();
      const rows = await setting.rows(A);
      if (new Set(rows.map(({ builder }) => builder.star)).size > 1) reached.rivals++;
      const record = await setting.record('dead', 3);
      expect(record).toMatchObject({ state: 'settled', checkpoint: 4, tailSwept: true });
    }
    expect(reached.conflicts).toBeGreaterThan(20);
    expect(reached.rivals).toBeGreaterThan(2);
    expect(reached.stale).toBeGreaterThan(20);
  });

  it('leave one chain when a settler dies at any step and another goes on', async () => {
    let steps = 0;
    for (; ; steps++) {
      const setting = new SettlementWorld({ seed: 7 });
      await setting.run(() => setting.plant(EPOCH));
      const { actors, process } = setting.settler('first');
      const outcomes: SettlementResult[] = [];
      actors.settle(REQUEST).then(
        (result) => outcomes.push(result),
        () => undefined,
      );
      await setting.world.scheduler.settle();
      for (let step = 0; step < steps && outcomes.length === 0; step++) {
        await setting.world.scheduler.step();
      }
      process.crash();
      const heir = setting.settler('second');
      await setting.run(async () => {
        const result = await heir.actors.settle(REQUEST);
        expect(result).toMatchObject({ kind: 'settled', swept: true });
      });
      await setting.world.scheduler.run();
      await setting.checkRows();
      expect(await setting.slots('dead', 3, 2)).toEqual([0, 1, 2, 3]);
      if (outcomes.length > 0) break;
    }
    expect(steps).toBeGreaterThan(40);
  });

  it('end with the record that the faster one wrote', async () => {
    const setting = new SettlementWorld();
    const gate = new Gate(setting.world.scheduler, 'record of the slower one');
    setting.world.metaScript.add({
      process: 'slow.1',
      op: 'put',
      key: 'chains/dead/',
      fate: { kind: 'pass', requestGate: gate },
    });
    const slow = setting.settler('slow');
    const fast = setting.settler('fast');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const settling = slow.actors.settle(REQUEST);
      await fast.actors.settle(REQUEST);
      gate.open();
      expect(await settling).toMatchObject({ kind: 'settled', streams: 3, swept: true });
    });
    await setting.checkRows();
  });

  it('go on from a checkpoint that the late writer moved meanwhile', async () => {
    const setting = new SettlementWorld();
    const gate = new Gate(setting.world.scheduler, 'settled record');
    setting.world.metaScript.add({
      process: 'heir.1',
      op: 'put',
      key: 'chains/dead/',
      fate: { kind: 'pass', requestGate: gate },
    });
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const settling = actors.settle(REQUEST);
      await sleep(setting.admin.ports.clock, 200);
      expect(gate.waiting).toBe(1);
      await setting.changeRecord('dead', 3, { checkpoint: 2 });
      gate.open();
      expect(await settling).toMatchObject({ kind: 'settled', headersRead: 4, swept: true });
    });
    expect(await setting.record('dead', 3)).toMatchObject({ state: 'settled', checkpoint: 4 });
  });
});

describe('slots that are not what they should be', () => {
  async function damage(setting: SettlementWorld, bucket: number, slot: number): Promise<void> {
    const key = slotKey('dead', 3, slot);
    expect(await setting.world.bucket(bucket).flipBit(key, 8 * PREAMBLE_BYTES + 3)).toBe(true);
  }

  it('a corrupt head costs a look into the next bucket', async () => {
    const setting = new SettlementWorld();
    const { actors, process } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      for (const bucket of [0, 1]) await damage(setting, bucket, 1);
      await setting.world.bucket(2).store.delete(slotKey('dead', 3, 0));
      expect(await actors.settle(REQUEST)).toMatchObject({ kind: 'settled' });
    });
    await setting.checkRows();
    expect(process.metrics.counter('read.badCopies').value).toBeGreaterThan(0);
  });

  it('a head that is corrupt everywhere is a loss, with its slot', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      for (const bucket of [0, 1, 2]) await damage(setting, bucket, 1);
      const covered = actors.covered('dead', 3, C);
      await Promise.all([
        expect(covered).rejects.toMatchObject({ code: 'DATA_LOSS' }),
        expect(actors.settle(REQUEST)).rejects.toMatchObject({
          code: 'DATA_LOSS',
          details: { star: 'dead', epoch: 3, slot: 1 },
        }),
      ]);
    });
    expect(await setting.record('dead', 3)).toMatchObject({ state: 'fenced', checkpoint: 0 });
    expect(await setting.rows(C)).toEqual([]);
  });

  it.each([
    ['B buckets', [0, 1], 'ACKNOWLEDGED_SLOT_POISONED', 'bucket-0,bucket-1'],
    ['fewer than B buckets', [0], 'DATA_LOSS', 'bucket-0'],
  ] as const)('poison in %s and no copy left is told apart', async (_, buckets, code, names) => {
    const setting = new SettlementWorld();
    const { actors, process } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const record = await setting.record('dead', 3);
      const key = slotKey('dead', 3, 1);
      for (const bucket of [0, 1, 2]) await setting.world.bucket(bucket).store.delete(key);
      for (const bucket of buckets) await setting.putPoison(record, 1, bucket);
      const covered = actors.covered('dead', 3, C);
      await Promise.all([
        expect(covered).rejects.toMatchObject({ code }),
        expect(actors.settle(REQUEST)).rejects.toMatchObject({
          code,
          details: { star: 'dead', epoch: 3, slot: 1, buckets: names },
        }),
      ]);
    });
    expect(await setting.record('dead', 3)).toMatchObject({ state: 'fenced', checkpoint: 0 });
    expect(await setting.rows(C)).toEqual([]);
    const { counters } = process.metrics.snapshot();
    const counted = code === 'ACKNOWLEDGED_SLOT_POISONED' ? 1 : undefined;
    expect(counters['settlement.acknowledgedPoisoned']).toBe(counted);
  });

  it('poison in a bucket without its identity is none', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const record = await setting.record('dead', 3);
      const key = slotKey('dead', 3, 1);
      setting.world.bucket(1).wipe();
      for (const bucket of [0, 2]) await setting.world.bucket(bucket).store.delete(key);
      for (const bucket of [0, 1]) await setting.putPoison(record, 1, bucket);
      await expect(actors.settle(REQUEST)).rejects.toMatchObject({
        code: 'DATA_LOSS',
        details: { slot: 1, buckets: 'bucket-0' },
      });
    });
  });

  it('a flight of another writer is none', async () => {
    const setting = new SettlementWorld();
    const { actors, process } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const record = { ...(await setting.record('dead', 3)), nonce: 'ff'.repeat(16) };
      const key = slotKey('dead', 3, 2);
      for (const bucket of [2]) await setting.world.bucket(bucket).store.delete(key);
      await setting.putFlight(record, 2, [batchOf(A, 7, 9)], 1);
      expect(await actors.settle(REQUEST)).toMatchObject({ kind: 'settled' });
    });
    await setting.checkRows();
    expect(process.metrics.counter('read.badCopies').value).toBe(1);
  });

  it('an object above the cut that is no flight of the epoch is left alone', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const record = await setting.record('dead', 3);
      await setting.putFlight({ ...record, nonce: 'ff'.repeat(16) }, 7, [batchOf(A, 7, 9)], 1);
      await setting.world.bucket(2).store.createOnly(slotKey('dead', 3, 8), new Uint8Array(9));
      // One beyond the window: nobody put it there in good faith, and nobody looks.
      await setting.putFlight(record, 9, [batchOf(A, 7, 9)], 1);
      expect(await actors.settle(REQUEST)).toMatchObject({ kind: 'settled', swept: true });
    });
    expect(await setting.slots('dead', 3, 2)).toEqual([0, 1, 2, 3, 7, 8, 9]);
  });

  it('slots that are gone because somebody settled and trimmed are no loss', async () => {
    const setting = new SettlementWorld();
    const gate = new Gate(setting.world.scheduler, 'heads');
    setting.world.bucketScript.add({
      process: 'late.1',
      op: 'readHead',
      times: 100,
      when: ({ key }) => Number(key.slice(-16)) < 4,
      fate: { kind: 'pass', requestGate: gate },
    });
    const late = setting.settler('late');
    const fast = setting.settler('fast');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const settling = late.actors.settle(REQUEST);
      await fast.actors.settle(REQUEST);
      await setting.changeRecord('dead', 3, { rewritten: 4, trimmed: 4 });
      for (const { store } of setting.world.buckets) {
        for (let slot = 0; slot < 4; slot++) await store.delete(slotKey('dead', 3, slot));
      }
      gate.open();
      expect(await settling).toMatchObject({ kind: 'settled', streams: 0, headersRead: 0 });
    });
  });

  it('slots that are gone below a checkpoint that moved are no loss', async () => {
    const setting = new SettlementWorld();
    const gate = new Gate(setting.world.scheduler, 'heads');
    setting.world.bucketScript.add({
      process: 'late.1',
      op: 'readHead',
      times: 100,
      fate: { kind: 'pass', requestGate: gate },
    });
    const { actors } = setting.settler('late');
    const zombie = setting.world.spawn('zombie');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const settling = actors.settle(REQUEST);
      await absorb(zombie);
      await setting.changeRecord('dead', 3, { checkpoint: 2, rewritten: 2, trimmed: 2 });
      for (const { store } of setting.world.buckets) {
        for (let slot = 0; slot < 2; slot++) await store.delete(slotKey('dead', 3, slot));
      }
      gate.open();
      expect(await settling).toMatchObject({ kind: 'settled' });
    });
    await setting.checkRows();
  });
});

describe('stores that do not answer', () => {
  it('one of three buckets costs a bounded wait', async () => {
    const setting = new SettlementWorld();
    setting.world.bucketScript.add({
      target: 'bucket-0',
      op: 'readHead',
      when: ({ key }) => Number(key.slice(-16)) < 4,
      times: 1_000,
      fate: { kind: 'hang' },
    });
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const result = await actors.settle(REQUEST);
      expect(result).toMatchObject({ kind: 'settled', swept: true });
      expect(result.kind === 'settled' && result.millis).toBeLessThan(600);
    });
  });

  it('all of them are waited for, and settle when they come back', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      setting.world.setProfiles({ ...CALM_BUCKETS, timeoutMillis: 500 }, CALM_METASTORE);
      for (const bucket of setting.world.buckets) bucket.goDown();
      const impatient = actors.settle(REQUEST, { timeoutMillis: 2_000 });
      await expect(impatient).rejects.toMatchObject({ code: 'DEADLINE_EXCEEDED' });
      for (const bucket of setting.world.buckets) bucket.recover();
      // The settlement went on without its caller.
      const result = await actors.settle(REQUEST);
      expect(result).toMatchObject({ kind: 'settled', headersRead: 4, swept: true });
    });
    await setting.checkRows();
  });

  it('neither does the metastore, for a while', async () => {
    const setting = new SettlementWorld();
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      setting.world.metastore.goDown();
      const settling = actors.settle(REQUEST);
      const controller = new AbortController();
      const given = actors.covered('dead', 3, A, { signal: controller.signal });
      await sleep(setting.admin.ports.clock, 60_000);
      controller.abort();
      await expect(given).rejects.toMatchObject({ code: 'ABORTED' });
      setting.world.metastore.recover();
      expect(await settling).toMatchObject({ kind: 'settled', swept: true });
    });
    await setting.checkRows();
  });

  it('a bucket that is not configured any more leaves the tail unswept', async () => {
    const setting = new SettlementWorld({
      mutate: (ports, process) =>
        process.name === 'heir.1'
          ? {
              ...ports,
              bucketByName: (name) => (name === 'bucket-1' ? undefined : ports.bucketByName(name)),
            }
          : ports,
    });
    const { actors } = setting.settler('heir');
    await setting.run(async () => {
      await setting.plant(EPOCH);
      const result = await actors.settle(REQUEST);
      expect(result).toMatchObject({ kind: 'settled', swept: false });
    });
    expect(await setting.record('dead', 3)).toMatchObject({ state: 'settled', tailSwept: false });
    expect(await setting.slots('dead', 3, 1)).toEqual([0, 1, 2, 3, 4, 6]);
    await setting.checkRows();
  });
});

import { setTimeout } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { encodePoison, NO_EPOCH } from '../../../src/format/poison.ts';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { slotKey, writerKey } from '../../../src/protocol/keys.ts';
import {
  encodeRecordValue,
  parseRecordValue,
  writerRecord,
} from '../../../src/protocol/records.ts';
import { createEngine, EngineError, memoryComponents } from '../../../src/index.ts';
import type { Stream } from '../../../src/index.ts';
import { BrokenMetastore, unavailable } from '../../support/broken-metastore.ts';
import { EngineWorld } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

const open: HostedEngine[] = [];

afterEach(async () => {
  for (const engine of open.splice(0)) await engine.close();
});

async function engineOn(world: EngineWorld): Promise<HostedEngine> {
  const engine = await world.open({ copyQuorum: 2, window: 4 });
  open.push(engine);
  return engine;
}

/** Takes the next slot away in one bucket, as a fencer would. */
async function poisonNext(world: EngineWorld, engine: HostedEngine, buckets = [0]): Promise<void> {
  const { epoch, next } = await engine.status();
  const fencedBy = { star: 'other', incarnation: 'f'.repeat(32), epoch: NO_EPOCH };
  const bytes = encodePoison({
    star: 'main',
    epoch,
    slot: next,
    nonce: '0'.repeat(32),
    fencedBy,
    atMillis: 1,
  });
  for (const index of buckets) world.memory[index]!.plant(slotKey('main', epoch, next), bytes);
}

async function bodies(stream: Stream): Promise<string[]> {
  const found: string[] = [];
  for await (const { body } of stream.read()) found.push(Buffer.from(body).toString());
  return found;
}

describe('a roll', () => {
  test('R2 on demand: producers see delay, no error, and sequence numbers go on', async () => {
    const world = new EngineWorld();
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    const acks = Array.from({ length: 30 }, (_, i) => stream.append([{ body: `${i}` }]));
    const rolling = engine.roll();
    acks.push(...Array.from({ length: 30 }, (_, i) => stream.append([{ body: `${i + 30}` }])));
    const { epoch } = await rolling;
    expect(epoch).toBe(1);
    const done = await Promise.all(acks);
    expect(done.map(({ start }) => start.seqNum)).toEqual([...Array(60).keys()]);
    expect(await bodies(stream)).toEqual([...Array(60).keys()].map(String));
    expect((await stream.checkTail()).seqNum).toBe(60);
  });

  test.each([
    ['one bucket', [0]],
    ['the blocking set', [0, 1]],
    ['every bucket', [0, 1, 2]],
  ])(
    'R1 on a slot lost to poison in %s: every batch is appended exactly once',
    async (_, buckets) => {
      const world = new EngineWorld();
      const engine = await engineOn(world);
      const [a, b] = await Promise.all([engine.open('a'), engine.open('b')]);
      await a.append([{ body: 'first' }]);
      await poisonNext(world, engine, buckets);
      const acks = await Promise.all(
        [...Array(20).keys()].flatMap((i) => [
          a.append([{ body: `a${i}` }]),
          b.append([{ body: `b${i}` }]),
        ]),
      );
      expect(acks).toHaveLength(40);
      expect(await bodies(a)).toEqual(['first', ...[...Array(20).keys()].map((i) => `a${i}`)]);
      expect(await bodies(b)).toEqual([...Array(20).keys()].map((i) => `b${i}`));
      expect(engine.metrics().counters['epoch.rolls']).toBeGreaterThanOrEqual(1);
    },
  );

  test('R3 an idle stream enters the new epoch on its first use, and closes cleanly without', async () => {
    const world = new EngineWorld();
    const engine = await engineOn(world);
    const [busy, idle, closed] = await Promise.all(['x', 'y', 'z'].map((n) => engine.open(n)));
    await idle!.append([{ body: 'before' }]);
    await closed!.append([{ body: 'kept' }]);
    for (let i = 0; i < 3; i++) {
      await engine.roll();
      await busy!.append([{ body: `${i}` }]);
    }
    await closed!.close();
    expect((await idle!.append([{ body: 'after' }])).start.seqNum).toBe(1);
    expect(await bodies(idle!)).toEqual(['before', 'after']);
    expect(await bodies(await engine.open('z'))).toEqual(['kept']);
  });

  test('R4 a stream whose writer record moved is lost alone: its batches fail definitely', async () => {
    const world = new EngineWorld();
    const engine = await engineOn(world);
    const [mine, gone] = await Promise.all([engine.open('mine'), engine.open('gone')]);
    await Promise.all([mine.append([{ body: '0' }]), gone.append([{ body: '0' }])]);
    const key = writerKey(gone.id);
    const entry = world.metastore.get(key)!;
    const writer = parseRecordValue(writerRecord, key, entry.value);
    if (writer.kind !== 'tenure') throw new Error('no tenure');
    const tenure = { ...writer.tenure, star: 'other' };
    await poisonNext(world, engine, [0, 1, 2]);
    world.metastore.put(
      key,
      encodeRecordValue({ kind: 'tenure', tenure, attempt: '0'.repeat(16) }),
      entry.version,
    );
    const [kept, lost] = await Promise.allSettled([
      mine.append([{ body: '1' }]),
      gone.append([{ body: '1' }]),
    ]);
    expect(kept.status).toBe('fulfilled');
    const reason: unknown = lost.status === 'rejected' ? lost.reason : undefined;
    expect(EngineError.is(reason) && reason.code).toBe('FENCED');
    expect(EngineError.is(reason) && reason.sideEffects).toBe('none');
    expect(await bodies(mine)).toEqual(['0', '1']);
  });

  test('opens and closes wait for it: nobody joins an epoch that has ended, no Finish misses its cut', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const engine = await engineOn(world);
    const [kept, left] = [await engine.open('kept'), await engine.open('left')];
    await left.append([{ body: '0' }]);
    meta.calls.length = 0;
    meta.fails = ({ op, key }) =>
      op === 'put' && key.startsWith('chains/') ? unavailable() : undefined;
    await poisonNext(world, engine, [0, 1, 2]);
    const appended = kept.append([{ body: '0' }]);
    await eventually(() => expect(meta.writes(/^chains\//)).not.toEqual([]));
    const opening = engine.open('fresh');
    const closing = left.close();
    await setTimeout(50);
    expect(meta.writes(/^names\/.*6672657368$/)).toEqual([]);
    meta.fails = () => undefined;
    const fresh = await opening;
    await Promise.all([appended, closing]);
    const writerOf = (id: string) => {
      const key = writerKey(id);
      return parseRecordValue(writerRecord, key, world.metastore.get(key)!.value);
    };
    expect(writerOf(fresh.id)).toMatchObject({ kind: 'tenure', tenure: { epoch: 1 } });
    expect(writerOf(left.id)).toMatchObject({ kind: 'released', tail: 1, tenure: { epoch: 1 } });
    expect((await engine.status()).departing).toEqual([]);
  });

  test('M0 a star that a duplicate has replaced halts: it does not supersede that one in turn', async () => {
    const world = new EngineWorld();
    const session = { sessionTimeoutMillis: 2_000 };
    const old = await world.open({ copyQuorum: 2, window: 4, ...session });
    open.push(old);
    const stream = await old.open('orders');
    await stream.append([{ body: 'kept' }]);
    const successor = await world.open({ copyQuorum: 2, supersede: true, ...session });
    open.push(successor);
    await successor.recovered();
    const error: unknown = await stream.append([{ body: 'late' }]).catch((cause: unknown) => cause);
    expect(EngineError.is(error) && error.kind).toBe('fenced');
    expect(EngineError.is(error) && error.sideEffects).toBe('none');
    const again = await successor.open('orders');
    await again.append([{ body: 'next' }]);
    expect(await bodies(again)).toEqual(['kept', 'next']);
    expect((await successor.status()).epochs).toHaveLength(2);
    await expect(old.open('other')).rejects.toMatchObject({ code: 'STAR_IN_USE' });
  });

  test('to other constants and another set of buckets; earlier records stay readable', async () => {
    const components = memoryComponents({ buckets: 1 });
    const engine = await createEngine({ components });
    const stream = await engine.open('orders');
    await stream.append([{ body: 'on one' }]);
    const wider = { ...components, buckets: 3 };
    await engine.roll({ components: wider, copyQuorum: 2, window: 2 });
    await stream.append([{ body: 'on three' }]);
    const { epochs } = await engine.status();
    expect(epochs.map(({ buckets, copyQuorum, window }) => [buckets, copyQuorum, window])).toEqual([
      [1, 1, 16],
      [3, 2, 2],
    ]);
    expect(await bodies(stream)).toEqual(['on one', 'on three']);
    await engine.close();
    const again = await createEngine({ components: wider, settings: { copyQuorum: 2 } });
    expect(await bodies(await again.open('orders'))).toEqual(['on one', 'on three']);
    await again.close();
    const narrow = await createEngine({ components });
    expect(await bodies(await narrow.open('orders'))).toEqual(['on one', 'on three']);
    await narrow.close();
  });

  test('a request that comes during another roll takes effect too', async () => {
    const world = new EngineWorld();
    const engine = await engineOn(world);
    const first = engine.roll({ copyQuorum: 1 });
    const second = engine.roll({ copyQuorum: 3, window: 2 });
    await Promise.all([first, second]);
    const { epochs, epoch } = await engine.status();
    expect(epochs.find((record) => record.epoch === epoch)).toMatchObject({
      copyQuorum: 3,
      window: 2,
    });
  });

  test('batches that wait for it hold their own records: the caller may use its arrays again', async () => {
    const world = new EngineWorld();
    const engine = await engineOn(world);
    const stream = await engine.open('orders');
    const rolling = engine.roll();
    const batch: { body: string }[] = [];
    const acks = ['a', 'b', 'c'].map((body) => {
      batch.length = 0;
      batch.push({ body });
      return stream.append(batch);
    });
    batch.length = 0;
    await Promise.all([rolling, ...acks]);
    expect(await bodies(stream)).toEqual(['a', 'b', 'c']);
  });

  test('bad requests are refused and leave the epoch alone', async () => {
    const components = memoryComponents({ buckets: 1 });
    const engine = await createEngine({ components });
    for (const request of [
      { copyQuorum: 2 },
      { copyQuorum: 0 },
      { window: 0 },
      { windows: 1 },
      { components: memoryComponents({ buckets: 1 }) },
    ]) {
      const error: unknown = await engine.roll(request as never).catch((cause: unknown) => cause);
      expect(EngineError.is(error) && error.code).toBe('INVALID_OPTION');
    }
    expect((await engine.status()).epoch).toBe(0);
    await engine.close();
  });
});

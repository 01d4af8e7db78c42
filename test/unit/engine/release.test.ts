import { describe, expect, test } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { releaseStream } from '../../../src/engine/operator.ts';
import { EngineError } from '../../../src/index.ts';
import { readLimbo } from '../../../actors/limbo-register.ts';
import { writerKey } from '../../../src/protocol/keys.ts';
import { BrokenMetastore } from '../../support/broken-metastore.ts';
import { EngineWorld, errorOf } from '../../support/engine-world.ts';
import { HeldPuts } from '../../support/held-puts.ts';
import { eventually } from '../../support/eventually.ts';

function start(world: EngineWorld, star: string): Promise<HostedEngine> {
  return world.start({ star });
}

const one = [{ body: 'x' }];
const asks = (name: string) => ({ basin: 'default', name, force: 'never' }) as const;
const forces = (name: string) => ({ basin: 'default', name, force: 'fromLiving' }) as const;

describe('an operator releases a stream', () => {
  test('of a dead star: fenced, covered, marked; the next open is a clean one', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    await (await a.open('s')).append([...one, ...one]);
    await a.kill();
    expect(await releaseStream(world.ports(), asks('s'))).toMatchObject({
      name: 's',
      outcome: 'released',
      tail: 2,
      from: { star: 'a', epoch: 0, cut: 1 },
      givenUp: { records: 0, slots: 0 },
      settlement: 'settled',
    });
    expect(await releaseStream(world.ports(), asks('s'))).toMatchObject({
      outcome: 'already',
      tail: 2,
    });
    const b = await start(world, 'b');
    const taken = await b.open('s');
    expect((await taken.append(one, { matchSeqNum: 2 })).start.seqNum).toBe(2);
    expect(b.metrics().counters['gate.markDisagrees']).toBeUndefined();
    expect(b.metrics().histograms['settlement.millis']).toBeUndefined();
  });

  test('of a living star only by force: it loses the stream and goes on with its others', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const [stream, other] = [await a.open('s'), await a.open('other')];
    await stream.append(one);
    await other.append(one);
    expect(await errorOf(releaseStream(world.ports(), asks('s')))).toMatchObject({
      code: 'STREAM_HELD',
      details: { star: 'a', epoch: 0 },
    });
    await stream.append(one);
    const report = await releaseStream(world.ports(), forces('s'));
    expect(report).toMatchObject({ outcome: 'released', tail: 2 });
    expect(await errorOf(stream.append(one))).toMatchObject({
      code: 'FENCED',
      sideEffects: 'none',
    });
    expect((await other.append(one)).start.seqNum).toBe(1);
    expect((await a.status()).epoch).toBe(1);
    const b = await start(world, 'b');
    expect((await (await b.open('s')).append(one)).start.seqNum).toBe(2);
  });

  test('says what it gives up: batches beyond the cut that nobody acknowledged', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('a');
    world.wrap = (bucket) => puts.wrap(bucket);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    puts.hold();
    const first = stream.append(one).catch((error: unknown) => error);
    await eventually(() => expect(puts.count).toBe(3));
    puts.holdNoMore();
    const second = stream.append([...one, ...one]).catch((error: unknown) => error);
    const slots = (): number =>
      [...world.memory[2]!.objects().keys()].filter((key) => key.includes('/a/')).length;
    await eventually(() => expect(slots()).toBe(2));
    world.wrap = (bucket) => bucket;
    const report = await releaseStream(world.ports(), forces('s'));
    expect(report).toMatchObject({
      outcome: 'released',
      tail: 1,
      from: { cut: 1 },
      givenUp: { records: 2, slots: 1 },
    });
    puts.letGo();
    for (const outcome of await Promise.all([first, second])) {
      expect(outcome).toMatchObject({ code: 'FENCED', sideEffects: 'none' });
    }
    const b = await start(world, 'b');
    expect(await (await b.open('s')).checkTail()).toMatchObject({ seqNum: 1 });
  });

  test('in limbo: the note goes, and the late Finish of its leader changes nothing', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    const a = await (async () => {
      world.wrapMetastore = (metastore) => meta.wrap(metastore);
      const engine = await start(world, 'a');
      world.wrapMetastore = (metastore) => metastore;
      return engine;
    })();
    const stream = await a.open('s');
    await stream.append(one);
    meta.fails = ({ op, key }) =>
      op === 'put' && key.includes('/refs/')
        ? new EngineError('METASTORE_CORRUPT', 'a row cannot be written')
        : undefined;
    void stream.close().catch(() => undefined);
    const plain = new MemoryMetastore(world.metastore);
    await eventually(async () =>
      expect(await readLimbo({ metastore: plain }, 'a')).toHaveLength(1),
    );
    expect(await releaseStream(world.ports(), forces('s'))).toMatchObject({ tail: 1 });
    expect(await plain.children('limbo/')).toEqual([]);
    const b = await start(world, 'b');
    const taken = await b.open('s');
    expect((await taken.append(one)).start.seqNum).toBe(1);
    meta.fails = () => undefined;
    await eventually(async () => expect((await a.status()).departing).toEqual([]));
    expect((await taken.append(one)).start.seqNum).toBe(2);
  });

  test('what cannot be covered is not released', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    await a.kill();
    for (const bucket of world.memory) {
      for (const [key, bytes] of [...bucket.objects()]) {
        if (key.includes('/a/')) bucket.plant(key, new Uint8Array(bytes.length).fill(7));
      }
    }
    const wait = { timeoutMillis: 500 };
    const error = await errorOf(releaseStream(world.ports(), forces('s'), wait));
    expect(['FENCE_UNDECIDED', 'DEADLINE_EXCEEDED']).toContain(error.code);
    const writer = await new MemoryMetastore(world.metastore).get(writerKey(stream.id));
    expect(JSON.parse(Buffer.from(writer!.value).toString())).toMatchObject({ kind: 'tenure' });
    expect(await errorOf(releaseStream(world.ports(), asks('nothing')))).toMatchObject({
      code: 'STREAM_NOT_FOUND',
    });
  });
});

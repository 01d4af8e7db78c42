import { describe, expect, test } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import { readEpochs, type HostedEngine } from '../../../src/engine/host.ts';
import { EngineError } from '../../../src/index.ts';
import { readLimbo } from '../../../actors/limbo-register.ts';
import { refsPrefix, writerKey } from '../../../src/protocol/keys.ts';
import {
  encodeRecordValue,
  parseRecordValue,
  refRow,
  writerRecord,
  type WriterRecord,
} from '../../../src/protocol/records.ts';
import type { EngineSettings } from '../../../src/protocol/settings.ts';
import { BrokenMetastore, unavailable } from '../../support/broken-metastore.ts';
import { EngineWorld, errorOf } from '../../support/engine-world.ts';
import { HeldPuts } from '../../support/held-puts.ts';
import { eventually } from '../../support/eventually.ts';

function start(
  world: EngineWorld,
  star: string,
  settings: EngineSettings = {},
): Promise<HostedEngine> {
  return world.start({ star, ...settings });
}

async function writerOf(world: EngineWorld, streamId: string): Promise<WriterRecord | undefined> {
  const key = writerKey(streamId);
  const entry = await new MemoryMetastore(world.metastore).get(key);
  return entry && parseRecordValue(writerRecord, key, entry.value);
}

const one = [{ body: 'x' }];

describe('N what a departure costs', () => {
  test('a clean handover takes at most five metastore writes, and its open three round trips', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const [a, b] = [await start(world, 'a'), await start(world, 'b')];
    const stream = await a.open('s');
    await stream.append(one);
    meta.calls.length = 0;
    await stream.close();
    const taken = await b.open('s');
    const ofStream = meta.calls.filter(({ key }) => !key.startsWith('stars/'));
    const writes = ofStream.filter(({ op }) => op === 'put' || op === 'delete');
    // Row, mark, released; then the claim.
    expect(writes.map(({ key }) => key.replace(/^streams\/[0-9a-f]+/, ''))).toEqual([
      expect.stringMatching(/^\/refs\//),
      expect.stringMatching(/^\/refs\//),
      '/writer',
      '/writer',
    ]);
    // The name; record, writer and last row at once; the claim.
    const opening = ofStream.slice(ofStream.findIndex(({ key }) => key.startsWith('names/')));
    expect(opening.map(({ op }) => op)).toEqual(['get', 'get', 'get', 'lastChild', 'put']);
    expect((await taken.append(one, { matchSeqNum: 1 })).start.seqNum).toBe(1);
    expect(b.metrics().counters['fence.gets']).toBeUndefined();
  });

  test('an idle covered stream costs two writes', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a', { absorbMillis: 20 });
    const stream = await a.open('s');
    await stream.append(one);
    await eventually(async () => expect((await a.status()).openStreams[0]?.absorbed).toBe(1));
    meta.calls.length = 0;
    await stream.close();
    expect(meta.writes(/^streams\//)).toHaveLength(2);
  });

  test('a stream without records needs no row', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    meta.calls.length = 0;
    await stream.close();
    expect(meta.writes(/^streams\//)).toHaveLength(1);
    expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'released', tail: 0 });
  });

  test('the mark is used once: the next claim consumes it', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    await (await a.open('s')).append(one);
    await a.close();
    const b = await start(world, 'b');
    const stream = await b.open('s');
    await stream.append(one);
    await b.kill();
    // The mark of a still stands on the row, but the writer names b: settled, not trusted.
    const c = await start(world, 'c');
    const taken = await c.open('s');
    expect((await taken.append(one)).start.seqNum).toBe(2);
  });
});

describe('N a release and its mark certify only together', () => {
  test.each(['no mark', 'a mark of another tail', 'a mark of another tenure'])(
    '%s: settled like a tenure, and reported',
    async (what) => {
      const world = new EngineWorld();
      const a = await start(world, 'a');
      const stream = await a.open('s');
      await stream.append([...one, ...one]);
      await stream.close();
      const plain = new MemoryMetastore(world.metastore);
      const entry = (await plain.lastChild(refsPrefix(stream.id)))!;
      const { mark, ...row } = parseRecordValue(refRow, entry.key, entry.value);
      expect(mark).toMatchObject({ tail: 2 });
      const tenure = { ...mark!.tenure, epoch: mark!.tenure.epoch + 1 };
      const changed = {
        'no mark': row,
        'a mark of another tail': { ...row, mark: { ...mark!, tail: 1 } },
        'a mark of another tenure': { ...row, mark: { ...mark!, tenure } },
      }[what];
      await plain.put(entry.key, encodeRecordValue(changed), entry.version);
      const b = await start(world, 'b');
      const taken = await b.open('s');
      expect((await taken.append(one)).start.seqNum).toBe(2);
      expect(b.metrics().counters['gate.markDisagrees']).toBe(1);
      expect((await readEpochs(plain, 'a'))[0]).toMatchObject({ cut: 1 });
    },
  );
});

describe('engine.handoff', () => {
  test('the release is durable when it resolves: the other star opens at once', async () => {
    const world = new EngineWorld();
    const [a, b] = [await start(world, 'a'), await start(world, 'b')];
    const stream = await a.open('s');
    const batch = stream.append(one);
    expect(await a.handoff('s', 'b')).toEqual({ tail: 1 });
    expect((await batch).start.seqNum).toBe(0);
    expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'released', tail: 1 });
    for (const call of [stream.append(one), stream.checkTail(), a.open('s')]) {
      expect(await errorOf(call)).toMatchObject({
        code: 'STREAM_HELD',
        retryable: true,
        details: { star: 'b' },
      });
    }
    const taken = await b.open('s');
    expect((await taken.append(one)).start.seqNum).toBe(1);
    // And back again: this star takes it as soon as the other one gave it away.
    await b.handoff('s', 'a');
    const back = await a.open('s');
    expect((await back.append(one)).start.seqNum).toBe(2);
  });

  test('refuses what it cannot do, and does nothing then', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const stream = await a.open('s');
    expect((await errorOf(a.handoff('s', 'nobody'))).code).toBe('STAR_UNKNOWN');
    expect((await errorOf(a.handoff('s', 'a'))).code).toBe('INVALID_OPTION');
    expect((await errorOf(a.handoff('s', 'No Star'))).code).toBe('INVALID_OPTION');
    await start(world, 'b');
    expect((await errorOf(a.handoff('other', 'b'))).code).toBe('NOT_LEADING');
    await stream.append(one);
  });

  test('waits for a PUT in flight; its deadline leaves the Finish going on', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('a');
    world.wrap = (bucket) => puts.wrap(bucket);
    const [a, b] = [await start(world, 'a'), await start(world, 'b')];
    const stream = await a.open('s');
    puts.hold();
    const batch = stream.append(one);
    await eventually(() => expect(puts.count).toBe(3));
    expect((await errorOf(a.handoff('s', 'b', { timeoutMillis: 30 }))).code).toBe(
      'DEADLINE_EXCEEDED',
    );
    expect((await a.status()).departing).toMatchObject([
      { name: 's', state: 'finishing', failures: 0 },
    ]);
    expect((await errorOf(b.open('s'))).code).toBe('STREAM_HELD');
    puts.letGo();
    expect(await a.handoff('s', 'b')).toEqual({ tail: 1 });
    await batch;
    await b.open('s');
  });
});

describe('engine.drain', () => {
  test('finishes the busiest first, tells how far it is, and takes nothing any more', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const ids: Record<string, string> = {};
    for (const [name, count] of [
      ['idle', 0],
      ['busy', 20],
      ['some', 5],
    ] as const) {
      const stream = await a.open(name);
      ids[name] = stream.id;
      if (count > 0) await stream.append(Array.from({ length: count }, () => ({ body: 'x' })));
    }
    meta.calls.length = 0;
    const seen: number[] = [];
    const done = await a.drain({ onProgress: ({ finished }) => seen.push(finished) });
    expect(done).toEqual({ streams: 3, finished: 3, inLimbo: 0 });
    expect(seen).toEqual([1, 2, 3]);
    const barriers = meta.calls.find(({ key }) => key.startsWith(`streams/${ids['busy']}`));
    expect(meta.calls.indexOf(barriers!)).toBeLessThan(
      meta.calls.findIndex(({ key }) => key.startsWith(`streams/${ids['idle']}`)),
    );
    expect(await errorOf(a.open('idle'))).toMatchObject({
      code: 'ENGINE_DRAINING',
      retryable: true,
    });
    expect((await a.status()).openStreams).toEqual([]);
    // Alive and registered, and yet another star opens everything at once.
    const b = await start(world, 'b');
    for (const name of Object.keys(ids)) await b.open(name);
    await a.close();
  });

  test('bad options are refused', async () => {
    const a = await start(new EngineWorld(), 'a');
    const options = { progress: () => undefined } as object;
    expect((await errorOf(a.drain(options))).code).toBe('INVALID_OPTION');
    await a.open('s');
  });

  test('its deadline leaves the rest going on', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('a');
    world.wrap = (bucket) => puts.wrap(bucket);
    const a = await start(world, 'a');
    // More than are finished at a time: those whose turn has not come leave, too.
    const names = Array.from({ length: 40 }, (_, index) => `s${index}`);
    const streams = await Promise.all(names.map((name) => a.open(name)));
    puts.hold();
    const batches = streams.map((stream) => stream.append(one));
    const error = await errorOf(a.drain({ timeoutMillis: 30 }));
    expect(error).toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      details: { streams: 40, finished: 0 },
    });
    puts.letGo();
    await Promise.all(batches);
    for (const { id } of streams) {
      await eventually(async () =>
        expect(await writerOf(world, id)).toMatchObject({ kind: 'released', tail: 1 }),
      );
    }
  });
});

describe('limbo', () => {
  test('a Finish that fails keeps the lease, is listed, tried again, and ends released', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    const corrupt = new EngineError('METASTORE_CORRUPT', 'the row does not parse');
    meta.fails = ({ op, key }) =>
      op === 'lastChild' && key.includes('/refs/') ? corrupt : undefined;
    void stream.close().catch(() => undefined);
    await eventually(async () =>
      expect((await a.status()).departing).toMatchObject([
        { name: 's', state: 'limbo', failures: 1, code: 'METASTORE_CORRUPT' },
      ]),
    );
    expect(await errorOf(a.open('s'))).toMatchObject({ code: 'STREAM_IN_LIMBO', retryable: true });
    expect((await errorOf(a.deleteStream('s'))).code).toBe('STREAM_IN_LIMBO');
    const plain = new MemoryMetastore(world.metastore);
    await eventually(async () =>
      expect(await readLimbo({ metastore: plain }, 'a')).toMatchObject([
        { name: 's', stream: stream.id, epoch: 0, code: 'METASTORE_CORRUPT' },
      ]),
    );
    expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'tenure' });
    meta.fails = () => undefined;
    await eventually(async () =>
      expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'released' }),
    );
    await eventually(async () => expect(await plain.children('limbo/')).toEqual([]));
    expect((await a.status()).departing).toEqual([]);
    const again = await a.open('s');
    expect((await again.append(one)).start.seqNum).toBe(1);
  });

  test('a note of a tenure that is over is not shown', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    meta.fails = ({ op, key }) =>
      op === 'put' && key.includes('/refs/')
        ? new EngineError('METASTORE_CORRUPT', 'bad')
        : undefined;
    void stream.close().catch(() => undefined);
    const plain = new MemoryMetastore(world.metastore);
    await eventually(async () => expect(await plain.children('limbo/')).toHaveLength(1));
    await a.kill();
    const b = await start(world, 'b');
    meta.fails = () => undefined;
    await b.open('s');
    expect(await readLimbo({ metastore: plain }, 'a')).toEqual([]);
    // And goes when its star starts again.
    await start(world, 'a');
    await eventually(async () => expect(await plain.children('limbo/')).toEqual([]));
  });

  test('an open that fails behind its claim leaves through Finish, not as a tenure without a leader', async () => {
    const world = new EngineWorld();
    const first = await start(world, 'a');
    await (await first.open('s')).append(one);
    await first.kill();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const b = await start(world, 'b');
    let claimed = false;
    meta.fails = ({ op, key }) => {
      if (op === 'put' && key.endsWith('/writer')) claimed = true;
      const reads = op === 'lastChild' && key.includes('/refs/');
      return claimed && reads ? new EngineError('METASTORE_CORRUPT', 'bad row') : undefined;
    };
    expect((await errorOf(b.open('s'))).code).toBe('METASTORE_CORRUPT');
    expect((await b.status()).departing).toMatchObject([{ name: 's', state: 'limbo' }]);
    const plain = new MemoryMetastore(world.metastore);
    await eventually(async () =>
      expect(await readLimbo({ metastore: plain }, 'b')).toMatchObject([{ name: 's', epoch: 0 }]),
    );
    meta.fails = () => undefined;
    const c = await start(world, 'c');
    await eventually(async () => c.open('s'));
    expect(await (await c.open('s')).checkTail()).toMatchObject({ seqNum: 1 });
  });

  test('an unavailable metastore is waited out: no limbo, and no wrong answer meanwhile', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    meta.fails = ({ op, key }) =>
      op === 'put' && key.startsWith('streams/') ? unavailable() : undefined;
    const closed = stream.close();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'tenure' });
    expect((await errorOf(stream.append(one))).code).toBe('CLOSED');
    meta.fails = () => undefined;
    await closed;
    expect(await writerOf(world, stream.id)).toMatchObject({ kind: 'released', tail: 1 });
  });
});

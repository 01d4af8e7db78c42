import { describe, expect, test } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { releaseStream } from '../../../src/engine/operator.ts';
import { EngineError } from '../../../src/index.ts';
import { streamKey, writerKey } from '../../../src/protocol/keys.ts';
import { encodeRecordValue } from '../../../src/protocol/records.ts';
import { BrokenMetastore } from '../../support/broken-metastore.ts';
import { EngineWorld, errorOf } from '../../support/engine-world.ts';
import { HeldPuts } from '../../support/held-puts.ts';
import { eventually } from '../../support/eventually.ts';

function start(world: EngineWorld, star: string): Promise<HostedEngine> {
  return world.start({ star });
}

async function kindOf(world: EngineWorld, streamId: string): Promise<string | undefined> {
  const entry = await new MemoryMetastore(world.metastore).get(writerKey(streamId));
  const value = entry && (JSON.parse(Buffer.from(entry.value).toString()) as { kind: string });
  return value?.kind;
}

/** Everything of the stream that the metastore still holds. */
async function leftOf(world: EngineWorld, streamId: string): Promise<readonly string[]> {
  const entries = await new MemoryMetastore(world.metastore).children(streamKey(streamId));
  return entries.map(({ key }) => key);
}

const one = [{ body: 'x' }];

describe('T5 deletion is decided in the writer record', () => {
  test('by the leader: record, rows and name go, the writer record stays for good', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const stream = await a.open('s');
    await stream.append(one);
    await a.deleteStream('s');
    expect(await leftOf(world, stream.id)).toEqual([writerKey(stream.id)]);
    expect(await kindOf(world, stream.id)).toBe('deleted');
    expect((await errorOf(stream.append(one))).code).toBe('STREAM_DELETED');
    expect((await errorOf(stream.checkTail())).code).toBe('STREAM_DELETED');
    expect((await errorOf(a.deleteStream('s'))).code).toBe('STREAM_NOT_FOUND');
    expect(await new MemoryMetastore(world.metastore).children('names/')).toEqual([]);
  });

  test('who does not lead takes a tenure by the gate first: not from a living leader', async () => {
    const world = new EngineWorld();
    const [a, b] = [await start(world, 'a'), await start(world, 'b')];
    const stream = await a.open('s');
    await stream.append(one);
    expect(await errorOf(b.deleteStream('s'))).toMatchObject({ code: 'STREAM_HELD' });
    await stream.append(one);
    await stream.close();
    await b.deleteStream('s');
    expect(await kindOf(world, stream.id)).toBe('deleted');
    const again = await a.open('s');
    expect(again.id).not.toBe(stream.id);
    expect((await again.append(one)).start.seqNum).toBe(0);
  });

  test('batches under way are acknowledged before it or never', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('a');
    world.wrap = (bucket) => puts.wrap(bucket);
    const a = await start(world, 'a');
    const stream = await a.open('s');
    puts.hold();
    const batch = stream.append(one);
    await eventually(() => expect(puts.count).toBe(3));
    const deleted = a.deleteStream('s');
    await eventually(async () => expect((await a.status()).departing).toHaveLength(1));
    expect((await errorOf(stream.append(one))).code).toBe('STREAM_DELETED');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await kindOf(world, stream.id)).toBe('tenure');
    puts.letGo();
    expect((await batch).start.seqNum).toBe(0);
    await deleted;
    expect(await kindOf(world, stream.id)).toBe('deleted');
  });

  test('a former leader that still appends reaches neither the deleted nor the new stream', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('a');
    world.wrap = (bucket) => puts.wrap(bucket);
    const a = await start(world, 'a');
    world.wrap = (bucket) => bucket;
    const b = await start(world, 'b');
    const former = await a.open('s');
    await former.append(one);
    puts.hold();
    const late = former.append([{ body: 'late' }]).catch((error: unknown) => error);
    await eventually(() => expect(puts.count).toBe(3));
    // Somebody takes the stream from it, deletes it, and another stream gets the name.
    await releaseStream(world.ports(), { basin: 'default', name: 's', force: 'fromLiving' });
    await b.deleteStream('s');
    const next = await b.open('s');
    puts.letGo();
    expect(await late).toMatchObject({ code: 'FENCED', sideEffects: 'none' });
    expect((await errorOf(former.append(one))).retryable).toBe(false);
    expect((await errorOf(former.checkTail())).kind).not.toBe('internal');
    expect((await next.append([{ body: 'new' }])).start.seqNum).toBe(0);
    const bodies: string[] = [];
    for await (const { body } of next.read()) bodies.push(Buffer.from(body).toString());
    expect(bodies).toEqual(['new']);
    expect(await kindOf(world, former.id)).toBe('deleted');
  });

  test('an entry of a deleted stream keeps nobody from settling the epoch', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const [gone, kept] = [await a.open('gone'), await a.open('kept')];
    await Promise.all([gone.append(one), kept.append(one)]);
    await a.deleteStream('gone');
    await kept.append(one);
    await a.kill();
    const b = await start(world, 'b');
    expect((await (await b.open('kept')).append(one)).start.seqNum).toBe(2);
    const report = await releaseStream(world.ports(), {
      basin: 'default',
      name: 'kept',
      force: 'fromLiving',
    });
    expect(report.settlement).toBe('settled');
  });
});

describe('T5 names', () => {
  test('an opener led to a deleted stream repairs the name', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const { id } = await a.createStream('s');
    // Its deleter died before it came to the name.
    const plain = new MemoryMetastore(world.metastore);
    const deleted = encodeRecordValue({ kind: 'deleted', attempt: '0'.repeat(16) });
    await plain.put(writerKey(id), deleted, 'absent');
    expect((await a.listStreams()).streams).toEqual([]);
    expect((await errorOf(a.deleteStream('s'))).code).toBe('STREAM_NOT_FOUND');
    const stream = await a.open('s');
    expect(stream.id).not.toBe(id);
    await stream.append(one);
    expect((await a.listStreams()).streams).toMatchObject([{ id: stream.id }]);
  });

  test('createStream takes a name that leads to a deleted stream', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const { id } = await a.createStream('s');
    const plain = new MemoryMetastore(world.metastore);
    const deleted = encodeRecordValue({ kind: 'deleted', attempt: '0'.repeat(16) });
    await plain.put(writerKey(id), deleted, 'absent');
    const again = await a.createStream('s', { mode: 'fenced' });
    expect(again.id).not.toBe(id);
    expect((await errorOf(a.createStream('s'))).code).toBe('STREAM_EXISTS');
  });

  test('old reads of the name lead to the deleted stream once, and never into it', async () => {
    const world = new EngineWorld();
    const a = await start(world, 'a');
    const old = await a.open('s');
    await old.append(one);
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const b = await start(world, 'b');
    await meta.freeze(new MemoryMetastore(world.metastore), 'names/', /^names\//);
    await a.deleteStream('s');
    const fresh = await a.open('s');
    await fresh.close();
    meta.calls.length = 0;
    const opened = await b.open('s');
    expect(opened.id).toBe(fresh.id);
    // Found by the old name, looked at behind a barrier, found anew.
    expect(
      meta.calls.filter(({ op, key }) => op === 'get' && key.startsWith('names/')),
    ).toHaveLength(3);
    await opened.append(one);
    expect(await kindOf(world, old.id)).toBe('deleted');
  });

  test('who loses a name to another id ends its own id before it answers', async () => {
    const world = new EngineWorld();
    const meta = new BrokenMetastore();
    world.wrapMetastore = (metastore) => meta.wrap(metastore);
    const a = await start(world, 'a');
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => a.createStream('s').then(({ id }) => id, errorCode)),
    );
    const ids = answers.filter((answer) => answer !== 'STREAM_EXISTS');
    expect(ids).toHaveLength(1);
    const all = new Set(meta.writes(/^streams\/[0-9a-f]+$/).map(({ key }) => key.slice(8)));
    expect(all.size).toBe(4);
    for (const id of all) {
      expect(await kindOf(world, id)).toBe(id === ids[0] ? undefined : 'deleted');
      if (id !== ids[0]) expect(await leftOf(world, id)).toEqual([writerKey(id)]);
    }
  });

  test('of deletions at once none creates a stream', async () => {
    const world = new EngineWorld();
    const [a, b] = [await start(world, 'a'), await start(world, 'b')];
    const { id } = await a.createStream('s');
    const outcomes = await Promise.all(
      [a, a, b].map((engine) => engine.deleteStream('s').then(() => 'deleted', errorCode)),
    );
    expect(outcomes).toContain('deleted');
    expect(['deleted', 'STREAM_NOT_FOUND', 'STREAM_HELD']).toEqual(
      expect.arrayContaining(outcomes),
    );
    expect(await kindOf(world, id)).toBe('deleted');
    expect((await a.listStreams()).streams).toEqual([]);
  });
});

function errorCode(error: unknown): string {
  return EngineError.is(error) ? error.code : String(error);
}

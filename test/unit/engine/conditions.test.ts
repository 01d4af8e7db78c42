import { describe, expect, test } from 'vitest';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { EngineError } from '../../../src/index.ts';
import type { ReadRecord, Stream } from '../../../src/index.ts';
import type { EngineSettings } from '../../../src/protocol/settings.ts';
import { EngineWorld, errorOf } from '../../support/engine-world.ts';
import { HeldPuts } from '../../support/held-puts.ts';
import { eventually } from '../../support/eventually.ts';

function start(world: EngineWorld, settings: EngineSettings = {}): Promise<HostedEngine> {
  return world.start({ ...settings });
}

async function readAll(stream: Stream): Promise<ReadRecord[]> {
  const records: ReadRecord[] = [];
  for await (const record of stream.read()) records.push(record);
  return records;
}

const one = [{ body: 'x' }];

describe('matchSeqNum', () => {
  test('counts batches in flight: appends sent without waiting get their numbers', async () => {
    const stream = await (await start(new EngineWorld())).open('s');
    const acks = await Promise.all(
      Array.from({ length: 50 }, (_, i) => stream.append([...one, ...one], { matchSeqNum: 2 * i })),
    );
    expect(acks.map(({ start }) => start.seqNum)).toEqual(acks.map((_, i) => 2 * i));
  });

  test('a mismatch names the next number, appends nothing and leaves no hole', async () => {
    const stream = await (await start(new EngineWorld())).open('s');
    await stream.append([...one, ...one]);
    const error = await errorOf(stream.append(one, { matchSeqNum: 1 }));
    expect(error).toMatchObject({
      code: 'SEQ_NUM_MISMATCH',
      kind: 'conflict',
      sideEffects: 'none',
      details: { stream: 's', expected: 2, given: 1 },
    });
    expect((await stream.append(one, { matchSeqNum: 2 })).start.seqNum).toBe(2);
    expect((await stream.checkTail()).seqNum).toBe(3);
  });

  test('L a rejection waits until the batches that caused it are durable', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('main');
    world.wrap = (bucket) => puts.wrap(bucket);
    const stream = await (await start(world)).open('s');
    puts.hold();
    const first = stream.append(one);
    await eventually(() => expect(puts.count).toBe(3));
    let isAnswered = false;
    const rejected = errorOf(stream.append(one, { matchSeqNum: 0 })).finally(() => {
      isAnswered = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(isAnswered).toBe(false);
    puts.letGo();
    await first;
    expect(await rejected).toMatchObject({ code: 'SEQ_NUM_MISMATCH', details: { expected: 1 } });
  });

  test('L with nothing in flight a rejection costs one confirmation, begun after the request', async () => {
    const engine = await start(new EngineWorld());
    const stream = await engine.open('s');
    await stream.append(one);
    const waves = (): number => engine.metrics().counters['confirmation.waves'] ?? 0;
    const before = waves();
    await errorOf(stream.append(one, { matchSeqNum: 0 }));
    expect(waves()).toBe(before + 1);
    await stream.append(one, { matchSeqNum: 1 });
    expect(waves()).toBe(before + 1);
  });

  test('a rejection that storage keeps waiting ends at its deadline, without effect', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('main');
    world.wrap = (bucket) => puts.wrap(bucket);
    const stream = await (await start(world)).open('s');
    puts.hold();
    const first = stream.append(one);
    const controller = new AbortController();
    const aborted = errorOf(stream.append(one, { matchSeqNum: 5, signal: controller.signal }));
    const late = await errorOf(stream.append(one, { matchSeqNum: 5, timeoutMillis: 30 }));
    expect(late).toMatchObject({ code: 'DEADLINE_EXCEEDED', sideEffects: 'none' });
    controller.abort();
    expect(await aborted).toMatchObject({ code: 'ABORTED', sideEffects: 'none' });
    puts.letGo();
    await first;
    expect((await stream.append(one, { matchSeqNum: 1 })).start.seqNum).toBe(1);
  });

  test('a rejection whose state goes down with its engine is no rejection', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('main');
    world.wrap = (bucket) => puts.wrap(bucket);
    const engine = await start(world);
    const stream = await engine.open('s');
    puts.hold();
    const first = stream.append(one).catch(() => undefined);
    const rejected = errorOf(stream.append(one, { matchSeqNum: 0 }));
    await eventually(() => expect(puts.count).toBe(3));
    await engine.kill();
    puts.letGo();
    expect(await rejected).toMatchObject({
      code: 'REJECTION_UNCONFIRMED',
      retryable: true,
      sideEffects: 'none',
    });
    await first;
  });

  test('goes on through a roll', async () => {
    const engine = await start(new EngineWorld());
    const stream = await engine.open('s');
    await stream.append(one, { matchSeqNum: 0 });
    const rolled = engine.roll();
    const acks = [1, 2, 3].map((matchSeqNum) => stream.append(one, { matchSeqNum }));
    const rejected = errorOf(stream.append(one, { matchSeqNum: 0 }));
    await rolled;
    expect((await Promise.all(acks)).map(({ start }) => start.seqNum)).toEqual([1, 2, 3]);
    expect(await rejected).toMatchObject({ code: 'SEQ_NUM_MISMATCH', details: { expected: 4 } });
  });
});

describe('K fencing token', () => {
  test('is effective from its own record on, and judged by exact equality', async () => {
    const stream = await (await start(new EngineWorld())).open('s');
    const fenced = stream.fence('A');
    const after = stream.append(one, { fencingToken: 'A' });
    const stale = errorOf(stream.append(one, { fencingToken: '' }));
    expect((await fenced).start.seqNum).toBe(0);
    expect((await after).start.seqNum).toBe(1);
    expect(await stale).toMatchObject({
      code: 'FENCING_TOKEN_MISMATCH',
      sideEffects: 'none',
      details: { fencingToken: 'A', given: '' },
    });
    expect((await errorOf(stream.append(one, { fencingToken: 'a' }))).code).toBe(
      'FENCING_TOKEN_MISMATCH',
    );
    // Cooperative: who carries no token is not checked.
    await stream.append(one);
    await stream.fence('');
    await stream.append(one, { fencingToken: '' });
    const kinds = (await readAll(stream)).map(({ command }) => command?.kind ?? 'record');
    expect(kinds).toEqual(['fence', 'record', 'record', 'fence', 'record']);
  });

  test('a fence record of a plain append counts as well', async () => {
    const stream = await (await start(new EngineWorld())).open('s');
    await stream.append([{ body: 'B', headers: [['', 'fence']] }, ...one]);
    expect(await errorOf(stream.append(one, { fencingToken: 'A' }))).toMatchObject({
      details: { fencingToken: 'B' },
    });
  });

  test('is mandatory on fenced streams, at open and at every append', async () => {
    const engine = await start(new EngineWorld());
    await engine.createStream('s', { mode: 'fenced' });
    expect(await errorOf(engine.open('s'))).toMatchObject({
      code: 'FENCING_TOKEN_MISMATCH',
      details: { fencingToken: '' },
    });
    const first = await engine.open('s', { fencingToken: '' });
    expect(first.mode).toBe('fenced');
    await first.fence('A');
    // The handle goes on under the token that it installed.
    await first.append(one);
    expect(await errorOf(engine.open('s', { fencingToken: '' }))).toMatchObject({
      details: { fencingToken: 'A', given: '' },
    });
    const second = await engine.open('s', { fencingToken: 'A' });
    await second.append(one);
    expect(await errorOf(second.append(one, { fencingToken: 'C' }))).toMatchObject({
      code: 'FENCING_TOKEN_MISMATCH',
    });
    await engine.deleteStream('s');
  });

  test('a newer token ends handles of the older one, and no others', async () => {
    const engine = await start(new EngineWorld());
    const plain = await engine.open('s');
    await plain.fence('A');
    const old = await engine.open('s', { fencingToken: 'A' });
    await old.append(one);
    await plain.fence('A');
    await old.append(one);
    const next = plain.fence('B');
    // Refused by comparison already while the new token is under way.
    const refused = errorOf(old.append(one));
    await next;
    expect(await refused).toMatchObject({ code: 'FENCING_TOKEN_MISMATCH' });
    for (const call of [old.append(one), old.checkTail(), old.fence('C')]) {
      expect(await errorOf(call)).toMatchObject({
        code: 'FENCING_TOKEN_MISMATCH',
        details: { fencingToken: 'B', given: 'A' },
      });
    }
    await old.close();
    expect((await plain.append(one)).end.seqNum).toBe(6);
    await (await engine.open('s', { fencingToken: 'B' })).append(one);
  });

  test('N the last handle that a newer token ends leaves through Finish', async () => {
    const world = new EngineWorld();
    const engine = await start(world);
    const mine = await engine.open('s', { fencingToken: '' });
    const mine2 = await engine.open('s', { fencingToken: '' });
    await mine2.close();
    const ack = await mine.append([{ body: 'B', headers: [['', 'fence']] }]);
    expect(ack.start.seqNum).toBe(0);
    // Its own fence does not end it.
    await mine.append(one);
    const theirs = await engine.open('s', { fencingToken: 'B' });
    await theirs.fence('C');
    expect((await errorOf(mine.append(one))).code).toBe('FENCING_TOKEN_MISMATCH');
    await theirs.close();
    // No handle is left: another star opens at once, though this one lives.
    const other = await start(world, { star: 'other' });
    const taken = await other.open('s', { fencingToken: 'C' });
    expect((await taken.append(one, { matchSeqNum: 3 })).start.seqNum).toBe(3);
    expect(other.metrics().counters['gate.markDisagrees']).toBeUndefined();
  });

  test('of too many bytes is refused everywhere, before anything is done', async () => {
    const engine = await start(new EngineWorld());
    const token = 'x'.repeat(37);
    expect(await errorOf(engine.open('s', { fencingToken: token }))).toMatchObject({
      code: 'INVALID_OPTION',
      details: { option: 'fencingToken', bytes: 37, max: 36 },
    });
    const stream = await engine.open('s');
    expect(() => stream.fence(token)).toThrow(EngineError);
    const error = await errorOf(stream.append(one, { fencingToken: token }));
    expect(error.code).toBe('INVALID_OPTION');
    expect((await stream.checkTail()).seqNum).toBe(0);
  });
});

describe('T2 token and number survive', () => {
  test('a takeover by another star, through a flight of which one copy exists', async () => {
    const world = new EngineWorld();
    const puts = new HeldPuts('main');
    world.wrap = (bucket, index) => (index === 0 ? bucket : puts.wrap(bucket));
    const first = await start(world);
    const stream = await first.open('s');
    await stream.fence('A');
    await stream.append(one);
    puts.hold();
    // One bucket of three holds the newer token: neither acknowledged nor lost.
    const half = errorOf(stream.fence('B'));
    await eventually(() => expect(puts.count).toBe(2));
    await first.kill();
    expect((await half).sideEffects).toBe('possible');
    world.wrap = (bucket) => bucket;
    const second = await start(world, { star: 'second' });
    expect(await errorOf(second.open('s', { fencingToken: 'A' }))).toMatchObject({
      code: 'FENCING_TOKEN_MISMATCH',
      details: { fencingToken: 'B' },
    });
    const taken = await second.open('s', { fencingToken: 'B' });
    expect(await errorOf(taken.append(one, { matchSeqNum: 2 }))).toMatchObject({
      details: { expected: 3 },
    });
    expect((await taken.append(one, { matchSeqNum: 3 })).start.seqNum).toBe(3);
    puts.letGo();
  });

  test('a clean release, a restart, and rows of several epochs', async () => {
    const world = new EngineWorld();
    for (const star of ['main', 'other', 'main']) {
      const engine = await start(world, { star });
      const stream = await engine.open('s');
      const { seqNum } = await stream.checkTail();
      if (seqNum === 0) await stream.fence('A');
      await stream.append(one, { fencingToken: 'A' });
      await engine.close();
    }
    const engine = await start(world, { star: 'last' });
    const stream = await engine.open('s', { fencingToken: 'A' });
    expect((await stream.append(one, { matchSeqNum: 4 })).start.seqNum).toBe(4);
  });
});

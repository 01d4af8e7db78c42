import { afterEach, describe, expect, test } from 'vitest';
import { createEngine, EngineError, memoryComponents, openReader } from '../../../src/index.ts';
import type { Engine, ReadRecord, Stream } from '../../../src/index.ts';

const engines: Engine[] = [];

async function engineOn(
  components = memoryComponents({ buckets: 3 }),
  settings: Parameters<typeof createEngine>[0]['settings'] = {},
): Promise<Engine> {
  const engine = await createEngine({ components, settings: { copyQuorum: 2, ...settings } });
  engines.push(engine);
  return engine;
}

afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close();
});

async function readAll(stream: Pick<Stream, 'read'>, options = {}): Promise<ReadRecord[]> {
  const records: ReadRecord[] = [];
  for await (const record of stream.read(options)) records.push(record);
  return records;
}

const text = (record: ReadRecord): string => Buffer.from(record.body).toString();

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!EngineError.is(error)) throw new Error(`no engine error: ${String(error)}`);
  return error.code;
}

describe('append and read', () => {
  test('an append is acknowledged with its positions and read back', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    const ticket = await stream.submit([{ body: 'one' }, { body: Buffer.from('two') }]);
    expect([ticket.startSeqNum, ticket.endSeqNum]).toEqual([0, 2]);
    const ack = await ticket.ack();
    expect([ack.start.seqNum, ack.end.seqNum, ack.tail.seqNum]).toEqual([0, 2, 2]);
    const records = await readAll(stream);
    expect(records.map(text)).toEqual(['one', 'two']);
    expect(records.map((record) => record.seqNum)).toEqual([0, 1]);
  });

  test('headers keep order and bytes; timestamps never decrease', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    await stream.append([
      {
        body: 'a',
        headers: [
          ['k', 'v'],
          ['k', Buffer.from([0, 255])],
        ],
        timestamp: 1_000,
      },
      { body: 'b', timestamp: 10 },
    ]);
    const [a, b] = await readAll(stream);
    expect(a!.headers.map(([n, v]) => [Buffer.from(n).toString(), [...v]])).toEqual([
      ['k', [118]],
      ['k', [0, 255]],
    ]);
    expect([a!.timestamp, b!.timestamp]).toEqual([1_000, 1_000]);
  });

  test('many concurrent appends into many streams keep each stream contiguous', async () => {
    const engine = await engineOn(undefined, { flightBytes: 4_096, poolBytes: 4 * 1024 * 1024 });
    const streams = await Promise.all(['a', 'b', 'c'].map((name) => engine.open(name)));
    await Promise.all(
      streams.flatMap((stream) =>
        Array.from({ length: 200 }, (_, i) => stream.append([{ body: `${stream.name}${i}` }])),
      ),
    );
    for (const stream of streams) {
      const records = await readAll(stream);
      expect(records.map((record) => record.seqNum)).toEqual([...Array(200).keys()]);
      expect(new Set(records.map(text)).size).toBe(200);
    }
  });

  test('a live read goes on at the tail and ends with its signal', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    const controller = new AbortController();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const record of stream.read({ live: true, signal: controller.signal })) {
        seen.push(text(record));
        if (seen.length === 3) controller.abort();
      }
    })();
    for (const body of ['x', 'y', 'z']) await stream.append([{ body }]);
    expect(await codeOf(reading)).toBe('ABORTED');
    expect(seen).toEqual(['x', 'y', 'z']);
  });

  test('start positions: from, tailOffset, timestamp, limit', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    for (let i = 0; i < 10; i++) await stream.append([{ body: `${i}`, timestamp: 100 + i }]);
    const bodies = async (options: object): Promise<string> =>
      (await readAll(stream, options)).map(text).join('');
    expect(await bodies({ from: 7 })).toBe('789');
    expect(await bodies({ tailOffset: 2 })).toBe('89');
    expect(await bodies({ tailOffset: 20 })).toBe('0123456789');
    expect(await bodies({ timestamp: 105 })).toBe('56789');
    expect(await bodies({ timestamp: 999_999 })).toBe('');
    expect(await bodies({ from: 3, limit: 2 })).toBe('34');
    expect(await bodies({ from: 10 })).toBe('');
    expect(await codeOf(bodies({ from: 11 }))).toBe('BEYOND_TAIL');
  });

  test('trim and fence are typed command records; below the trim point is an explicit answer', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    for (let i = 0; i < 5; i++) await stream.append([{ body: `${i}` }]);
    await stream.fence('token-1');
    await stream.trim(3);
    expect(await codeOf(readAll(stream, { from: 2 }))).toBe('TRIMMED');
    const records = await readAll(stream);
    expect(records.map((record) => record.seqNum)).toEqual([3, 4, 5, 6]);
    expect(records.map((record) => record.command)).toEqual([
      undefined,
      undefined,
      { kind: 'fence', fencingToken: 'token-1' },
      { kind: 'trim', trimPoint: 3 },
    ]);
    expect((await readAll(stream, { ignoreCommands: true })).length).toBe(2);
  });

  test('check-tail confirms on the chain', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    expect((await stream.checkTail()).seqNum).toBe(0);
    await stream.append([{ body: 'x' }]);
    expect((await stream.checkTail()).seqNum).toBe(1);
    expect(engine.metrics().counters['confirmation.waves']).toBeGreaterThan(0);
  });
});

describe('leadership', () => {
  test('a clean close needs no fence: the next engine reads and goes on at the tail', async () => {
    const components = memoryComponents({ buckets: 3 });
    const first = await engineOn(components);
    const stream = await first.open('orders');
    await stream.append([{ body: 'kept' }]);
    await first.close();
    const second = await engineOn(components);
    const { fences } = await second.recovered();
    expect(fences).toEqual([]);
    const again = await second.open('orders');
    const { start } = await again.append([{ body: 'more' }]);
    expect(start.seqNum).toBe(1);
    expect((await readAll(again)).map(text)).toEqual(['kept', 'more']);
  });

  test('after an end without Finish the epoch is fenced and every acknowledged record is kept', async () => {
    const components = memoryComponents({ buckets: 3 });
    const first = await createEngine({ components, settings: { copyQuorum: 2 } });
    const stream = await first.open('orders');
    for (let i = 0; i < 100; i++) await stream.append([{ body: `${i}` }]);
    await (first as unknown as { kill(): Promise<void> }).kill();
    const second = await engineOn(components);
    const { fences, settledEpochs } = await second.recovered();
    expect(fences).toHaveLength(1);
    expect(fences[0]!.cut).toBeGreaterThan(0);
    expect(settledEpochs).toBe(1);
    const again = await second.open('orders');
    expect((await readAll(again)).map(text)).toEqual([...Array(100).keys()].map(String));
    const { start } = await again.append([{ body: 'next' }]);
    expect(start.seqNum).toBe(100);
  });

  test('a second engine of the same star is refused while the first lives', async () => {
    const components = memoryComponents({ buckets: 3 });
    await engineOn(components);
    expect(await codeOf(createEngine({ components }))).toBe('STAR_IN_USE');
  });

  test('handles share the leadership; the last close releases it', async () => {
    const engine = await engineOn();
    const one = await engine.open('orders');
    const two = await engine.open('orders');
    await one.close();
    expect(await codeOf(one.append([{ body: 'x' }]))).toBe('CLOSED');
    await two.append([{ body: 'x' }]);
    await two.close();
    const three = await engine.open('orders');
    expect((await readAll(three)).map(text)).toEqual(['x']);
  });

  test('a stream that is deleted is gone; its name leads to a new stream', async () => {
    const engine = await engineOn();
    const stream = await engine.open('orders');
    await stream.append([{ body: 'old' }]);
    await engine.deleteStream('orders');
    expect(await codeOf(stream.append([{ body: 'x' }]))).toBe('STREAM_DELETED');
    expect((await engine.listStreams()).streams).toEqual([]);
    const again = await engine.open('orders');
    expect(again.id).not.toBe(stream.id);
    expect(await readAll(again)).toEqual([]);
    expect(await codeOf(engine.deleteStream('nothing'))).toBe('STREAM_NOT_FOUND');
  });

  test('a reader without a lease sees what any fence would keep', async () => {
    const components = memoryComponents({ buckets: 3 });
    const engine = await engineOn(components);
    const stream = await engine.open('orders');
    for (let i = 0; i < 50; i++) await stream.append([{ body: `${i}` }]);
    const reader = await openReader({ components });
    const found: string[] = [];
    for await (const record of reader.read('orders')) found.push(text(record));
    expect(found).toEqual([...Array(50).keys()].map(String));
    expect((await reader.status()).epochs).toHaveLength(1);
    expect((await reader.listStreams()).streams.map(({ name }) => name)).toEqual(['orders']);
    await reader.close();
  });
});

describe('listing', () => {
  test('names page in byte order with prefix and startAfter', async () => {
    const engine = await engineOn();
    for (const name of ['b', 'a/2', 'a/1', 'ü', 'a/3']) await engine.createStream(name);
    expect(await codeOf(engine.createStream('b'))).toBe('STREAM_EXISTS');
    const all = await engine.listStreams();
    expect(all.streams.map(({ name }) => name)).toEqual(['a/1', 'a/2', 'a/3', 'b', 'ü']);
    const page = await engine.listStreams({ prefix: 'a/', startAfter: 'a/1', limit: 1 });
    expect(page.streams.map(({ name }) => name)).toEqual(['a/2']);
    expect(page.more).toBe(true);
  });
});

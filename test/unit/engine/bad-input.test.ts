import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  createEngine,
  directoryComponents,
  EngineError,
  LIMITS,
  memoryComponents,
} from '../../../src/index.ts';
import type { AppendRecord, Engine, Stream } from '../../../src/index.ts';

async function errorOf(run: () => unknown): Promise<EngineError> {
  try {
    await run();
  } catch (error) {
    if (EngineError.is(error)) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('options', () => {
  const refused: [string, () => unknown, string, unknown][] = [
    ['W > K', () => open({ buckets: 3 }, { copyQuorum: 4 }), 'settings.copyQuorum', 4],
    ['W < 1', () => open({ buckets: 3 }, { copyQuorum: 0 }), 'settings.copyQuorum', 0],
    ['K = 0', () => open({ buckets: 0 }, {}), 'components.buckets', 0],
    ['K too large', () => open({ buckets: 17 }, {}), 'components.buckets', 17],
    ['window < 1', () => open({ buckets: 1 }, { window: 0 }), 'settings.window', 0],
    ['fractional window', () => open({ buckets: 1 }, { window: 1.5 }), 'settings.window', 1.5],
    ['star name', () => open({ buckets: 1 }, { star: 'No Star' }), 'settings.star', 'No Star'],
    ['unknown setting', () => open({ buckets: 1 }, { windows: 4 }), 'settings.windows', 4],
    [
      'session too short',
      () => open({}, { sessionTimeoutMillis: 10 }),
      'settings.sessionTimeoutMillis',
      10,
    ],
    [
      'small pool',
      () => open({}, { poolBytes: 4 << 20, flightBytes: 2 << 20 }),
      'settings.poolBytes',
      4 << 20,
    ],
    ['no root', () => directoryComponents({ root: '' }), 'components.root', ''],
    [
      'unknown component option',
      () => memoryComponents({ bucket: 1 } as never),
      'components.bucket',
      1,
    ],
  ];

  function open(components: object, settings: object): Promise<Engine> {
    return createEngine({ components: memoryComponents(components), settings });
  }

  test.each(refused)(
    '%s is refused with the option and the value',
    async (_, run, option, value) => {
      const error = await errorOf(run);
      expect(error.code).toBe('INVALID_OPTION');
      expect(error.kind).toBe('invalid');
      expect(error.details['option']).toBe(option);
      expect(error.details['value']).toBe(value);
    },
  );

  test('unknown top-level options and missing components are refused', async () => {
    const components = memoryComponents();
    expect(
      (await errorOf(() => createEngine({ components, setting: {} } as never))).message,
    ).toContain('setting');
    expect((await errorOf(() => createEngine({} as never))).code).toBe('INVALID_OPTION');
    expect(
      (await errorOf(() => createEngine({ components: { kind: 'tape' } } as never))).code,
    ).toBe('INVALID_OPTION');
  });

  test('two buckets in one directory are refused', async () => {
    const components = directoryComponents({ root: 'never-made', buckets: ['a', 'b', 'a'] });
    expect((await errorOf(() => createEngine({ components }))).code).toBe('INVALID_OPTION');
  });

  test('descriptors are structured-cloneable', async () => {
    const components = structuredClone(memoryComponents({ buckets: 1 }));
    const engine = await createEngine({ components });
    await engine.close();
  });
});

describe('records, names and positions', () => {
  let engine: Engine;
  let stream: Stream;

  beforeAll(async () => {
    engine = await createEngine({ components: memoryComponents({ buckets: 1 }) });
    stream = await engine.open('orders');
  });

  afterAll(() => engine.close());

  const big = 'x'.repeat(LIMITS.recordBytes - 7);
  const refused: [string, unknown, string][] = [
    ['an empty batch', [], 'BATCH_EMPTY'],
    ['no array', 'records', 'INVALID_RECORD'],
    ['a record that is none', [null], 'INVALID_RECORD'],
    ['a body of another type', [{ body: 7 }], 'INVALID_RECORD'],
    ['an oversized record', [{ body: big }], 'RECORD_TOO_LARGE'],
    ['an oversized batch', [{ body: big.slice(10) }, { body: 'more' }], 'BATCH_TOO_LARGE'],
    ['too many records', Array.from({ length: 1_001 }, () => ({ body: '' })), 'BATCH_TOO_LARGE'],
    ['headers that are none', [{ headers: 'k' }], 'INVALID_RECORD'],
    ['a header that is no pair', [{ headers: [['k']] }], 'INVALID_RECORD'],
    ['an empty header name', [{ headers: [['', 'x']] }], 'INVALID_RECORD'],
    [
      'a command with more headers',
      [
        {
          headers: [
            ['', 'fence'],
            ['a', 'b'],
          ],
        },
      ],
      'INVALID_RECORD',
    ],
    [
      'a trim of seven bytes',
      [{ body: new Uint8Array(7), headers: [['', 'trim']] }],
      'INVALID_RECORD',
    ],
    [
      'a fence token of 37 bytes',
      [{ body: 'x'.repeat(37), headers: [['', 'fence']] }],
      'INVALID_RECORD',
    ],
    ['a negative timestamp', [{ body: '', timestamp: -1 }], 'INVALID_RECORD'],
    ['an unsafe timestamp', [{ body: '', timestamp: 2 ** 53 }], 'INVALID_RECORD'],
    ['a fractional timestamp', [{ body: '', timestamp: 1.5 }], 'INVALID_RECORD'],
  ];

  test.each(refused)('%s is refused and burns nothing', async (_, records, code) => {
    const before = await stream.checkTail();
    const error = await errorOf(() => stream.submit(records as AppendRecord[]));
    expect(error.code).toBe(code);
    expect(error.sideEffects).toBe('none');
    expect(await stream.checkTail()).toEqual(before);
  });

  test('the largest record is accepted', async () => {
    await stream.append([{ body: 'x'.repeat(LIMITS.recordBytes - 8) }]);
    const names = Array.from({ length: 349_522 }, () => ['k', ''] as [string, string]);
    await stream.append([{ headers: names }]);
  });

  test.each([
    ['empty', ''],
    ['513 bytes', 'x'.repeat(513)],
    ['512 letters of two bytes', 'ü'.repeat(512)],
    ['a lone surrogate', 'a\ud800'],
    ['a dot', '.'],
    ['no string', 7],
  ])('a name that is %s is refused', async (_, name) => {
    for (const call of [
      () => engine.open(name as string),
      () => engine.createStream(name as string),
      () => engine.deleteStream(name as string),
    ]) {
      expect((await errorOf(call)).code).toBe('INVALID_NAME');
    }
  });

  test('names of 1 and 512 bytes are accepted', async () => {
    await (await engine.open('x')).close();
    await (await engine.open('ü'.repeat(256))).close();
  });

  test.each([
    [{ from: -1 }],
    [{ from: 0.5 }],
    [{ from: 2 ** 53 }],
    [{ from: '1' }],
    [{ tailOffset: -1 }],
    [{ limit: -1 }],
    [{ from: 0, tailOffset: 1 }],
    [{ from: 0, timestamp: 1 }],
  ])('read %j is refused', async (options) => {
    expect((await errorOf(() => stream.read(options as never))).code).toBe('INVALID_POSITION');
  });

  test.each([
    [{ signal: {} }],
    [{ signal: 'stop' }],
    [{ timeoutMillis: Number.NaN }],
    [{ timeoutMillis: -1 }],
    [{ timeoutMillis: '5' }],
    [{ timeoutMs: 5 }],
  ])('wait options %j are refused before anything is done', async (options) => {
    const before = await stream.checkTail();
    const ticket = await stream.submit([{ body: 'x' }]);
    const bad = options as never;
    const calls: (() => unknown)[] = [
      () => stream.submit([{ body: 'y' }], bad),
      () => stream.append([{ body: 'y' }], bad),
      () => ticket.ack(bad),
      () => stream.checkTail(bad),
      () => stream.trim(0, bad),
      () => stream.read(bad),
      () => stream.close(bad),
      () => engine.open('x', bad),
      () => engine.listStreams(bad),
      () => engine.recovered(bad),
      () => engine.status(bad),
      () => engine.close(bad),
    ];
    for (const call of calls) expect((await errorOf(call)).code).toBe('INVALID_OPTION');
    await ticket.ack();
    expect((await stream.checkTail()).seqNum).toBe(before.seqNum + 1);
  });

  test('a record whose bytes change while it is read is refused, and burns nothing', async () => {
    const before = await stream.checkTail();
    let reads = 0;
    const record = {
      get body() {
        return 'x'.repeat(++reads);
      },
    };
    expect((await errorOf(() => stream.append([record]))).code).toBe('INVALID_RECORD');
    expect((await stream.append([{ body: 'next' }])).start.seqNum).toBe(before.seqNum);
  });

  test('unsafe trim points, long tokens and unknown configurations are refused', async () => {
    expect((await errorOf(() => stream.trim(-1))).code).toBe('INVALID_POSITION');
    expect((await errorOf(() => stream.fence('x'.repeat(37)))).code).toBe('INVALID_OPTION');
    expect((await errorOf(() => engine.createStream('c', { mode: 'one' } as never))).code).toBe(
      'INVALID_OPTION',
    );
    expect((await errorOf(() => engine.createStream('c', { modes: 1 } as never))).code).toBe(
      'INVALID_OPTION',
    );
    expect((await errorOf(() => engine.listStreams({ limit: 0 }))).code).toBe('INVALID_OPTION');
  });

  test('a signal that has fired stops each call before it does anything', async () => {
    const signal = AbortSignal.abort();
    const ticket = await stream.submit([{ body: 'x' }]);
    const calls: (() => unknown)[] = [
      () => engine.open('never', { signal }),
      () => engine.createStream('never', {}, { signal }),
      () => engine.listStreams({ signal }),
      () => engine.deleteStream('orders', { signal }),
      () => engine.recovered({ signal }),
      () => engine.status({ signal }),
      () => engine.close({ signal }),
      () => stream.submit([{ body: 'x' }], { signal }),
      () => stream.append([{ body: 'x' }], { signal }),
      () => ticket.ack({ signal }),
      () => stream.checkTail({ signal }),
      () => stream.trim(0, { signal }),
      () => stream.close({ signal }),
      () => stream.read({ signal })[Symbol.asyncIterator]().next(),
      () => createEngine({ components: memoryComponents(), signal }),
    ];
    for (const call of calls) expect((await errorOf(call)).code).toBe('ABORTED');
    expect((await ticket.ack()).end.seqNum).toBe(ticket.endSeqNum);
    expect((await engine.listStreams()).streams.map(({ name }) => name)).not.toContain('never');
  });

  test('everything refuses after close', async () => {
    const other = await createEngine({ components: memoryComponents({ buckets: 1 }) });
    const open = await other.open('a');
    await other.close();
    await other.close();
    const calls: (() => unknown)[] = [
      () => other.open('a'),
      () => other.createStream('b'),
      () => other.listStreams(),
      () => other.deleteStream('a'),
      () => other.recovered(),
      () => other.status(),
      () => open.submit([{ body: '' }]),
      () => open.append([{ body: '' }]),
      () => open.checkTail(),
      () => open.trim(0),
      () => open.read()[Symbol.asyncIterator]().next(),
    ];
    for (const call of calls) expect((await errorOf(call)).code).toBe('CLOSED');
  });
});

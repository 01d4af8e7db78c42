import { afterEach, describe, expect, test } from 'vitest';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { EngineError } from '../../../src/index.ts';
import type { Metastore } from '../../../src/ports/metastore.ts';
import { EngineWorld } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

const open: HostedEngine[] = [];

afterEach(async () => {
  for (const engine of open.splice(0)) await engine.kill();
});

/** Calls that `holds` says yes to wait until `release` is called. */
class Gate {
  #waiting: (() => void)[] = [];
  holds: (method: string, key: string) => boolean = () => false;

  wrap<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (inner, name) => {
        const member: unknown = Reflect.get(inner, name);
        if (typeof member !== 'function') return member;
        // Answers at once, with something to close.
        if (name === 'watch') return (member as (...a: unknown[]) => unknown).bind(inner);
        return async (...args: unknown[]) => {
          if (name !== 'close' && this.holds(String(name), String(args[0]))) {
            await new Promise<void>((resolve) => this.#waiting.push(resolve));
          }
          return (member as (...a: unknown[]) => unknown).apply(inner, args);
        };
      },
    });
  }

  get held(): number {
    return this.#waiting.length;
  }

  release(): void {
    this.holds = () => false;
    for (const resume of this.#waiting.splice(0)) resume();
  }
}

function gatedWorld(): { world: EngineWorld; buckets: Gate; metastore: Gate } {
  const world = new EngineWorld(1);
  const [buckets, metastore] = [new Gate(), new Gate()];
  world.wrap = (bucket) => buckets.wrap(bucket);
  world.wrapMetastore = (inner): Metastore => metastore.wrap(inner);
  return { world, buckets, metastore };
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (EngineError.is(error)) return error.code;
  throw new Error(`no engine error: ${String(error)}`);
}

describe('a caller that gives up', () => {
  test('during each wait: its signal and its deadline end the call, and leave the engine usable', async () => {
    const { world, buckets, metastore } = gatedWorld();
    const engine = await world.open({ copyQuorum: 1 });
    open.push(engine);
    await engine.recovered();
    const stream = await engine.open('orders');
    await stream.append([{ body: 'x' }]);
    const waits: Record<string, (options: object) => Promise<unknown>> = {
      append: (options) => stream.append([{ body: 'y' }], options),
      ack: async (options) => (await stream.submit([{ body: 'z' }])).ack(options),
      checkTail: (options) => stream.checkTail(options),
      trim: (options) => stream.trim(0, options),
      fence: (options) => stream.fence('t', options),
      live: (options) =>
        stream
          .read({ from: 10_000, live: true, ...options })
          [Symbol.asyncIterator]()
          .next(),
      read: (options) =>
        stream
          .read({ tailOffset: 1, ...options })
          [Symbol.asyncIterator]()
          .next(),
      open: (options) => engine.open('other', options),
      createStream: (options) => engine.createStream('third', {}, options),
      listStreams: (options) => engine.listStreams(options),
      deleteStream: (options) => engine.deleteStream('nothing', options),
      status: (options) => engine.status(options),
      roll: (options) => engine.roll(options),
    };
    for (const [name, wait] of Object.entries(waits)) {
      buckets.holds = (method) => method !== 'probe';
      metastore.holds = (method) => method !== 'watch';
      const controller = new AbortController();
      const given = wait({ signal: controller.signal });
      setTimeout(() => controller.abort(), 20);
      expect([name, await codeOf(given)]).toEqual([name, 'ABORTED']);
      if (name !== 'roll') {
        expect([name, await codeOf(wait({ timeoutMillis: 20 }))]).toEqual([
          name,
          'DEADLINE_EXCEEDED',
        ]);
      }
      buckets.release();
      metastore.release();
    }
    const { end } = await stream.append([{ body: 'last' }]);
    expect((await stream.checkTail()).seqNum).toBe(end.seqNum);
  });

  test('on a close: the stream is finished behind its back', async () => {
    const { world, metastore } = gatedWorld();
    const engine = await world.open({ copyQuorum: 1 });
    open.push(engine);
    const stream = await engine.open('orders');
    await stream.append([{ body: 'x' }]);
    metastore.holds = (method) => method === 'put';
    expect(await codeOf(stream.close({ timeoutMillis: 30 }))).toBe('DEADLINE_EXCEEDED');
    metastore.release();
    await stream.close();
    const again = await engine.open('orders');
    expect((await again.append([{ body: 'y' }])).start.seqNum).toBe(1);
  });

  test('an engine that cannot finish in time abandons: it says so, and the next one settles', async () => {
    const { world, metastore } = gatedWorld();
    const engine = await world.open({ copyQuorum: 1 });
    open.push(engine);
    await engine.recovered();
    await (await engine.open('orders')).append([{ body: 'kept' }]);
    metastore.holds = (method) => method === 'put';
    const closing = engine.close({ timeoutMillis: 50 });
    const code = codeOf(closing);
    await new Promise((resolve) => setTimeout(resolve, 100));
    metastore.release();
    expect(await code).toBe('DEADLINE_EXCEEDED');
    const next = await world.open({ copyQuorum: 1 });
    open.push(next);
    const found: string[] = [];
    for await (const { body } of (await next.open('orders')).read()) {
      found.push(Buffer.from(body).toString());
    }
    expect(found).toEqual(['kept']);
  });
});

describe('B a slow checkpoint', () => {
  test('makes appends wait, never fail before their deadline; the stall is a metric', async () => {
    const { world, metastore } = gatedWorld();
    const engine = await world.open({ copyQuorum: 1, checkpointLagSlots: 16, absorbMillis: 1 });
    open.push(engine);
    await engine.recovered();
    const stream = await engine.open('orders');
    metastore.holds = (method, key) => method === 'put' && !key.startsWith('stars/');
    const acks: Promise<unknown>[] = [];
    for (let i = 0; i < 40; i++) {
      acks.push(stream.append([{ body: `${i}` }], { timeoutMillis: 20_000 }));
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await eventually(() => expect(metastore.held).toBeGreaterThan(0));
    await eventually(() => {
      expect(engine.metrics().gauges['checkpoint.stallMillis']).toBeGreaterThan(0);
    });
    expect((await engine.status({ timeoutMillis: 1_000 })).next).toBe(16);
    metastore.release();
    await Promise.all(acks);
    const { gauges, histograms } = engine.metrics();
    expect(gauges['checkpoint.stallMillis']).toBe(0);
    expect(histograms['checkpoint.stallMillis']!.count).toBeGreaterThan(0);
  });
});

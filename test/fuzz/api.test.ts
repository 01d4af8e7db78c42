/** Through the public door: whatever callers in plain JavaScript pass, they get an answer or a coded error. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as asterlog from '../../src/index.ts';
import { EngineError, type Engine, type Stream } from '../../src/index.ts';
import { Prng } from '../../src/lib/prng.ts';
import { oddArguments } from './odd-values.ts';

const CASES = 200;
const components = asterlog.memoryComponents({ id: 'fuzz-api' });
const signal = new AbortController().signal;
/** Calls that wait for what never comes give up soon. */
const settings = { defaultTimeoutMillis: 2_000, star: 'fuzz' };
let engine: Engine;
let stream: Stream;

beforeAll(async () => {
  engine = await asterlog.createEngine({ components, settings });
  stream = await engine.open('orders');
});
afterAll(() => engine.close());

type Args<F extends (...args: never[]) => unknown> = Parameters<F>;
type Call = (...args: never[]) => unknown;

const wait = { signal, timeoutMillis: 500 };
const read = { from: 0, limit: 1, ...wait };
const append = { matchSeqNum: 0, fencingToken: '', ...wait };
const record = { body: 'x', headers: [['name', 'value']], timestamp: 5 };

async function drained(reader: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of reader) return;
}

const CALLS: Readonly<Record<string, readonly [call: Call, seed: readonly unknown[]]>> = {
  createEngine: [closing(asterlog.createEngine), [{ components, settings: { star: 'other' } }]],
  openReader: [closing(asterlog.openReader), [{ components, settings: { star: 'fuzz' } }]],
  memoryComponents: [asterlog.memoryComponents, [{ buckets: 3 }]],
  directoryComponents: [asterlog.directoryComponents, [{ root: './never-made', buckets: 3 }]],
  'engine.open': [
    (...args: Args<Engine['open']>) => engine.open(...args),
    ['orders', { ...wait, whileHeld: 'refuse' }],
  ],
  'engine.createStream': [
    (...args: Args<Engine['createStream']>) => engine.createStream(...args),
    ['more', { mode: 'any' }, wait],
  ],
  'engine.listStreams': [
    (...args: Args<Engine['listStreams']>) => engine.listStreams(...args),
    [{ prefix: '', limit: 5, ...wait }],
  ],
  'engine.deleteStream': [
    (...args: Args<Engine['deleteStream']>) => engine.deleteStream(...args),
    ['nothing', wait],
  ],
  'engine.handoff': [
    (...args: Args<Engine['handoff']>) => engine.handoff(...args),
    ['nothing', 'other', wait],
  ],
  'engine.recovered': [(...args: Args<Engine['recovered']>) => engine.recovered(...args), [wait]],
  'engine.status': [(...args: Args<Engine['status']>) => engine.status(...args), [wait]],
  'engine.roll': [
    (...args: Args<Engine['roll']>) => engine.roll(...args),
    [{ copyQuorum: 2, window: 8, ...wait }],
  ],
  'stream.submit': [
    (...args: Args<Stream['submit']>) => stream.submit(...args),
    [[record], append],
  ],
  'stream.append': [
    (...args: Args<Stream['append']>) => stream.append(...args),
    [[record], append],
  ],
  'stream.read': [(...args: Args<Stream['read']>) => drained(stream.read(...args)), [read]],
  'stream.checkTail': [(...args: Args<Stream['checkTail']>) => stream.checkTail(...args), [wait]],
  'stream.trim': [(...args: Args<Stream['trim']>) => stream.trim(...args), [0, append]],
  'stream.fence': [(...args: Args<Stream['fence']>) => stream.fence(...args), ['', append]],
};

function closing<T extends { close: () => Promise<void> }>(
  open: (...args: never[]) => Promise<T>,
): Call {
  return async (...args) => {
    const opened = await open(...args);
    await opened.close();
  };
}

test.each(Object.keys(CALLS))(
  '%s',
  async (name) => {
    const [call, seed] = CALLS[name]!;
    const random = new Prng(7);
    for (let number = 0; number < CASES; number++) {
      const args = oddArguments(seed, random) as never[];
      try {
        await call(...args);
      } catch (error) {
        if (EngineError.is(error) && error.code !== 'INTERNAL') continue;
        expect.fail(`${name} case ${number}: ${String((error as Error).stack)}`);
      }
    }
  },
  60_000,
);

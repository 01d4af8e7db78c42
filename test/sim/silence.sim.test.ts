/** Stores that take every request and answer none: each call ends by its deadline or its signal. */
import { describe, expect, it } from 'vitest';
import type { Stream } from '../../src/engine/api.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { WaitOptions } from '../../src/lib/wait.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { play, type Running, type Scenario } from './scenario.ts';

interface Case {
  readonly running: Running;
  readonly stream: Stream;
}

const one = [{ body: 'x' }];

async function readAll(stream: Stream, options: WaitOptions): Promise<void> {
  for await (const { seqNum } of stream.read({ from: 0, ...options })) expect(seqNum).toBe(0);
}

/** Every call of the library that waits for a store. */
const CALLS: Record<string, (at: Case, wait: WaitOptions) => Promise<unknown>> = {
  'open a new stream': ({ running }, wait) => running.engine.open('new', wait),
  'open a stream that was handed away': ({ running }, wait) => running.engine.open('given', wait),
  createStream: ({ running }, wait) => running.engine.createStream('new', {}, wait),
  listStreams: ({ running }, wait) => running.engine.listStreams(wait),
  deleteStream: ({ running }, wait) => running.engine.deleteStream('s', wait),
  roll: ({ running }, wait) => running.engine.roll(wait),
  handoff: ({ running }, wait) => running.engine.handoff('s', 'b', wait),
  drain: ({ running }, wait) => running.engine.drain(wait),
  append: ({ stream }, wait) => stream.append(one, wait),
  checkTail: ({ stream }, wait) => stream.checkTail(wait),
  trim: ({ stream }, wait) => stream.trim(0, wait),
  fence: ({ stream }, wait) => stream.fence('token', wait),
  read: ({ stream }, wait) => readAll(stream, wait),
  'close a stream': ({ stream }, wait) => stream.close(wait),
  'close the engine': ({ running }, wait) => running.engine.close(wait),
};

const SILENT: Record<string, (scenario: Scenario, gate: Gate) => void> = {
  metastore: ({ world }, requestGate) => {
    world.metaScript.add({ process: 'a.1', times: 1e6, fate: { kind: 'pass', requestGate } });
  },
  buckets: ({ world }, requestGate) => {
    world.bucketScript.add({ process: 'a.1', times: 1e6, fate: { kind: 'pass', requestGate } });
  },
};

async function ready(scenario: Scenario): Promise<Case> {
  const running = await scenario.start('a');
  await scenario.start('b');
  await (await scenario.open(running, 'given')).append(one);
  await running.engine.handoff('given', 'b', { timeoutMillis: 10_000 });
  const stream = await scenario.open(running, 's');
  await scenario.append(running, stream);
  return { running, stream };
}

/** Who closes an engine waits for the end of its lease besides, which may take two seconds. */
const endsWithinMillis = (call: string): number => (call === 'close the engine' ? 2_400 : 400);

async function failureOf(call: Promise<unknown>): Promise<EngineError | undefined> {
  const error: unknown = await call.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (error === undefined || EngineError.is(error)) return error;
  throw new Error('no engine error', { cause: error });
}

const cases = Object.keys(SILENT).flatMap((store) =>
  Object.keys(CALLS).map((call) => [store, call] as const),
);

describe('with stores that do not answer', () => {
  it.each(cases)('%s: %s ends by its deadline', async (store, call) => {
    await play({}, async (scenario) => {
      const at = await ready(scenario);
      const gate = new Gate(scenario.world.scheduler, 'silence');
      SILENT[store]!(scenario, gate);
      const { clock } = scenario.harness;
      const from = clock.monotonic();
      const error = await failureOf(CALLS[call]!(at, { timeoutMillis: 300 }));
      // Some need nothing of the silent store.
      if (error !== undefined) expect(error).toMatchObject({ retryable: true });
      expect(clock.monotonic() - from).toBeLessThan(endsWithinMillis(call));
      gate.open();
    });
  });

  it.each(cases)('%s: %s ends by its signal', async (store, call) => {
    await play({}, async (scenario) => {
      const at = await ready(scenario);
      const gate = new Gate(scenario.world.scheduler, 'silence');
      SILENT[store]!(scenario, gate);
      const { clock } = scenario.harness;
      const from = clock.monotonic();
      const caller = new AbortController();
      const answered = failureOf(CALLS[call]!(at, { signal: caller.signal }));
      await scenario.wait(100);
      caller.abort();
      const error = await answered;
      // Some need nothing of the silent store, and were answered before.
      if (error?.code !== 'ABORTED') expect(error?.retryable ?? true).toBe(true);
      expect(clock.monotonic() - from).toBeLessThan(200);
      gate.open();
    });
  });
});

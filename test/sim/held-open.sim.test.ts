/** Opens of a stream that another star leads: refused or waiting, never for ever without being seen. */
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/lib/errors.ts';
import { play, type Running, type Scenario } from './scenario.ts';

async function errorOf(promise: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!EngineError.is(error)) throw new Error('the call did not fail with an error of ours');
  return error;
}

async function leader(scenario: Scenario): Promise<Running> {
  const a = await scenario.start('a');
  await scenario.append(a, await scenario.open(a, 's'));
  return a;
}

describe('an open of a stream that a live star leads', () => {
  it('is refused at once: who leads, and when to ask again', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario);
      const b = await scenario.start('b');
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      const error = await errorOf(b.engine.open('s', { timeoutMillis: 60_000 }));
      expect(scheduler.time - begun).toBeLessThan(100);
      expect(error).toMatchObject({ code: 'STREAM_HELD', retryable: true, sideEffects: 'none' });
      const { incarnation } = await a.engine.status();
      expect(error.details).toMatchObject({ name: 's', star: 'a', epoch: 0, incarnation });
      expect(error.retryAfterMillis).toBeGreaterThanOrEqual(250);
      expect(error.retryAfterMillis).toBeLessThanOrEqual(1_000);
    });
  });

  it('is shown for as long as somebody asks, with its beginning', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario);
      const b = await scenario.start('b');
      for (let i = 0; i < 40; i++) {
        await errorOf(b.engine.open('s'));
        await scenario.wait(1_000);
      }
      const [deferred] = (await b.engine.status()).deferred;
      expect(deferred).toMatchObject({ name: 's', code: 'STREAM_HELD', star: 'a', refusals: 40 });
      const { gauges } = b.process.metrics.snapshot();
      expect(gauges['open.deferred']).toBe(1);
      expect(gauges['open.deferredOldestMillis']).toBeGreaterThan(39_000);
      await (await scenario.open(a, 's')).close();
      await a.engine.close();
      await b.engine.open('s');
      expect((await b.engine.status()).deferred).toEqual([]);
      expect(b.process.metrics.snapshot().gauges['open.deferredOldestMillis']).toBe(0);
    });
  });

  it('is forgotten a minute after the last who asked', async () => {
    await play({}, async (scenario) => {
      await leader(scenario);
      const b = await scenario.start('b');
      await errorOf(b.engine.open('s'));
      await scenario.wait(61_000);
      expect((await b.engine.status()).deferred).toEqual([]);
    });
  });

  it('refuses an unknown way to wait', async () => {
    await play({}, async (scenario) => {
      const b = await scenario.start('b');
      const error = await errorOf(b.engine.open('s', { whileHeld: 'hope' as never }));
      expect(error.code).toBe('INVALID_OPTION');
    });
  });
});

describe('an open that waits while the stream is held', () => {
  const WAIT = { whileHeld: 'wait', timeoutMillis: 60_000 } as const;

  it('goes on as soon as the leader gives the stream back', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const b = await scenario.start('b');
      const opening = b.engine.open('s', WAIT);
      await scenario.wait(10_000);
      expect((await b.engine.status()).deferred).toHaveLength(1);
      await stream.close();
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      expect(await scenario.append(b, await opening)).toMatchObject({ start: 1 });
      expect(scheduler.time - begun).toBeLessThan(1_500);
    });
  });

  it('takes over at once when the lease is ended by a clean close of the star', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario);
      const b = await scenario.start('b');
      const opening = b.engine.open('s', WAIT);
      await scenario.wait(5_000);
      void a.engine.kill();
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      expect(await scenario.append(b, await opening)).toMatchObject({ start: 1 });
      expect(scheduler.time - begun).toBeLessThan(500);
    });
  });

  it('notices the death of a process of its host within half a second', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario);
      const process = scenario.world.spawn('b', { host: 'host-of-a' });
      const b = { process, engine: await scenario.openIn(process, 'b') };
      const opening = b.engine.open('s', WAIT);
      await scenario.wait(5_000);
      a.process.crash();
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      expect(await scenario.append(b, await opening)).toMatchObject({ start: 1 });
      expect(scheduler.time - begun).toBeLessThan(750);
    });
  });

  it('notices a silent star elsewhere when its lease has run out, counted from its last beat', async () => {
    await play({}, async (scenario) => {
      const a = await leader(scenario);
      const b = await scenario.start('b');
      await scenario.wait(5_000);
      a.process.crash();
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      expect(await scenario.append(b, await b.engine.open('s', WAIT))).toMatchObject({ start: 1 });
      // 2 s x 1.1 + 0.5 s after the last beat, which came at most 0.4 s before the death.
      expect(scheduler.time - begun).toBeLessThan(3_300);
      expect(scheduler.time - begun).toBeGreaterThan(1_700);
    });
  });

  it('answers who leads when its deadline passes, and ends with its signal', async () => {
    await play({}, async (scenario) => {
      await leader(scenario);
      const b = await scenario.start('b');
      const { scheduler } = scenario.world;
      const begun = scheduler.time;
      const late = await errorOf(b.engine.open('s', { whileHeld: 'wait', timeoutMillis: 3_000 }));
      expect(late).toMatchObject({ code: 'STREAM_HELD', details: { star: 'a' } });
      expect(scheduler.time - begun).toBeGreaterThanOrEqual(2_900);
      expect(scheduler.time - begun).toBeLessThan(3_300);
      const controller = new AbortController();
      const opening = errorOf(b.engine.open('s', { ...WAIT, signal: controller.signal }));
      await scenario.wait(700);
      controller.abort();
      expect((await opening).code).toBe('ABORTED');
    });
  });
});

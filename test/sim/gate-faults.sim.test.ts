/** The open gate under faults: openers that meet at every step, openers that die at every step. */
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/lib/errors.ts';
import { othersBlind } from './lies.ts';
import { creates, play, Scenario, type Running } from './scenario.ts';

const MINUTES_MAX = 3 * 60_000;

type Beginning = 'fresh' | 'released' | 'abandoned';

/** A stream as its last leader left it, with a record that was acknowledged and one that was not. */
async function begin(scenario: Scenario, beginning: Beginning): Promise<void> {
  const a = await scenario.start('a');
  if (beginning === 'fresh') {
    await a.engine.createStream('s');
    return;
  }
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  if (beginning === 'released') {
    await stream.close();
    return;
  }
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    target: 'bucket-2',
    fate: { kind: 'lost-request' },
  });
  void scenario.append(a, stream, { records: 2 });
  await scenario.wait(4);
  a.process.crash();
}

async function open(scenario: Scenario, star: string, host: string): Promise<Running> {
  const process = scenario.world.spawn(star, { host });
  return { process, engine: await scenario.openIn(process, star) };
}

/** Opens once; refused when another star has the stream or is just taking it. */
async function tryOpen(scenario: Scenario, running: Running): Promise<'led' | 'refused'> {
  try {
    const stream = await running.engine.open('s', { timeoutMillis: 20_000 });
    expect(await scenario.append(running, stream)).toMatchObject({ kind: 'appended' });
    return 'led';
  } catch (error) {
    if (!EngineError.is(error) || !error.retryable) throw error;
    return 'refused';
  }
}

describe('two stars that open at once', () => {
  for (const beginning of ['fresh', 'released', 'abandoned'] as const) {
    it(
      `one leads, the other is refused, wherever either is held up: ${beginning}`,
      async () => {
        const seen = new Set<string>();
        for (const slow of ['b.1', 'c.1']) {
          for (let step = 0; step < 14; step++) {
            await play({ seed: step + 1 }, async (scenario) => {
              await begin(scenario, beginning);
              const b = await open(scenario, 'b', 'host-of-a');
              const c = await open(scenario, 'c', 'host-of-a');
              const fate = { kind: 'pass', requestMillis: 3, responseMillis: 40 } as const;
              const rule = { process: slow, skip: step, times: 2 };
              scenario.world.metaScript.add({ ...rule, key: /^(names|streams|chains)/, fate });
              const [one, two] = await Promise.all([tryOpen(scenario, b), tryOpen(scenario, c)]);
              seen.add(`${one} ${two}`);
              expect([one, two].sort()).toEqual(['led', 'refused']);
            });
          }
        }
        // Both orders were reached; which one is up to the delays.
        expect([...seen].some((outcome) => outcome.startsWith('led'))).toBe(true);
        expect([...seen].some((outcome) => outcome.endsWith('led'))).toBe(true);
      },
      MINUTES_MAX,
    );
  }
});

describe('an opener that dies', () => {
  /** Runs the open of b, which dies at its n-th call of that kind; false when it made fewer. */
  async function dieAt(
    kind: 'metastore' | 'bucket write',
    step: number,
    when: 'before' | 'after',
  ): Promise<boolean> {
    let died = false;
    await play({ seed: step + 1 }, async (scenario) => {
      await begin(scenario, 'abandoned');
      const b = await open(scenario, 'b', 'host-of-a');
      const c = await open(scenario, 'c', 'host-of-a');
      const die = <T>(fate: T) => {
        return (): T => {
          died = true;
          // In a turn of its own: the call has left the process by then.
          scenario.world.scheduler.schedule(0, 'death', () => b.process.crash());
          return fate;
        };
      };
      const rule = { process: b.process.name, skip: step };
      if (kind === 'metastore') {
        const fate = die({ kind: when === 'before' ? 'never' : 'lost-response' } as const);
        scenario.world.metaScript.add({ ...rule, key: /^(names|streams|chains|stars.a)/, fate });
      } else {
        const fate = die({ kind: when === 'before' ? 'lost-request' : 'lost-response' } as const);
        scenario.world.bucketScript.add({ ...rule, op: 'createOnly', fate });
      }
      const opening = b.engine.open('s').catch(() => undefined);
      await Promise.race([opening, b.process.death]);
      if (!died) b.process.crash();
      const stream = await scenario.open(c, 's');
      const appended = await scenario.append(c, stream);
      // One record was acknowledged; the two of the other batch are there or not.
      expect(appended.kind === 'appended' ? appended.start : -1).toBeGreaterThanOrEqual(1);
      expect(await scenario.checkTail(c, stream)).toMatchObject({ kind: 'tail' });
    });
    return died;
  }

  it.each(['before', 'after'] as const)(
    '%s each call of the metastore leaves nothing that the next one cannot finish',
    async (when) => {
      let step = 0;
      while (await dieAt('metastore', step, when)) step++;
      expect(step).toBeGreaterThan(10);
    },
    MINUTES_MAX,
  );

  it.each(['before', 'after'] as const)(
    '%s each write to a bucket leaves nothing that the next one cannot finish',
    async (when) => {
      let step = 0;
      while (await dieAt('bucket write', step, when)) step++;
      expect(step).toBeGreaterThan(1);
    },
    MINUTES_MAX,
  );
});

describe('a star that a successor of one of its streams has fenced', () => {
  it('keeps all its other streams, and loses exactly the one that moved', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      const names = ['moved', 'busy', 'quiet', 'empty'];
      const streams = [];
      for (const name of names) streams.push(await scenario.open(a, name));
      const [moved, busy, quiet, empty] = streams;
      for (const stream of [moved!, busy!, quiet!]) await scenario.append(a, stream);
      const load = Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          await scenario.wait(index * 5);
          return scenario.append(a, busy!);
        }),
      );
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 'moved');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      for (const { kind } of await load) expect(kind).toBe('appended');
      expect(await scenario.append(a, moved!)).toMatchObject({ kind: 'failed', code: 'FENCED' });
      for (const [stream, start] of [
        [busy!, 31],
        [quiet!, 1],
        [empty!, 0],
      ] as const) {
        expect(await scenario.checkTail(a, stream)).toMatchObject({ tail: start });
        expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended', start });
      }
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
    });
  });
});

describe('a metastore that answers from the past', () => {
  it('makes no leader answer an old tail: it halts, its stream is led elsewhere', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const b = await scenario.start('b');
      scenario.world.metastore.isolate(a.process.name);
      const tails: Promise<unknown>[] = [];
      for (let i = 0; i < 20; i++) {
        tails.push(scenario.checkTail(a, stream, 30_000));
        await scenario.wait(100);
      }
      const taken = await b.engine.open('s', { whileHeld: 'wait', timeoutMillis: 30_000 });
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      // The checkers of histories watch that none of these is older than the append.
      for (let i = 0; i < 20; i++) {
        tails.push(scenario.checkTail(a, stream, 30_000));
        await scenario.wait(50);
      }
      scenario.world.metastore.rejoin(a.process.name);
      await Promise.all(tails);
      expect(await scenario.append(a, stream)).toMatchObject({ kind: 'failed', code: 'FENCED' });
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
    });
  });
});

it('an opener whose claim lost judges what won, however old its reads are', async () => {
  await play({}, async (scenario) => {
    const [a, b] = [await scenario.start('a'), await scenario.start('b')];
    await (await scenario.open(a, 's')).close();
    await scenario.append(a, await scenario.open(a, 's'));
    const { metaScript } = scenario.world;
    const puts = metaScript.add({
      process: 'b.1',
      op: 'put',
      key: /writer$/,
      times: 1e6,
      fate: { kind: 'pass' },
    });
    metaScript.add({
      process: 'b.1',
      op: 'get',
      key: /writer$/,
      times: 1e6,
      // As it was before the stream was led again.
      fate: { kind: 'pass', staleMillis: scenario.world.scheduler.time },
    });
    await expect(b.engine.open('s', { timeoutMillis: 10_000 })).rejects.toMatchObject({
      code: 'STREAM_HELD',
      details: { star: 'a' },
    });
    expect(puts.hits).toBe(1);
  });
});

/** Engines that forward to each other, on virtual time and under all checkers. */
import { describe, expect, it } from 'vitest';
import type { Stream } from '../../src/engine/api.ts';
import type { Outcome } from './operations.ts';
import { play, type Running, type Scenario } from './scenario.ts';

interface Pair {
  readonly leader: Running;
  readonly follower: Running;
  readonly stream: Stream;
}

/** A leader of stream `s` in process `a`, and a handle of it in process `b`. */
async function pair(scenario: Scenario): Promise<Pair> {
  const leader = await scenario.start('a');
  await scenario.open(leader, 's');
  const follower = await scenario.start('b');
  const stream = await scenario.open(follower, 's');
  return { leader, follower, stream };
}

/** Appends one after the other, so many at a time, while the script does what it does. */
function load(scenario: Scenario, { follower, stream }: Pair, count: number) {
  const outcomes: Promise<Outcome>[] = [];
  const done = (async (): Promise<Outcome[]> => {
    for (let index = 0; index < count; index++) {
      outcomes.push(scenario.append(follower, stream, { timeoutMillis: 20_000 }));
      await scenario.wait(1);
    }
    return Promise.all(outcomes);
  })();
  return done;
}

const kinds = (outcomes: readonly Outcome[]): Set<string> =>
  new Set(outcomes.map(({ kind }) => kind));

const SEEDS = Array.from({ length: 12 }, (_, index) => index + 1);

describe.each(SEEDS)('seed %s', (seed) => {
  it('a leader dies under forwarded batches: what was answered is there, the rest goes on', async () => {
    await play({ seed, listens: true }, async (scenario) => {
      const both = await pair(scenario);
      const appending = load(scenario, both, 60);
      await scenario.wait(10 + 3 * seed);
      both.leader.process.crash();
      const outcomes = await appending;
      expect(outcomes.at(-1)!.kind).toBe('appended');
      expect([...kinds(outcomes)].sort().join()).toMatch(/^appended(,indeterminate)?$/);
      const { engine } = both.follower;
      expect((await engine.status()).openStreams).toMatchObject([{ name: 's' }]);
      await scenario.checkTail(both.follower, both.stream);
    });
  });

  it('a leader that was paused wakes up after the follower has taken over', async () => {
    await play({ seed, listens: true }, async (scenario) => {
      const both = await pair(scenario);
      const appending = load(scenario, both, 40);
      await scenario.wait(10 + 2 * seed);
      both.leader.process.pause();
      const outcomes = await appending;
      // Whatever was sent to the sleeper is indeterminate at its deadline.
      expect(kinds(outcomes).has('failed')).toBe(false);
      const next = await scenario.append(both.follower, both.stream);
      expect(next.kind).toBe('appended');
      both.leader.process.wake();
      await scenario.wait(5_000);
      expect((await scenario.append(both.follower, both.stream)).kind).toBe('appended');
      await scenario.checkTail(both.follower, both.stream);
    });
  });

  it('a leader that closes answers everything: nothing is indeterminate', async () => {
    await play({ seed, listens: true }, async (scenario) => {
      const both = await pair(scenario);
      const appending = load(scenario, both, 60);
      await scenario.wait(10 + 3 * seed);
      await both.leader.engine.close();
      const outcomes = await appending;
      expect([...kinds(outcomes)]).toEqual(['appended']);
    });
  });
});

it('the same seed has the same history', async () => {
  const hash = async (): Promise<string> => {
    const { world } = await play({ seed: 5, listens: true }, async (scenario) => {
      const both = await pair(scenario);
      const appending = load(scenario, both, 30);
      await scenario.wait(20);
      both.leader.process.crash();
      await appending;
    });
    return world.scheduler.history.hash;
  };
  expect(await hash()).toBe(await hash());
});

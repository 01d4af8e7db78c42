/** One small life of a leader, ended at every single step of it: nothing acknowledged is ever lost. */
import { expect, it } from 'vitest';
import { History } from '../../src/testing/history.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import { play } from './scenario.ts';

/** Kills a process right before the event of one step; counts steps from the birth of the process. */
class Executioner extends History {
  victim: SimulatedProcess | undefined;
  steps = 0;
  readonly #at: number;

  constructor(at: number) {
    super({ keepLines: 200 });
    this.#at = at;
  }

  /** The scheduler mixes in the time of every event before it runs. */
  override mixNumber(value: number): void {
    super.mixNumber(value);
    if (this.victim === undefined || this.victim.state === 'dead') return;
    this.steps++;
    if (this.steps === this.#at) this.victim.crash();
  }
}

/** Starts, opens, appends, closes; answers how many steps that took, or until it died. */
async function lifeUntil(step: number): Promise<{ steps: number; acknowledged: number }> {
  const history = new Executioner(step);
  let acknowledged = 0;
  let steps = 0;
  await play({ history, settings: { absorbMillis: 5 } }, async (scenario) => {
    const process = scenario.world.spawn('a');
    history.victim = process;
    const live = async (): Promise<void> => {
      const a = { process, engine: await scenario.openIn(process, 'a') };
      const stream = await scenario.open(a, 's');
      const outcomes = await scenario.appendMany(a, stream, 2);
      acknowledged = outcomes.filter(({ kind }) => kind === 'appended').length;
      await stream.close();
      await a.engine.close();
    };
    await Promise.race([live(), process.death]);
    steps = history.steps;
    process.crash();
    const b = await scenario.start('b');
    const taken = await scenario.open(b, 's');
    const next = await scenario.append(b, taken);
    if (next.kind !== 'appended') throw new Error(`step ${step}: ${next.kind}`);
    expect(next.start).toBeGreaterThanOrEqual(acknowledged);
    expect(next.start).toBeLessThanOrEqual(2);
  });
  return { steps, acknowledged };
}

it(
  'a leader may die at every step of its life (M2, T2)',
  async () => {
    const whole = await lifeUntil(Number.POSITIVE_INFINITY);
    expect(whole.acknowledged).toBe(2);
    expect(whole.steps).toBeGreaterThan(80);
    for (let step = 1; step <= whole.steps; step++) await lifeUntil(step);
  },
  10 * 60_000,
);

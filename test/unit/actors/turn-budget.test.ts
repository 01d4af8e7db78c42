import { describe, expect, it } from 'vitest';
import { TurnBudget } from '../../../actors/turn-budget.ts';
import type { Clock } from '../../../src/lib/clock.ts';

const KIB = 1024;

function budget(): { turns: TurnBudget; turn: () => void; scheduled: number; begun: number } {
  const queue: (() => void)[] = [];
  const world = {
    scheduled: 0,
    begun: 0,
    turn: () => {
      for (const run of queue.splice(0)) run();
    },
  };
  const clock = {
    setImmediate: (run: () => void) => {
      world.scheduled++;
      queue.push(run);
    },
  } as unknown as Clock;
  const turns = new TurnBudget(clock, () => {
    world.begun++;
  });
  return Object.assign(world, { turns });
}

describe('TurnBudget', () => {
  it('asks for no turn before it is spent', async () => {
    const world = budget();
    world.turns.spend(255 * KIB);
    expect(world.turns.isSpent).toBe(false);
    await world.turns.next();
    expect(world.scheduled).toBe(0);
  });

  it('is spent until the next turn, for everybody, and asks for that turn once', async () => {
    const world = budget();
    world.turns.spend(200 * KIB);
    world.turns.spend(56 * KIB);
    world.turns.spend(900 * KIB);
    expect(world.turns.isSpent).toBe(true);
    const resumed: string[] = [];
    const waits = ['a', 'b'].map((name) => world.turns.next().then(() => resumed.push(name)));
    await Promise.resolve();
    expect(resumed).toEqual([]);
    world.turn();
    await Promise.all(waits);
    expect(resumed).toEqual(['a', 'b']);
    expect(world.turns.isSpent).toBe(false);
    expect([world.scheduled, world.begun]).toEqual([1, 1]);
  });
});

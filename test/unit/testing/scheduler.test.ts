import { describe, expect, it } from 'vitest';
import { sleep } from '../../../src/lib/wait.ts';
import { SimulationFailure } from '../../../src/testing/simulation-failure.ts';
import { Scheduler, type EventOwner } from '../../../src/testing/scheduler.ts';
import { VirtualClock } from '../../../src/testing/virtual-clock.ts';

function owner(name = 'p'): { name: string; state: EventOwner['state'] } {
  return { name, state: 'running' };
}

describe('Scheduler', () => {
  it('runs events in the order of their times, whatever order they came in', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const seen: number[] = [];
    for (const at of [5, 1, 3, 2, 4, 0]) scheduler.schedule(at, 'x', () => seen.push(at));
    await expect(scheduler.run()).resolves.toBe('idle');
    expect(seen).toEqual([0, 1, 2, 3, 4, 5]);
    expect(scheduler.time).toBe(5);
  });

  it('keeps a thousand events in order', async () => {
    const scheduler = new Scheduler({ seed: 9 });
    const prng = scheduler.prng('times');
    const seen: number[] = [];
    const events = Array.from({ length: 1000 }, () => {
      const at = prng.below(200);
      return scheduler.schedule(at, 'x', () => seen.push(at));
    });
    for (const event of events.filter((_, index) => index % 3 === 0)) scheduler.cancel(event);
    expect(scheduler.pending).toBe(666);
    await scheduler.run();
    expect(seen).toHaveLength(666);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });

  it('draws the order of what is due at one time from the seed', async () => {
    const orderOf = async (seed: number): Promise<string> => {
      const scheduler = new Scheduler({ seed });
      let order = '';
      for (const name of 'abcdef') scheduler.schedule(1, 'x', () => (order += name));
      await scheduler.run();
      return order;
    };
    const orders = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const order = await orderOf(seed);
      expect(await orderOf(seed)).toBe(order);
      orders.add(order);
    }
    expect(orders.size).toBeGreaterThan(15);
  });

  it('lets everything that follows from an event happen before the next one', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const seen: string[] = [];
    scheduler.schedule(1, 'a', () => {
      void (async () => {
        for (let i = 0; i < 50; i++) await Promise.resolve();
        seen.push('a');
      })();
    });
    scheduler.schedule(1.001, 'b', () => seen.push('b'));
    await scheduler.run();
    expect(seen).toEqual(['a', 'b']);
  });

  it('holds the events of a paused process back, in order, and forgets those of a dead one', async () => {
    const scheduler = new Scheduler({ seed: 3 });
    const process = owner();
    const seen: string[] = [];
    const cancelled = scheduler.schedule(2, 'x', () => seen.push('cancelled'), process);
    for (const name of 'abc')
      scheduler.schedule(name.charCodeAt(0), name, () => seen.push(name), process);
    scheduler.schedule(1, 'pause', () => (process.state = 'paused'));
    scheduler.schedule(50, 'cancel', () => {
      scheduler.cancel(cancelled);
    });
    scheduler.schedule(500, 'wake', () => {
      seen.push('wake');
      process.state = 'running';
      scheduler.release(process);
    });
    scheduler.schedule(600, 'kill', () => (process.state = 'dead'));
    scheduler.schedule(700, 'x', () => seen.push('after death'), process);
    await scheduler.run();
    expect(seen).toEqual(['wake', 'a', 'b', 'c']);
  });

  it('stops at its limits with the seed and the command to see it again', async () => {
    const scheduler = new Scheduler({ seed: 42, maxSteps: 10 });
    const again = (): void => {
      scheduler.note('again');
      scheduler.schedule(1, 'again', again);
    };
    again();
    const failure = await scheduler.run().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(SimulationFailure);
    expect((failure as Error).message).toMatch(
      /step-limit: .*\nseed=42 .*\nreplay: npm run sim -- --from 42 --seeds 1/,
    );
    expect((failure as SimulationFailure).trace.at(-1)).toBe('10.000 again');
    const long = new Scheduler({ seed: 1, maxMillis: 5 });
    long.schedule(6, 'late', () => undefined);
    await expect(long.run()).rejects.toThrow('time-limit');
  });

  it('reports a rule that an event found broken', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    scheduler.schedule(1, 'x', () => {
      scheduler.fail('A1', 'first');
      scheduler.fail('A2', 'second');
    });
    await expect(scheduler.run()).rejects.toThrow('A1: first');
  });

  it('has one hash for one seed', async () => {
    const hashOf = async (seed: number): Promise<string> => {
      const scheduler = new Scheduler({ seed });
      const clock = new VirtualClock(scheduler);
      const prng = scheduler.prng('work');
      const work = async (name: string): Promise<void> => {
        for (let i = 0; i < 20; i++) {
          await sleep(clock, prng.below(5));
          scheduler.note(`${name} ${i}`);
        }
      };
      void Promise.all(['a', 'b', 'c'].map(work));
      await scheduler.run();
      return scheduler.history.hash;
    };
    expect(await hashOf(7)).toBe(await hashOf(7));
    expect(await hashOf(7)).not.toBe(await hashOf(8));
  });

  it('gives each purpose numbers of its own', () => {
    const scheduler = new Scheduler({ seed: 5 });
    expect(scheduler.prng('a').hex(8)).toBe(scheduler.prng('a').hex(8));
    expect(scheduler.prng('a').hex(8)).not.toBe(scheduler.prng('b').hex(8));
    expect(new Scheduler({ seed: 6 }).prng('a').hex(8)).not.toBe(scheduler.prng('a').hex(8));
  });
});

describe('VirtualClock', () => {
  it('sleeps without time passing outside', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new VirtualClock(scheduler, { monotonicMillis: 10 });
    let woke = false;
    void sleep(clock, 3_600_000).then(() => (woke = true));
    await scheduler.run(() => woke);
    expect(clock.monotonic()).toBe(3_600_010);
    expect(clock.now()).toBe(1_700_003_600_000);
  });

  it('steps its wall clock and leaves the monotonic one alone', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new VirtualClock(scheduler, { wallMillis: 1_000_000 });
    await scheduler.runFor(10);
    clock.stepWall(-500_000);
    expect(clock.now()).toBe(500_010);
    expect(clock.monotonic()).toBe(10);
  });

  it('runs fast or slow by its rate', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new VirtualClock(scheduler, { rate: 2 });
    let at = 0;
    clock.setTimeout(() => (at = scheduler.time), 100);
    await scheduler.run();
    expect(at).toBe(50);
    expect(clock.monotonic()).toBe(100);
  });

  it('clears timers, and runs an immediate after what is due', async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const clock = new VirtualClock(scheduler);
    const seen: string[] = [];
    clock.setImmediate(() => seen.push('immediate'));
    clock.setTimeout(() => seen.push('timer'), 0);
    clock.clearTimeout(clock.setTimeout(() => seen.push('cleared'), 0));
    await scheduler.run();
    expect(seen).toEqual(['timer', 'immediate']);
  });
});

import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/adapters/system/clock.ts';
import { spawnTypeScript } from '../../../support/child-process.ts';

const WAITER = new URL('./waiter.process.ts', import.meta.url);

describe('systemClock', () => {
  const clock = systemClock();

  it('reads wall time and a monotonic clock', () => {
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000);
    const before = clock.monotonic();
    expect(clock.monotonic()).toBeGreaterThanOrEqual(before);
  });

  it('never runs a timer early by its own monotonic clock', async () => {
    const waits = Array.from({ length: 200 }, (_, i) => (i % 20) + i / 200);
    const early = await Promise.all(
      waits.map(
        (millis) =>
          new Promise<number>((resolve) => {
            const dueAt = clock.monotonic() + millis;
            clock.setTimeout(() => resolve(dueAt - clock.monotonic()), millis);
          }),
      ),
    );
    expect(Math.max(...early)).toBeLessThanOrEqual(0);
  });

  it('does not run what was cleared, and takes any handle', async () => {
    let ran = false;
    clock.clearTimeout(
      clock.setTimeout(() => {
        ran = true;
      }, 1),
    );
    clock.clearTimeout(17);
    await new Promise<void>((resolve) => {
      clock.setTimeout(resolve, 20);
    });
    expect(ran).toBe(false);
  });

  it('waits when the wait is longer than a timer of Node can be', async () => {
    let ran = false;
    const handles = [2 ** 31, 2 ** 40, Number.POSITIVE_INFINITY].map((millis) =>
      clock.setTimeout(() => {
        ran = true;
      }, millis),
    );
    await new Promise<void>((resolve) => {
      clock.setTimeout(resolve, 20);
    });
    expect(ran).toBe(false);
    for (const handle of handles) clock.clearTimeout(handle);
  });

  it('refuses a wait that is not a number', () => {
    expect(() => clock.setTimeout(() => undefined, Number.NaN)).toThrow('a wait is a number');
  });

  it('runs immediates in a later turn, behind promises', async () => {
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      clock.setImmediate(() => {
        order.push('immediate');
        resolve();
      });
      void Promise.resolve().then(() => order.push('promise'));
      order.push('now');
    });
    expect(order).toEqual(['now', 'promise', 'immediate']);
  });

  it('keeps the process alive for its waits, unless they are in the background', async () => {
    const [keeping, background] = await Promise.all(
      [
        ['keep-alive', '200'],
        // Far longer than any other thing that may keep a process that has just started.
        ['background', '20000'],
      ].map(async (args) => {
        const child = spawnTypeScript(WAITER, args);
        expect(await child.ended).toEqual({ code: 0, signal: null });
        return child.output().trim();
      }),
    );
    expect([keeping, background]).toEqual(['waited', '']);
  });
});

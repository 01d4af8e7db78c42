import { describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import { sleep, within, type WaitOptions } from '../../../src/lib/wait.ts';
import { ManualClock } from '../../support/manual-clock.ts';

describe('one deadline over all steps of a call', () => {
  it('gives each step what is left of it', async () => {
    const clock = new ManualClock();
    const seen: WaitOptions[] = [];
    const done = within(clock, { timeoutMillis: 100 }, 'call', async ({ left, signal }) => {
      seen.push(left());
      await sleep(clock, 60, signal);
      seen.push(left());
      return 'answer';
    });
    await clock.advance(60);
    expect(await done).toBe('answer');
    expect(seen.map(({ timeoutMillis }) => timeoutMillis)).toEqual([100, 40]);
    expect(clock.pendingCount).toBe(0);
  });

  it('says which deadline passed when a step was given up for it', async () => {
    const clock = new ManualClock();
    const done = within(clock, { timeoutMillis: 100 }, 'release', ({ signal }) =>
      sleep(clock, 1_000, signal),
    );
    done.catch(() => undefined);
    await clock.advance(100);
    await expect(done).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      details: { timeoutMillis: 100 },
    });
  });

  it('leaves the error of a step alone, and that of a caller who gives up', async () => {
    const clock = new ManualClock();
    const broken = new EngineError('DATA_LOSS', 'gone');
    await expect(
      within(clock, { timeoutMillis: 1 }, 'call', () => Promise.reject(broken)),
    ).rejects.toBe(broken);
    const caller = new AbortController();
    const options = { timeoutMillis: 100, signal: caller.signal };
    const done = within(clock, options, 'call', ({ signal }) => sleep(clock, 1_000, signal));
    caller.abort();
    await expect(done).rejects.toMatchObject({ code: 'ABORTED' });
  });

  it('waits as long as it takes without one', async () => {
    const clock = new ManualClock();
    const done = within(clock, {}, 'call', async ({ left, signal }) => {
      await sleep(clock, 1_000_000, signal);
      return left();
    });
    await clock.advance(1_000_000);
    expect(await done).toEqual({ signal: undefined });
  });
});

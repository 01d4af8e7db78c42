import { describe, expect, it } from 'vitest';
import { RoundTripMeter, type Flow } from '../../../src/lib/round-trips.ts';

const trip = (meter: RoundTripMeter): Promise<void> => meter.call(() => Promise.resolve());

describe('RoundTripMeter', () => {
  it('adds what waits for one another and counts what goes out at once only once', async () => {
    const meter = new RoundTripMeter();
    const flow: Flow = { depth: 0 };
    await meter.within(flow, async () => {
      await trip(meter);
      await Promise.all([trip(meter), trip(meter), trip(meter)]);
      await trip(meter);
    });
    expect(flow.depth).toBe(3);
  });

  it('counts pieces that only wait for their turn from where they were begun', async () => {
    const meter = new RoundTripMeter();
    const flow: Flow = { depth: 0 };
    await meter.within(flow, async () => {
      await trip(meter);
      const fork = meter.fork();
      for (let turn = 0; turn < 3; turn++) {
        await fork(async () => {
          await trip(meter);
          await trip(meter);
        });
      }
      await trip(meter);
    });
    expect(flow.depth).toBe(4);
  });

  it('counts failed calls, and calls of other flows not at all', async () => {
    const meter = new RoundTripMeter();
    const [one, other]: Flow[] = [{ depth: 0 }, { depth: 0 }];
    await Promise.all([
      meter.within(one!, async () => {
        await meter.call(() => Promise.reject(new Error('gone'))).catch(() => undefined);
        await trip(meter);
      }),
      meter.within(other!, () => trip(meter)),
      trip(meter),
    ]);
    expect([one!.depth, other!.depth]).toEqual([2, 1]);
  });
});

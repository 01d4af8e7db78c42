/** Outcomes of creations that the writer cannot see, as other systems got them wrong. */
import { describe, expect, it } from 'vitest';
import { slotKey } from '../../src/protocol/keys.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { foreignFlight } from './foreign-flight.ts';
import { creates, play } from './scenario.ts';

describe('a creation whose answer is lost', () => {
  it('is resolved by reading: the retry meets the own flight, and no second slot is used', async () => {
    const { counters, slots } = await play({ buckets: 1 }, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      const rule = scenario.world.bucketScript.add({
        ...creates('flight'),
        fate: { kind: 'lost-response' },
      });
      // The read-back fails as well, so that the creation itself is sent again.
      scenario.world.bucketScript.add({ op: 'readHead', fate: { kind: 'error', status: 503 } });
      expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended', start: 0 });
      expect(rule.hits).toBe(1);
    });
    expect(slots.slotsOf('a', 0).size).toBeLessThanOrEqual(2);
    expect(counters.counts.sameAfterLostResponse).toBe(1);
    expect(counters.counts.roll).toBe(0);
  });

  it('is never taken for an object that is there when the store answers 409', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      const conflicts = scenario.world.bucketScript.add({
        ...creates('flight'),
        target: 'bucket-1',
        times: 4,
        fate: { kind: 'error', status: 409 },
      });
      scenario.world.bucketScript.add({
        ...creates('flight'),
        target: 'bucket-2',
        times: 2,
        fate: { kind: 'error', status: 409 },
      });
      expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended' });
      await scenario.wait(3_000);
      expect(conflicts.hits).toBe(4);
      const flights = scenario.harness.slots.slotsOf('a', 0).get(0);
      expect(flights?.copies.size).toBe(3);
    });
  });

  it('does not make a fencer believe that its poison stands', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.crash();
      const conflicts = scenario.world.bucketScript.add({
        ...creates('poison'),
        times: 3,
        fate: { kind: 'error', status: 409 },
      });
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ kind: 'appended', start: 1 });
      expect(conflicts.hits).toBe(3);
    });
  });
});

describe('a slot that holds another writer’s flight', () => {
  it('is not counted as a copy, and ends the epoch', async () => {
    const { counters } = await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      await scenario.until(
        () => scenario.harness.slots.slotsOf('a', 0).get(0)?.copies.size === 3,
        'the last copy',
      );
      await scenario.world.bucket(0).store.createOnly(slotKey('a', 0, 1), foreignFlight('a', 0, 1));
      expect(await scenario.append(a, stream)).toMatchObject({ kind: 'appended', start: 1 });
    });
    expect(counters.counts.roll).toBe(1);
  });
});

describe('a writer that is killed', () => {
  const moments = [
    { name: 'before any copy', copies: 0 },
    { name: 'between the first and the second copy', copies: 1 },
    { name: 'between the quorum and the acknowledgement', copies: 2 },
    { name: 'with all copies stored', copies: 3 },
  ];
  it.each(moments)('$name leaves one outcome that a successor agrees with', async ({ copies }) => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const { scheduler } = scenario.world;
      const request = new Gate(scheduler, 'never');
      const response = new Gate(scheduler, 'never');
      for (let bucket = 0; bucket < 3; bucket++) {
        const gates = bucket < copies ? { responseGate: response } : { requestGate: request };
        scenario.world.bucketScript.add({
          ...creates('flight'),
          target: `bucket-${bucket}`,
          fate: { kind: 'pass', ...gates },
        });
      }
      const outcome = scenario.append(a, stream);
      await scenario.until(() => response.waiting === copies, 'the copies');
      await scenario.wait(50);
      a.process.crash();
      expect(await outcome).toEqual({ kind: 'indeterminate', code: 'CRASHED' });
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      // One visible copy is completed, none is poisoned.
      expect(await scenario.append(b, taken)).toMatchObject({ start: copies > 0 ? 2 : 1 });
    });
  });
});

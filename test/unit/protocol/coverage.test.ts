import { describe, expect, it } from 'vitest';
import type { FlightEntry } from '../../../src/format/flight.ts';
import { CoveragePlan, endOf, sourceOf, streamOrder } from '../../../src/protocol/coverage.ts';

function flightEntry(streamId: string, firstSeqNum: number, delta?: FlightEntry['delta']) {
  return {
    streamId,
    firstSeqNum,
    count: 2,
    offset: 40,
    length: 30,
    firstTimestamp: 5,
    lastTimestamp: 6,
    checksum: 9,
    ...(delta === undefined ? {} : { delta }),
  };
}

describe('a source entry', () => {
  it('says where the bytes lie in the object', () => {
    const source = sourceOf(flightEntry('x', 7), 3, 216);
    expect(source.span).toEqual({
      seq: 7,
      count: 2,
      slot: 3,
      offset: 256,
      length: 30,
      checksum: 9,
      first: 5,
      last: 6,
    });
    expect(source).not.toHaveProperty('delta');
    expect(endOf(source)).toBe(9);
  });

  it('keeps what the batch changes', () => {
    expect(sourceOf(flightEntry('x', 7, { trimPoint: 3 }), 3, 216).delta).toEqual({ trimPoint: 3 });
  });
});

describe('a coverage plan', () => {
  it('gathers each stream in slot order, whatever the order of reading', () => {
    const plan = new CoveragePlan(10, 13);
    plan.add(12, [flightEntry('b', 2), flightEntry('a', 4)], 216);
    plan.add(10, [flightEntry('a', 0), flightEntry('b', 0)], 216);
    expect(plan.isComplete).toBe(false);
    expect([10, 11, 12].map((slot) => plan.has(slot))).toEqual([true, false, true]);
    plan.add(11, [flightEntry('a', 2)], 216);
    expect(plan.isComplete).toBe(true);
    const streams = plan.byStream();
    expect(streams.get('a')!.map(({ span }) => [span.slot, span.seq])).toEqual([
      [10, 0],
      [11, 2],
      [12, 4],
    ]);
    expect(streams.get('b')!.map(({ span }) => span.slot)).toEqual([10, 12]);
  });

  it('counts a slot once', () => {
    const plan = new CoveragePlan(0, 2);
    plan.add(0, [flightEntry('a', 0)], 216);
    plan.add(0, [flightEntry('a', 0)], 216);
    expect(plan.isComplete).toBe(false);
    plan.add(1, [flightEntry('a', 2)], 216);
    expect(plan.byStream().get('a')).toHaveLength(2);
  });

  it('speaks for no stream before all headers are read', () => {
    const plan = new CoveragePlan(0, 1);
    expect(() => plan.byStream()).toThrow(/all headers/);
    expect(() => plan.add(1, [], 216)).toThrow(/range of its plan/);
    expect(new CoveragePlan(4, 4).byStream().size).toBe(0);
  });
});

describe('the order of streams', () => {
  it('begins at the builder and goes round', () => {
    expect(streamOrder(['c', 'a', 'd', 'b'], 'c')).toEqual(['c', 'd', 'a', 'b']);
    expect(streamOrder(['c', 'a', 'd', 'b'], 'bb')).toEqual(['c', 'd', 'a', 'b']);
    expect(streamOrder(['b', 'a'], 'z')).toEqual(['a', 'b']);
    expect(streamOrder(['b', 'a'], '')).toEqual(['a', 'b']);
    expect(streamOrder([], 'x')).toEqual([]);
  });
});

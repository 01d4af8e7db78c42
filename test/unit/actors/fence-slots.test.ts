import { describe, expect, it } from 'vitest';
import { BucketPatience } from '../../../actors/bucket-patience.ts';
import { inspectCell, printOf } from '../../../actors/slot-inspection.ts';
import { parsePreamble } from '../../../src/format/preamble.ts';
import { CORRUPT, FLIGHT, POISON } from '../../../src/protocol/slot.ts';
import { EPOCH, FenceWorld, STAR } from '../../support/fence-world.ts';

describe('patience with a bucket', () => {
  it('is a second before anything is known, then twice the 99th percentile', () => {
    const patience = new BucketPatience();
    expect(patience.readWaitMillis()).toBe(1_000);
    for (let wave = 0; wave < 20; wave++) patience.noteRead(100);
    expect(patience.readWaitMillis()).toBeGreaterThanOrEqual(200);
    expect(patience.readWaitMillis()).toBeLessThan(250);
  });

  it('never exceeds a second, and is never shorter than timers are exact', () => {
    const slow = new BucketPatience();
    for (let wave = 0; wave < 20; wave++) slow.noteRead(5_000);
    expect(slow.readWaitMillis()).toBe(1_000);
    const fast = new BucketPatience();
    for (let wave = 0; wave < 20; wave++) fast.noteRead(0.01);
    expect(fast.readWaitMillis()).toBe(20);
  });

  it('gives bodies a second more for each MiB', () => {
    expect(new BucketPatience().writeWaitMillis(4 * 2 ** 20)).toBe(5_000);
  });

  it('ends with a wave that waited in vain and returns with any answer', () => {
    const patience = new BucketPatience();
    expect(patience.isOverdue).toBe(false);
    patience.noteOverdue();
    expect(patience.isOverdue).toBe(true);
    patience.noteAnswer();
    expect(patience.isOverdue).toBe(false);
  });
});

describe('inspection of a slot object', () => {
  const world = new FenceWorld();
  const expected = { star: STAR, epoch: EPOCH, slot: 5, nonce: world.nonce };
  const inspect = (bytes: Uint8Array, sizeBytes = bytes.length) =>
    inspectCell(bytes.subarray(0, 160), sizeBytes, expected);

  it('tells a flight with its watermark and size from poison', () => {
    const flight = world.flightBytes(5, { released: 3 });
    expect(inspect(flight)).toMatchObject({
      cell: FLIGHT,
      released: 3,
      sizeBytes: flight.length,
      fault: undefined,
    });
    expect(inspect(world.poisonBytes(5))).toMatchObject({ cell: POISON, released: -1 });
  });

  it('calls damage, a wrong size, another slot and another writer corrupt, and says which', () => {
    const flight = world.flightBytes(5);
    const flipped = flight.slice();
    flipped[90]! ^= 1;
    expect(inspect(flipped)).toMatchObject({ cell: CORRUPT, fault: 'preamble checksum differs' });
    expect(inspect(flight, flight.length - 1)).toMatchObject({ cell: CORRUPT });
    expect(inspect(world.flightBytes(6))).toMatchObject({ fault: 'object of another slot' });
    const foreign = world.flightBytes(5, { nonce: 'ee'.repeat(16) });
    expect(inspect(foreign)).toMatchObject({ cell: CORRUPT, fault: 'flight of another writer' });
  });

  it('gives equal fingerprints to copies alone', () => {
    const print = (bytes: Uint8Array): number => {
      const read = parsePreamble(bytes);
      if (!read.ok) throw new Error(read.reason);
      return printOf(read.preamble);
    };
    const copy = print(world.flightBytes(5));
    expect(print(world.flightBytes(5))).toBe(copy);
    expect(print(world.flightBytes(5, { text: 'other' }))).not.toBe(copy);
    expect(print(world.flightBytes(5, { released: 0 }))).not.toBe(copy);
    expect(Number.isSafeInteger(copy) && copy > 0).toBe(true);
  });
});

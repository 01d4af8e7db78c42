import { expect, test } from 'vitest';
import { Hedges } from '../../../../src/adapters/s3/hedges.ts';

const SMALL = 1_000;

function warm(hedges: Hedges, sizeBytes: number, millisOf: (index: number) => number): void {
  for (let index = 0; index < 128; index++) hedges.note(sizeBytes, millisOf(index));
}

test('what is late depends on the last creations of about the same size', () => {
  const hedges = new Hedges({ percent: 5, concurrent: 8 });
  expect(hedges.begin(SMALL)).toBeUndefined();
  warm(hedges, SMALL, () => 20);
  // What takes about as long as all others is not late.
  expect(hedges.begin(SMALL)).toBe(40);
  expect(hedges.begin(8 << 20)).toBeUndefined();
  warm(hedges, 8 << 20, () => 300);
  expect([hedges.begin(8 << 20), hedges.begin(SMALL)]).toEqual([600, 40]);
  // A tail of one in a hundred does not move it, one of a tenth does.
  warm(hedges, SMALL, (index) => (index % 100 === 0 ? 400 : 25));
  expect(hedges.begin(SMALL)).toBe(50);
  warm(hedges, SMALL, (index) => (index % 10 === 0 ? 400 : 25));
  expect(hedges.begin(SMALL)).toBe(400);
  warm(hedges, SMALL, () => 0.3);
  expect(hedges.begin(SMALL)).toBe(10);
});

test('one in twenty may be sent again, and few are saved up', () => {
  const hedges = new Hedges({ percent: 5, concurrent: 1_000 });
  let [begun, sent] = [0, 0];
  const begin = (count: number): void => {
    for (; count > 0; count--, begun++) hedges.begin(SMALL);
  };
  expect(hedges.tryStart()).toBe(false);
  for (let round = 0; round < 100; round++) {
    begin(7);
    while (hedges.tryStart()) sent++;
    expect(sent).toBeLessThanOrEqual(begun / 20);
  }
  expect(sent).toBe(35);
  begin(100_000);
  for (sent = 0; hedges.tryStart();) sent++;
  expect(sent).toBe(8);
});

test('few are under way at once', () => {
  const hedges = new Hedges({ percent: 100, concurrent: 2 });
  for (let count = 0; count < 5; count++) hedges.begin(SMALL);
  expect([hedges.tryStart(), hedges.tryStart(), hedges.tryStart()]).toEqual([true, true, false]);
  hedges.end();
  expect([hedges.tryStart(), hedges.tryStart()]).toEqual([true, false]);
});

test('none at all where it is off', () => {
  const hedges = new Hedges({ percent: 0, concurrent: 8 });
  warm(hedges, SMALL, () => 20);
  for (let count = 0; count < 1_000; count++) expect(hedges.begin(SMALL)).toBeUndefined();
  expect(hedges.tryStart()).toBe(false);
});

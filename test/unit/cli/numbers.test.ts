import { describe, expect, it } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatMillis,
  formatRate,
  quantileOf,
  rounded,
} from '../../../src/cli/numbers.ts';

describe('numbers for people', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1_000, '1,000'],
    [12_345_678, '12,345,678'],
  ])('count %d', (value, text) => {
    expect(formatCount(value)).toBe(text);
  });

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1_000, '1.00 kB'],
    [45_678, '45.7 kB'],
    [999_499, '999 kB'],
    [999_600, '1.00 MB'],
    [123_000_000, '123 MB'],
    [5e15, '5000 TB'],
  ])('bytes %d', (value, text) => {
    expect(formatBytes(value)).toBe(text);
    expect(formatRate(value)).toBe(`${text}/s`);
  });

  it.each([
    [0.4213, '0.42 ms'],
    [12.34, '12.3 ms'],
    [999, '999 ms'],
    [1_200, '1.20 s'],
    [61_000, '61.0 s'],
    [125_000, '2 min 05 s'],
  ])('milliseconds %d', (value, text) => {
    expect(formatMillis(value)).toBe(text);
  });

  it('rounds and finds quantiles', () => {
    expect(rounded(1.23456)).toBe(1.235);
    const sorted = Array.from({ length: 100 }, (_, at) => at + 1);
    expect([quantileOf(sorted, 0.5), quantileOf(sorted, 0.99), quantileOf(sorted, 1)]).toEqual([
      50, 99, 100,
    ]);
    expect([quantileOf([], 0.5), quantileOf([7], 0.5)]).toEqual([0, 7]);
  });
});

import { describe, expect, it } from 'vitest';
import { BREAKING, HOLDING, runCase } from './cases.ts';

/** The smaller bounds; `npm run model` explores all of them. */
describe('every interleaving of the fence (F1-F4)', () => {
  for (const each of HOLDING) {
    if (each.slow === true || each.statesMax !== undefined) continue;
    it(`holds: ${each.name}`, { timeout: 120_000 }, () => {
      expect(runCase(each).problem).toBeUndefined();
    });
  }
  for (const each of BREAKING) {
    if (each.slow === true || each.statesMax !== undefined) continue;
    it(`breaks: ${each.name}`, { timeout: 120_000 }, () => {
      expect(runCase(each).problem).toBeUndefined();
    });
  }
});

import { describe, expect, it } from 'vitest';
import { problemOf, STREAM_CASES } from './stream-cases.ts';

/** The smaller bounds; `npm run model` explores all of them. */
describe('every interleaving of leadership (T, N, R), tail reads (L) and rows (S4)', () => {
  for (const each of STREAM_CASES) {
    if (each.slow === true) continue;
    const verb = each.breaks === undefined ? 'holds' : 'breaks';
    it(`${verb}: ${each.name}`, { timeout: 120_000 }, () => {
      expect(problemOf(each, each.run())).toBeUndefined();
    });
  }
});

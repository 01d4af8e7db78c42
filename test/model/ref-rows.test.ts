import { describe, expect, it } from 'vitest';
import { exploreRefRows, type ModelOptions } from '../support/ref-rows-model.ts';

/** Absorb knows all but the newest position, a settler all: both build one chain. */
const TWO: ModelOptions = {
  positions: 4,
  builders: [
    { from: 0, to: 3 },
    { from: 0, to: 4 },
  ],
};

describe('ref rows by several builders, every interleaving', () => {
  it('S2: two builders on four positions leave none uncovered', () => {
    const verdict = exploreRefRows(TWO);
    expect(verdict).toMatchObject({ violation: undefined, trace: [] });
    expect(verdict.states).toBeGreaterThan(1_000);
    expect(verdict.claims.covered).toBeGreaterThan(0);
    expect(verdict.claims.removed).toBeGreaterThan(0);
  });

  it('S2: with reads of any age that the metastore allows', () => {
    const verdict = exploreRefRows({
      ...TWO,
      positions: 3,
      staleReads: true,
      builders: [
        { from: 0, to: 2 },
        { from: 0, to: 3 },
      ],
    });
    expect(verdict).toMatchObject({ violation: undefined, trace: [] });
    expect(verdict.claims.covered).toBeGreaterThan(0);
  });

  it('S2: with a create that lands after its builder was gone', () => {
    const verdict = exploreRefRows({
      ...TWO,
      orphans: 1,
      positions: 3,
      builders: [
        { from: 0, to: 2 },
        { from: 0, to: 3 },
      ],
    });
    expect(verdict).toMatchObject({ violation: undefined, trace: [] });
    expect(verdict.claims.covered).toBeGreaterThan(0);
  });

  it('S4: an epoch whose predecessor is not covered reports a gap and builds nothing above it', () => {
    const split: ModelOptions = {
      positions: 4,
      staleReads: true,
      orphans: 1,
      builders: [
        { from: 0, to: 2 },
        { from: 2, to: 4 },
      ],
    };
    const verdict = exploreRefRows(split);
    expect(verdict).toMatchObject({ violation: undefined, trace: [] });
    expect(verdict.claims.gap).toBeGreaterThan(0);
    expect(verdict.claims.covered).toBeGreaterThan(0);
  });
});

describe('the model breaks when a rule is broken', () => {
  it('by going on from the row at the own key', () => {
    expect(exploreRefRows({ ...TWO, rule: 'own' }).violation).toBeDefined();
  });

  it('by writing above a gap (S4)', () => {
    const split = { ...TWO, rule: 'skip' as const, builders: [{ from: 2, to: 4 }] };
    expect(exploreRefRows(split).violation).toContain('is not found');
  });

  it('by removing the last row', () => {
    expect(exploreRefRows({ ...TWO, removesLastRow: true }).violation).toBeDefined();
  });
});

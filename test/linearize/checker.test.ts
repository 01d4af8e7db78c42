import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Prng } from '../../src/lib/prng.ts';
import { isLinearizable } from './brute-force.ts';
import { check } from './checker.ts';
import { operationsOf } from './history.ts';
import { randomHistory, withOneLie } from './random-histories.ts';

const seeds = fc.integer({ min: 0, max: 2 ** 31 });

describe('the checker', () => {
  it('accepts what a stream that does everything right answers', () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 1, max: 10 }), (seed, clients) => {
        const shape = { clients, operations: 60, unknown: 0.2 };
        const events = randomHistory(new Prng(seed), shape);
        expect(check(operationsOf(events)).kind).toBe('linearizable');
      }),
      { numRuns: 300 },
    );
  });

  it('agrees with the search through all orders, on right and on wrong histories', () => {
    const counts = { right: 0, wrong: 0 };
    fc.assert(
      fc.property(seeds, fc.integer({ min: 2, max: 4 }), (seed, clients) => {
        const prng = new Prng(seed);
        const right = randomHistory(prng, { clients, operations: 7, unknown: 0.3 });
        for (const events of [right, withOneLie(prng, right)]) {
          const expected = isLinearizable(events);
          counts[expected ? 'right' : 'wrong']++;
          const { kind } = check(operationsOf(events));
          expect(kind).toBe(expected ? 'linearizable' : 'violation');
        }
      }),
      { numRuns: 1_500 },
    );
    expect(counts.right).toBeGreaterThan(1_500);
    expect(counts.wrong).toBeGreaterThan(300);
  });

  it('rejects most single lies in histories of some length', () => {
    let rejected = 0;
    for (let seed = 0; seed < 200; seed++) {
      const prng = new Prng(seed);
      const events = randomHistory(prng, { clients: 4, operations: 60, unknown: 0.1 });
      const { kind } = check(operationsOf(withOneLie(prng, events)));
      if (kind === 'violation') rejected++;
    }
    expect(rejected).toBeGreaterThan(160);
  });

  it('judges a thousand operations of eight clients in two seconds', () => {
    for (const unknown of [0, 0.1]) {
      const shape = { clients: 8, operations: 1_200, unknown };
      const operations = operationsOf(randomHistory(new Prng(5), shape));
      const startedAt = performance.now();
      expect(check(operations).kind).toBe('linearizable');
      expect(performance.now() - startedAt).toBeLessThan(2_000);
    }
  });

  it('tries no configuration twice', () => {
    const clients = Array.from({ length: 12 }, (_, index) => index);
    const call = {
      ...({ kind: 'append', recordHashes: [1n], setFencingToken: null } as const),
      ...{ fencingToken: null, matchSeqNum: null },
    };
    const result = { kind: 'readSuccess', tail: 12, streamHash: 0n } as const;
    const operations = operationsOf([
      // Twelve records of one content in any of 479,001,600 orders, none of which the read found.
      ...clients.map((clientId) => ({ call, clientId, opId: clientId })),
      { call: { kind: 'read' }, clientId: 12, opId: 12 },
      { result, clientId: 12, opId: 12 },
    ]);
    const verdict = check(operations);
    expect(verdict.kind).toBe('violation');
    expect(verdict.configurations).toBeLessThan(100_000);
  });

  it('says that it does not know when its bound is reached', () => {
    const events = randomHistory(new Prng(1), { clients: 4, operations: 60, unknown: 0 });
    expect(check(operationsOf(events), { maxConfigurations: 5 })).toMatchObject({
      kind: 'unknown',
      configurations: 6,
    });
  });
});

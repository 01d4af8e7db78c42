/** What a seed reports that breaks a rule. */
import { describe, expect, it } from 'vitest';
import { facade } from './lies.ts';
import { runSeed, Tally } from './seed-run.ts';
import { runStorm } from './storm.ts';

/** Clients are told other positions than their records have. */
const brokenStorm: typeof runStorm = (seed, options) =>
  runStorm(seed, {
    ...options,
    wrapStream: (stream) => ({
      ...facade(stream),
      async append(records, how) {
        const { start, end, tail } = await stream.append(records, how);
        return { start: { ...start, seqNum: start.seqNum + 1 }, end, tail };
      },
    }),
  });

describe('a seed that breaks a rule', () => {
  it('is told with its hash and its steps, and was the same the second time', async () => {
    const report = await runSeed(3, { lines: 7, twice: false, storm: brokenStorm });
    const { violation, hash, steps } = report;
    expect(violation).toMatchObject({ seed: 3, hash, steps });
    expect(hash).toMatch(/^[0-9a-f]{16}$/);
    expect(steps).toBeGreaterThan(50);
    expect(violation?.trace).toHaveLength(7);
    expect(report.isSame).toBe(true);
    const again = await runSeed(3, { lines: 9, twice: false, storm: brokenStorm });
    expect(again).toMatchObject({ hash, steps });
    const tally = new Tally();
    tally.add(report);
    expect(tally).toMatchObject({ ranTwice: 1, different: [], steps });
  });

  it('is told as one that the seed did not decide when its second run is another', async () => {
    let runs = 0;
    const report = await runSeed(3, {
      lines: 7,
      twice: false,
      storm: (seed, options) => (runs++ === 0 ? brokenStorm : runStorm)(seed, options),
    });
    expect(report.isSame).toBe(false);
    expect(report.violation?.message).toContain('(the second run of the seed did not fail)');
    const tally = new Tally();
    tally.add(report);
    expect(tally.different).toEqual([3]);
  });

  it('is another when only its second run fails', async () => {
    let runs = 0;
    const storm: typeof runStorm = (seed, options) =>
      (runs++ === 0 ? runStorm : brokenStorm)(seed, options);
    const report = await runSeed(3, { lines: 7, twice: true, storm });
    expect(report.isSame).toBe(false);
    expect(report.violation?.message).toContain('(the first run of the seed did not fail)');
  });
});

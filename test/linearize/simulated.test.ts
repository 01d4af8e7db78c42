import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { BREAKS } from './breaks.ts';
import type { Hunt } from './run-breaks.ts';
import { simulate } from './simulated.ts';
import { Account } from './verdicts.ts';

/** Each quorum with each workflow. */
const SEEDS = 16;
const LOAD = { clients: 4, operations: 8 };
const MINUTES_MAX = 5 * 60_000;

describe('simulated engines of several stars', () => {
  it(
    'answer as one stream would, under crashes, pauses, outages and takeovers',
    async () => {
      const account = new Account();
      for (let seed = 0; seed < SEEDS; seed++) {
        const { histories } = await simulate({ seed, replay: 'this test', ...LOAD });
        for (const { name, events } of histories) {
          account.judge({ label: `seed ${seed} ${name}`, events, replay: 'this test' });
        }
      }
      const { violations, unknown, results, tookEffect } = account;
      expect({ violations, unknown }).toEqual({ violations: [], unknown: [] });
      // A run that shows nothing accepts everything.
      expect(results.appendSuccess).toBeGreaterThan(150);
      expect(results.readSuccess).toBeGreaterThan(100);
      expect(results.checkTailSuccess).toBeGreaterThan(80);
      expect(results.appendDefiniteFailure).toBeGreaterThan(50);
      expect(results.appendIndefiniteFailure).toBeGreaterThan(10);
      expect(tookEffect).toBeGreaterThan(5);
    },
    MINUTES_MAX,
  );

  it('have one history for one seed', async () => {
    const run = () => simulate({ seed: 9, replay: 'this test', ...LOAD });
    expect(await run()).toEqual(await run());
  });
});

describe('planted breaks of a live engine', () => {
  it(
    'are all rejected by what their clients were told',
    async () => {
      const script = join(import.meta.dirname, 'run-breaks.ts');
      const args = ['--import', 'tsx', script, '--json'];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      const hunts = JSON.parse(stdout) as readonly Hunt[];
      expect(hunts).toHaveLength(BREAKS.length);
      expect(hunts.filter(({ seed }) => seed === undefined)).toEqual([]);
    },
    MINUTES_MAX,
  );
});

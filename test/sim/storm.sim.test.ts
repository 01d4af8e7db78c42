import { readFileSync, rmSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { History } from '../../src/testing/history.ts';
import { SITUATIONS } from './counters.ts';
import { belowFloor, floorsOf, FLOORS_FROM, noTotals } from './floors.ts';
import { runOptions } from './run-options.ts';
import { runSeeds } from './seed-pool.ts';
import { Tally } from './seed-run.ts';
import { runStorm } from './storm.ts';

/** Half a minute on two idle cores; a busy machine takes its time. */
const MILLIS_MAX = 15 * 60_000;
const ROOT = join(import.meta.dirname, '../..');

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(args: readonly string[]): Promise<Run> {
  const child = spawn(process.execPath, ['--import', 'tsx', 'test/sim/run.ts', ...args], {
    cwd: ROOT,
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

describe('a storm over engines of several stars', () => {
  it(
    'keeps every invariant, reaches what it is there for and repeats itself',
    async () => {
      const tally = new Tally();
      const began = performance.now();
      await runSeeds({
        from: 0,
        seeds: FLOORS_FROM,
        workers: 2,
        lines: 200,
        twiceEvery: 60,
        endAt: Number.POSITIVE_INFINITY,
        keepGoing: true,
        onReport: (report) => {
          tally.add(report);
        },
      });
      const seconds = (performance.now() - began) / 1_000;
      const speed = Math.round(tally.steps / seconds);
      console.log(`${tally.seeds} seeds in ${seconds.toFixed(1)} s, ${speed} steps/s`);
      expect(tally.violations).toEqual([]);
      expect(tally.different).toEqual([]);
      expect(tally.ranTwice).toBe(5);
      expect(belowFloor(tally.totals, tally.seeds)).toEqual([]);
    },
    MILLIS_MAX,
  );

  it('has the same history whether or not its lines are kept', async () => {
    const { hash, steps } = await runStorm(3);
    const kept = new History({ keepLines: 100_000 });
    expect(await runStorm(3, { history: kept })).toMatchObject({ hash, steps });
    expect(kept.trace().length).toBe(kept.count);
  });
});

describe('the floors', () => {
  it('ask for every situation at least once in a run that is held to them', () => {
    expect(belowFloor(noTotals(), FLOORS_FROM)).toHaveLength(SITUATIONS.length);
    expect(floorsOf(noTotals(), 1).barrierHit.floor).toBe(0);
  });
});

describe('npm run sim', () => {
  it('prints one object with --json and writes the history of a seed for the inspector', async () => {
    const file = join(tmpdir(), `asterlog-trace-${process.pid}.jsonl`);
    try {
      const { code, stdout } = await run([
        '--seeds',
        '1',
        '--from',
        '5',
        '--json',
        '--trace',
        file,
      ]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        seeds: 1,
        violations: [],
        deterministic: true,
        ranTwice: 1,
        floors: { acknowledged: { reached: expect.any(Number), floor: 12 } },
      });
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      const events = lines.map((line) => JSON.parse(line) as { type: string; sessionId: string });
      const actors = events.filter(({ type }) => type === '@xstate.actor');
      expect(actors.map(({ sessionId }) => sessionId)).toEqual(
        expect.arrayContaining(['world', 'a.1', 'b.1', 'metastore']),
      );
      expect(events.length).toBeGreaterThan(500);
    } finally {
      rmSync(file, { force: true });
    }
  });

  it('answers a bad command line with one line and the status 2', async () => {
    const { code, stdout, stderr } = await run(['--seeds', 'many']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^--seeds takes a whole number from 1 to \d+, not "many" .*\n$/);
  });

  it('plays a hundred seeds, or as many as the time allows', () => {
    expect(runOptions([]).seeds).toBe(100);
    expect(runOptions(['--minutes', '60']).seeds).toBe(Number.POSITIVE_INFINITY);
    expect(runOptions(['--minutes', '60', '--seeds', '7']).seeds).toBe(7);
  });

  it.each([
    ['--from', '-1'],
    ['--from', '1.5'],
    ['--seeds', '0'],
    ['--minutes', ''],
    ['--workers', 'NaN'],
    ['--unknown', '1'],
    ['--trace', 'file'],
    ['stray', 'word'],
  ])('takes no %s %s', (name, value) => {
    expect(() => runOptions([`${name}=${value}`])).toThrow();
  });
});

/** Runs of seeds whose processes die, stand still or are told to stop. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runSeeds } from './seed-pool.ts';
import type { SeedReport } from './seed-run.ts';

const ROOT = join(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'asterlog-seed-pool-'));
afterAll(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** Seed 1 is never answered, the others at once. */
function workerWhere(name: string, misfortune: string): string {
  const file = join(directory, `${name}.mjs`);
  writeFileSync(
    file,
    `process.on('disconnect', () => process.exit());
     process.on('message', ({ seed }) => {
       if (seed === 1) ${misfortune}
       else process.send({ seed, steps: 1 });
     });`,
  );
  return file;
}

async function play(script: string, more: { signal?: AbortSignal; silenceMillis?: number } = {}) {
  const reports: SeedReport[] = [];
  await runSeeds({
    ...{ from: 0, seeds: 4, workers: 1, lines: 9, twiceEvery: 0, keepGoing: true, script },
    endAt: Number.POSITIVE_INFINITY,
    onReport: (report) => reports.push(report),
    ...more,
  });
  return reports;
}

function sim(...args: readonly string[]) {
  const child = spawn(process.execPath, ['--import', 'tsx', 'test/sim/run.ts', ...args], {
    cwd: ROOT,
  });
  const heard = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (heard.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (heard.stderr += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, heard, ended };
}

describe('a run of seeds', () => {
  it('takes a process that dies for a violation of its seed and goes on', async () => {
    const reports = await play(workerWhere('dying', 'process.exit(7);'));
    expect(reports.map(({ seed, violation }) => [seed, violation?.rule])).toEqual([
      [0, undefined],
      [1, 'process'],
      [2, undefined],
      [3, undefined],
    ]);
    expect(reports[1]?.violation).toMatchObject({
      message: 'its process ended with 7',
      replay: 'npm run sim -- --from 1 --seeds 1',
    });
  });

  it('takes a seed that never ends for a violation', async () => {
    const script = workerWhere('circling', 'for (;;);');
    const reports = await play(script, { silenceMillis: 5_000 });
    expect(reports.map(({ seed }) => seed)).toEqual([0, 1, 2, 3]);
    expect(reports[1]?.violation?.message).toContain('it runs in circles');
  });

  it('ends when it is told to, also in the midst of a seed that never ends', async () => {
    const controller = new AbortController();
    const script = workerWhere('stopped', 'for (;;);');
    const run = play(script, { signal: controller.signal });
    setTimeout(() => {
      controller.abort();
    }, 100);
    expect((await run).every(({ violation }) => violation === undefined)).toBe(true);
  });
});

describe('npm run sim', () => {
  it('tells what it came to when it is stopped', async () => {
    const { child, heard, ended } = sim('--minutes', '10', '--json');
    // Its first line about how far it is.
    child.stderr.once('data', () => child.kill('SIGINT'));
    expect(await ended, heard.stderr).toBe(130);
    expect(JSON.parse(heard.stdout)).toMatchObject({ stoppedBy: 'SIGINT', violations: [] });
  });

  it('refuses a trace that cannot be written before it plays the seed', async () => {
    const { heard, ended } = sim('--seeds', '1', '--trace', join(directory, 'none/trace'));
    expect(await ended).toBe(2);
    expect(heard.stderr).toMatch(/^--trace: ENOENT[^\n]*\n$/);
    expect(heard.stdout).toBe('');
  });
});

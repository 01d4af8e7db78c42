/**
 * The whole gate, part by part: `npm run verify`. Stops at the first part that fails; prints the
 * minutes of each in any case.
 */
import { spawnSync } from 'node:child_process';
import { performance } from 'node:perf_hooks';

const PARTS: readonly (readonly [part: string, ...npmRun: string[]])[] = [
  ['format', 'format:check'],
  ['lint', 'lint'],
  ['types', 'typecheck'],
  ['unused', 'check:unused'],
  ['build', 'build'],
  ['tests', 'test'],
  ['tests, newer Node', 'test:newer-node'],
  ['package', 'check:package'],
  ['bench smoke', 'bench', '--', '--smoke'],
];

interface Timed {
  readonly part: string;
  readonly minutes: number;
  readonly failed: boolean;
}

function run(part: string, npmRun: readonly string[]): Timed {
  const startedAt = performance.now();
  const { status } = spawnSync('npm', ['run', ...npmRun], { stdio: 'inherit' });
  return { part, minutes: (performance.now() - startedAt) / 60_000, failed: status !== 0 };
}

function printTable(timed: readonly Timed[]): void {
  const total = timed.reduce((sum, { minutes }) => sum + minutes, 0);
  const rows = [...timed, { part: 'all', minutes: total, failed: false }];
  console.log('\nminutes');
  for (const { part, minutes, failed } of rows) {
    console.log(`${minutes.toFixed(1).padStart(7)}  ${part}${failed ? ', failed' : ''}`);
  }
}

const timed: Timed[] = [];
for (const [part, ...npmRun] of PARTS) {
  timed.push(run(part, npmRun));
  if (timed.at(-1)!.failed) break;
}
printTable(timed);
process.exitCode = timed.some(({ failed }) => failed) ? 1 : 0;

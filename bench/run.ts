/**
 * Runs one benchmark by name: `npm run bench -- NAME [--json] [--smoke]`.
 * `--smoke` without a name runs all of them with few samples, so that none of them rots.
 * A benchmark reads the flags with `benchOptions()` of `_harness.ts` and runs when imported.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const SUFFIX = '.bench.ts';
const args = process.argv.slice(2);
const name = args.find((arg) => !arg.startsWith('-'));
const names = readdirSync(new URL('.', import.meta.url))
  .filter((file) => file.endsWith(SUFFIX))
  .map((file) => file.slice(0, -SUFFIX.length))
  .sort();

if (name !== undefined && names.includes(name)) {
  await import(`./${name}${SUFFIX}`);
} else if (name === undefined && args.includes('--smoke')) {
  for (const each of names) smoke(each);
} else {
  if (name !== undefined) console.error(`unknown benchmark name=${name}`);
  console.error(`usage: npm run bench -- NAME [--json] [--smoke]\nnames: ${names.join(', ')}`);
  process.exitCode = 2;
}

/** One process each: a benchmark must not inherit the heap and the optimised code of another. */
function smoke(each: string): void {
  const file = fileURLToPath(new URL(`./${each}${SUFFIX}`, import.meta.url));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', 'tsx', file, '--smoke'],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000 },
  );
  console.log(`${status === 0 ? 'ok' : 'FAILED'} ${each}`);
  if (status === 0) return;
  console.error(stdout, stderr);
  process.exitCode = 1;
}

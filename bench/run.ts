/**
 * Runs one benchmark by name: `npm run bench -- NAME [--json] [--smoke]`.
 * `--smoke` without a name runs all of them with few samples, so that none of them rots.
 * A benchmark reads the flags with `benchOptions()` of `_harness.ts` and runs when imported.
 *
 * What is measured is built first, as what users run is: what compiles sources while they are imported gives
 * every closure its name back, which costs an engine that makes closures for requests a tenth of its time.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const SUFFIX = '.bench.ts';
const args = process.argv.slice(2);
const name = args.find((arg) => !arg.startsWith('-'));
const names = readdirSync(new URL('.', import.meta.url))
  .filter((file) => file.endsWith(SUFFIX))
  .map((file) => file.slice(0, -SUFFIX.length))
  .sort();

if (name !== undefined && names.includes(name)) {
  if (args.includes('--smoke')) await import(`./${name}${SUFFIX}`);
  else process.exitCode = build() || measure(name);
} else if (name === undefined && args.includes('--smoke')) {
  for (const each of names) smoke(each);
} else {
  if (name !== undefined) console.error(`unknown benchmark name=${name}`);
  console.error(`usage: npm run bench -- NAME [--json] [--smoke]\nnames: ${names.join(', ')}`);
  process.exitCode = 2;
}

/** Into `.built` beside this file; only what changed since is compiled. */
function build(): number {
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const project = fileURLToPath(new URL('./tsconfig.build.json', import.meta.url));
  // Standard output is for results.
  const { status } = spawnSync(process.execPath, [compiler, '-p', project], {
    stdio: ['ignore', 2, 2],
  });
  return status ?? 1;
}

function measure(each: string): number {
  const file = fileURLToPath(new URL(`./.built/bench/${each}.bench.js`, import.meta.url));
  const flags = args.filter((arg) => arg !== each);
  const { status } = spawnSync(process.execPath, [file, ...flags], { stdio: 'inherit' });
  return status ?? 1;
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

/**
 * Explores every interleaving for small bounds, with the product's own rules:
 * `npm run model [-- [--slow] PART OF A NAME]`. Exits with 1 when a case that must hold breaks, when a
 * variation that must break holds, or when a situation that must be met is not; with 2 when an
 * option is wrong or nothing was explored.
 */
import { BREAKING, HOLDING, runCase } from './cases.ts';
import { runOptions, USAGE, type RunOptions } from './options.ts';
import { problemOf, STREAM_CASES } from './stream-cases.ts';

interface Outcome {
  readonly states: number;
  readonly millis: number;
  readonly violation?: string | undefined;
}

let passed = 0;
let failed = 0;
let skipped = 0;

function report(
  { name, breaks }: { readonly name: string; readonly breaks?: RegExp | undefined },
  { states, millis, violation }: Outcome,
  problem: string | undefined,
): void {
  const expected = breaks === undefined ? 'holds ' : 'breaks';
  const found = violation === undefined ? '' : `: ${violation}`;
  const verdict = problem === undefined ? 'ok    ' : 'FAILED';
  console.log(`${verdict} ${expected} ${name}${found} (${states} states, ${millis} ms)`);
  if (problem === undefined) passed++;
  else {
    failed++;
    console.log(`       ${problem}`);
  }
}

/** Undefined for a wrong option; then the reason is printed. */
function optionsOrUsage(): RunOptions | undefined {
  try {
    return runOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message.split('\n')[0] ?? ''}\n${USAGE}`);
    return undefined;
  }
}

function main({ wanted, slow }: RunOptions): number {
  for (const each of [...HOLDING, ...BREAKING]) {
    if (!each.name.includes(wanted)) continue;
    if (each.statesMax !== undefined && !slow) {
      console.log(`skipped       ${each.name}: explored with --slow`);
      skipped++;
      continue;
    }
    const { run, problem } = runCase(each);
    report(each, run, problem);
  }
  for (const each of STREAM_CASES) {
    if (!each.name.includes(wanted)) continue;
    const run = each.run();
    report(each, run, problemOf(each, run));
  }
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  if (passed + failed > 0) return failed > 0 ? 1 : 0;
  console.error(
    skipped > 0
      ? 'nothing was explored: --slow explores it'
      : `no case has ${JSON.stringify(wanted)} in its name`,
  );
  return 2;
}

const options = optionsOrUsage();
process.exitCode = options === undefined ? 2 : main(options);

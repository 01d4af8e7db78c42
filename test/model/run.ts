/**
 * Explores every interleaving for small bounds, with the product's own rules:
 * `npm run model [-- PART OF A NAME]`. Exits with 1 when a case that must hold breaks, when a
 * variation that must break holds, or when a situation that must be met is not.
 */
import { BREAKING, HOLDING, runCase } from './cases.ts';
import { problemOf, STREAM_CASES } from './stream-cases.ts';

interface Outcome {
  readonly states: number;
  readonly millis: number;
  readonly violation?: string | undefined;
}

const wanted = process.argv[2] ?? '';
let passed = 0;
let failed = 0;

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

for (const each of [...HOLDING, ...BREAKING]) {
  if (!each.name.includes(wanted)) continue;
  const { run, problem } = runCase(each);
  report(each, run, problem);
}
for (const each of STREAM_CASES) {
  if (!each.name.includes(wanted)) continue;
  const run = each.run();
  report(each, run, problemOf(each, run));
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
if (failed > 0) process.exitCode = 1;

/**
 * Explores every interleaving of the fence for small bounds, with the product's own rules:
 * `npm run model [-- PART OF A NAME]`. Exits with 1 when a case that must hold breaks, when a
 * variation that must break holds, or when a situation that must be met is not.
 */
import { BREAKING, HOLDING, runCase } from './cases.ts';

const wanted = process.argv[2] ?? '';
let passed = 0;
let failed = 0;
for (const each of [...HOLDING, ...BREAKING]) {
  if (!each.name.includes(wanted)) continue;
  const { run, problem } = runCase(each);
  const expected = each.breaks === undefined ? 'holds ' : 'breaks';
  const found = run.violation === undefined ? '' : `: ${run.violation}`;
  console.log(
    `${problem === undefined ? 'ok    ' : 'FAILED'} ${expected} ${each.name}${found}` +
      ` (${run.states} states, ${run.fencerStates} of a fencer, ${run.millis} ms)`,
  );
  if (problem === undefined) passed++;
  else {
    failed++;
    console.log(`       ${problem}`);
  }
}
console.log(`${passed} passed, ${failed} failed, 0 skipped`);
if (failed > 0) process.exitCode = 1;

/** Shows which seed lets each planted break be noticed: `npx tsx test/sim/run-mutants.ts [--seeds N] [--only TEXT] [--json]`. */
import { parseArgs } from 'node:util';
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { MUTANTS, withWalk, type Mutant } from './mutants.ts';
import { runStorm } from './storm.ts';
import { stormConfig } from './world-config.ts';

interface Hunt {
  readonly name: string;
  readonly rule: string;
  /** The seed that killed it; undefined if it survived. */
  readonly seed?: number;
  readonly message?: string;
  /** Seeds that the product itself stopped first, by an assertion of its own. */
  readonly stopped: number;
}

async function hunt(mutant: Mutant, from: number, seeds: number): Promise<Hunt> {
  const { name, rule, mutate, stream, walk = {}, quorum } = mutant;
  let stopped = 0;
  for (let seed = from; seed < from + seeds; seed++) {
    const { buckets, copies } = stormConfig(seed);
    if (quorum !== undefined && quorum !== `${buckets}/${copies}`) continue;
    const options = { rules: [rule], mutate, wrapStream: stream };
    const failure = await withWalk(walk, () =>
      runStorm(seed, options).then(
        () => undefined,
        (error: unknown) => error,
      ),
    );
    if (failure instanceof SimulationFailure) {
      const message = failure.message.split('\n')[0] ?? '';
      if (failure.rule === rule) return { name, rule, seed, message, stopped };
      stopped++;
    } else if (failure !== undefined) throw new Error('no broken rule', { cause: failure });
  }
  return { name, rule, stopped };
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '60' },
    from: { type: 'string', default: '0' },
    only: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
});
const hunts: Hunt[] = [];
for (const mutant of MUTANTS) {
  if (!mutant.name.includes(values.only)) continue;
  const result = await hunt(mutant, Number(values.from), Number(values.seeds));
  hunts.push(result);
  if (values.json) continue;
  const verdict = result.seed === undefined ? 'SURVIVES' : `killed at seed ${result.seed}`;
  console.log(`${result.rule} ${mutant.name}: ${verdict}, stopped ${result.stopped}`);
  if (result.message !== undefined) console.log(`    ${result.message}`);
}
if (values.json) console.log(JSON.stringify(hunts));
process.exitCode = hunts.every(({ seed }) => seed !== undefined) ? 0 : 1;

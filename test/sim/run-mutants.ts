/** Shows which checker kills which planted break: `npx tsx test/sim/run-mutants.ts [--seeds N] [--only TEXT]`. */
import { parseArgs } from 'node:util';
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { MUTANTS, withRules, type Mutant } from './mutants.ts';
import { runStorm } from './storm.ts';
import { stormConfig } from './world-config.ts';

export interface Kill {
  readonly seed: number;
  readonly rule: string;
  readonly message: string;
}

/** The first seeds that kill the mutant, one for each rule that did; none if it survives. */
export async function hunt(mutant: Mutant, from: number, seeds: number): Promise<readonly Kill[]> {
  const kills: Kill[] = [];
  for (let seed = from; seed < from + seeds; seed++) {
    const { buckets, copies } = stormConfig(seed);
    if (mutant.quorum !== undefined && mutant.quorum !== `${buckets}/${copies}`) continue;
    const failure = await withRules(mutant.rules ?? {}, () =>
      runStorm(seed, mutant.mutate === undefined ? {} : { mutate: mutant.mutate }).then(
        () => undefined,
        (error: unknown) => error,
      ),
    );
    if (failure === undefined) continue;
    if (!(failure instanceof SimulationFailure))
      throw new Error('not a broken rule', { cause: failure });
    const { rule } = failure;
    if (kills.some((kill) => kill.rule === rule)) continue;
    kills.push({ seed, rule, message: failure.message.split('\n')[0] ?? '' });
    if (mutant.kills.includes(rule)) break;
  }
  return kills;
}

if (import.meta.filename === process.argv[1]) {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '40' },
      from: { type: 'string', default: '0' },
      only: { type: 'string', default: '' },
    },
  });
  for (const mutant of MUTANTS) {
    if (!mutant.name.includes(values.only)) continue;
    const kills = await hunt(mutant, Number(values.from), Number(values.seeds));
    const isKilled = kills.some(({ rule }) => mutant.kills.includes(rule));
    console.log(
      `${isKilled ? 'killed  ' : 'SURVIVES'} ${mutant.name} (by ${mutant.kills.join('/')})`,
    );
    for (const { seed, message } of kills) console.log(`    seed ${seed}: ${message}`);
  }
}

/**
 * Shows which seed lets each planted break be rejected, by what clients were told alone:
 * `npx tsx test/linearize/run-breaks.ts [--json]`. A process of its own: a broken engine may throw
 * where only the process can catch it.
 */
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { BREAKS, type Break } from './breaks.ts';
import { check } from './checker.ts';
import { operationsOf } from './history.ts';
import { simulate } from './simulated.ts';

const SEEDS = 100;
const LOAD = { clients: 4, operations: 12 };

export interface Hunt {
  readonly name: string;
  /** The seed with a history that was rejected; undefined if the break survived. */
  readonly seed: number | undefined;
  /** Seeds before that in which an assertion of the engine's own ended the run. */
  readonly stopped: number;
}

async function hunt({ name, from, mutate, stream }: Break): Promise<Hunt> {
  let stopped = 0;
  for (let seed = from; seed < from + SEEDS; seed++) {
    try {
      const run = await simulate({ seed, replay: '', ...LOAD, mutate, wrapStream: stream });
      const isRejected = run.histories.some(
        ({ events }) => check(operationsOf(events)).kind === 'violation',
      );
      if (isRejected) return { name, seed, stopped };
    } catch (error) {
      if (!(error instanceof SimulationFailure)) throw error;
      stopped++;
    }
  }
  return { name, seed: undefined, stopped };
}

const hunts: Hunt[] = [];
for (const each of BREAKS) {
  const found = await hunt(each);
  hunts.push(found);
  if (process.argv.includes('--json')) continue;
  const verdict = found.seed === undefined ? 'SURVIVES' : `rejected at seed ${found.seed}`;
  console.log(`${found.name}: ${verdict}, stopped ${found.stopped}`);
}
if (process.argv.includes('--json')) console.log(JSON.stringify(hunts));
process.exitCode = hunts.every(({ seed }) => seed !== undefined) ? 0 : 1;

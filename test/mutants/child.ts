/**
 * Plays one mutant: runs inside of the copy of the tree in which its rule is broken. Takes a job as its
 * only argument, prints a line of JSON for every seed and a last one with the verdict.
 */
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { BREAKING, HOLDING, runCase } from '../model/cases.ts';
import { problemOf, STREAM_CASES } from '../model/stream-cases.ts';
import { play } from '../sim/scenario.ts';
import { runStorm } from '../sim/storm.ts';
import { stormConfig } from '../sim/world-config.ts';
import { ruleOf, type ModelKiller, type Mutant, type StormKiller, type Verdict } from './mutant.ts';
import { MUTANTS } from './registry.ts';

export interface Job {
  readonly mutant: string;
  readonly from: number;
  /** Seeds to be played; the mutant's own number by default. */
  readonly seeds?: number | undefined;
}

export type Report = { readonly seeds: number } | { readonly verdict: Verdict };

const WRONG_MAX = 5;

/** What failed assertions of the product said, in order. */
const broken: string[] = [];
Object.assign(globalThis, {
  onBrokenInvariant: (message: string): void => {
    broken.push(message);
  },
});

function report(line: Report): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Whether the text of an assertion cites the rule: `F1 no acknowledged …`, `… (S3)`. */
function cites(text: string, rule: string): boolean {
  return text.startsWith(`${rule} `) || text.includes(`(${rule})`);
}

type Look =
  | { readonly kind: 'quiet' }
  | { readonly kind: 'kill'; readonly killer: string; readonly message: string }
  | { readonly kind: 'wrong'; readonly message: string };

/** Plays one history and says who noticed. */
async function look(rule: string, run: () => Promise<unknown>): Promise<Look> {
  broken.length = 0;
  const failure = await run().then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error : new Error('no error was thrown')),
  );
  const assertion = broken.find((message) => cites(message, rule));
  if (assertion !== undefined) {
    return { kind: 'kill', killer: `assertion ${rule}`, message: assertion };
  }
  if (failure === undefined) return { kind: 'quiet' };
  const message = failure.message.split('\n')[0]!;
  return failure instanceof SimulationFailure && failure.rule === rule
    ? { kind: 'kill', killer: `checker ${rule}`, message }
    : { kind: 'wrong', message };
}

async function hunt(mutant: Mutant, killer: StormKiller, job: Job): Promise<Verdict> {
  const rule = ruleOf(mutant);
  const wrong: string[] = [];
  let seeds = 0;
  for (let seed = job.from; seeds < (job.seeds ?? killer.seedsMax); seed++) {
    if (killer.when?.(stormConfig(seed)) === false) continue;
    seeds++;
    const seen = await look(rule, () => runStorm(seed, { rules: [rule] }));
    if (seen.kind === 'kill') {
      return { kind: 'killed', killer: seen.killer, seeds, seed, message: seen.message };
    }
    if (seen.kind === 'wrong' && wrong.length < WRONG_MAX) wrong.push(seen.message);
    report({ seeds });
  }
  return { kind: 'survived', seeds, wrong };
}

function explore({ edits }: Mutant, { model }: ModelKiller): Verdict {
  const fence = [...HOLDING, ...BREAKING].find(({ name }) => name === model);
  const stream = STREAM_CASES.find(({ name }) => name === model);
  const each = fence ?? stream;
  if (each === undefined) throw new Error(`the model has no case "${model}"`);
  const isVariation = each.breaks !== undefined;
  if (isVariation !== (edits.length === 0)) {
    throw new Error(`"${model}" must ${isVariation ? 'break' : 'hold'} without edits`);
  }
  let violation: string | undefined;
  let problem: string | undefined;
  if (fence !== undefined)
    ({
      run: { violation },
      problem,
    } = runCase(fence));
  else {
    const run = stream!.run();
    ({ violation } = run);
    problem = problemOf(stream!, run);
  }
  const isKilled = violation !== undefined && (isVariation ? problem === undefined : true);
  return isKilled
    ? { kind: 'killed', killer: 'model', seeds: 1, seed: undefined, message: violation! }
    : { kind: 'survived', seeds: 1, wrong: problem === undefined ? [] : [problem] };
}

async function judge(mutant: Mutant, job: Job): Promise<Verdict> {
  const { killer } = mutant;
  if (killer.by === 'storm') return hunt(mutant, killer, job);
  if (killer.by === 'model') return explore(mutant, killer);
  const rule = ruleOf(mutant);
  const seen = await look(rule, () => play({ ...killer.options, rules: [rule] }, killer.script));
  if (seen.kind !== 'kill') {
    return { kind: 'survived', seeds: 1, wrong: seen.kind === 'wrong' ? [seen.message] : [] };
  }
  return { kind: 'killed', killer: seen.killer, seeds: 1, seed: undefined, message: seen.message };
}

// Whoever started this process is gone: nobody wants the verdict.
process.stdin.on('close', () => process.exit(1)).resume();

for (const job of JSON.parse(process.argv[2]!) as readonly Job[]) {
  const mutant = MUTANTS.find(({ name }) => name === job.mutant);
  if (mutant === undefined) throw new Error(`there is no mutant "${job.mutant}"`);
  report({ verdict: await judge(mutant, job) });
}
process.exit(0);

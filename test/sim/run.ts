/** Runs seeds until one fails: `npm run sim -- --from 1 --seeds 1000 [--minutes 10] [--json]`. */
import { parseArgs } from 'node:util';
import { belowFloor } from './floors.ts';
import { SITUATIONS, type Situation } from './counters.ts';
import { runStorm } from './storm.ts';

const { values } = parseArgs({
  options: {
    from: { type: 'string', default: '0' },
    seeds: { type: 'string', default: '100' },
    minutes: { type: 'string' },
    json: { type: 'boolean', default: false },
    'keep-going': { type: 'boolean', default: false },
    /** Lines of trace that a failure prints. */
    lines: { type: 'string', default: '400' },
  },
});

const from = Number(values.from);
const seeds = Number(values.seeds);
const endAt =
  values.minutes === undefined
    ? Number.POSITIVE_INFINITY
    : Date.now() + Number(values.minutes) * 60_000;
const totals = Object.fromEntries(SITUATIONS.map((name) => [name, 0])) as Record<Situation, number>;
const outcomes: Record<string, number> = {};
const failed: { seed: number; message: string }[] = [];
let ran = 0;
let steps = 0;

for (let seed = from; seed < from + seeds && Date.now() < endAt; seed++) {
  try {
    const result = await runStorm(seed, { keepLines: Number(values.lines) });
    steps += result.steps;
    for (const name of SITUATIONS) totals[name] += result.counters.counts[name];
    for (const [name, count] of Object.entries(result.counters.outcomes)) {
      outcomes[name] = (outcomes[name] ?? 0) + count;
    }
    if (seeds === 1) console.log(`seed=${seed} hash=${result.hash} steps=${result.steps}`);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    failed.push({ seed, message: message.split('\n')[0] ?? '' });
    console.error(message);
    if (error instanceof Error && error.name !== 'SimulationFailure') console.error(error.stack);
    if (!values['keep-going']) break;
  }
  ran++;
}

/** Runs of this size must have reached what they are there for. */
const FLOORS_FROM = 300;
const low = ran >= FLOORS_FROM ? belowFloor(totals, ran) : [];
if (values.json) console.log(JSON.stringify({ from, ran, steps, failed, low, totals, outcomes }));
else {
  console.log(`${ran} seeds, ${steps} steps, ${failed.length} failed`);
  for (const name of SITUATIONS) console.log(`  ${name}: ${totals[name]}`);
  const sorted = Object.entries(outcomes).sort(([, a], [, b]) => b - a);
  console.log(sorted.map(([name, count]) => `${name}: ${count}`).join(', '));
  for (const line of low) console.log(`  below its floor: ${line}`);
  for (const { seed, message } of failed) console.log(`  seed ${seed}: ${message}`);
}
process.exitCode = failed.length === 0 && low.length === 0 ? 0 : 1;

/** Plays seeds until one breaks a rule: `npm run sim -- --from 1 --seeds 1000 [--minutes 10] [--json]`. */
import { constants } from 'node:os';
import { belowFloor, floorsOf, FLOORS_FROM } from './floors.ts';
import { runOptions, USAGE, type RunOptions } from './run-options.ts';
import { runSeeds } from './seed-pool.ts';
import { Tally, type Violation } from './seed-run.ts';
import { runStorm } from './storm.ts';
import { TraceFile } from './trace-file.ts';

/** Every fiftieth seed is played twice: the same seed has the same history, or the run fails. */
const TWICE_EVERY = 50;
const PROGRESS_MILLIS = 2_000;

function readOptions(): RunOptions | undefined {
  try {
    return runOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message.split('\n')[0] ?? ''} (${USAGE})`);
    process.exitCode = 2;
    return undefined;
  }
}

/** The first signal ends the run with what it came to so far; the second one ends the process. */
class Stop {
  readonly #controller = new AbortController();
  by: NodeJS.Signals | undefined;

  constructor() {
    for (const each of ['SIGINT', 'SIGTERM'] as const) process.on(each, this.#heard);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Signals end the process again. */
  release(): void {
    for (const each of ['SIGINT', 'SIGTERM'] as const) process.off(each, this.#heard);
  }

  readonly #heard = (by: NodeJS.Signals): void => {
    this.by = by;
    this.release();
    this.#controller.abort();
  };
}

/** On a terminal one line that is written over, elsewhere a plain line now and then. */
function progress(tally: Tally, { seeds }: RunOptions, began: number): () => void {
  let lastAt = began;
  const { isTTY } = process.stderr;
  return () => {
    const now = performance.now();
    if (now - lastAt < (isTTY ? PROGRESS_MILLIS / 10 : PROGRESS_MILLIS * 5)) return;
    lastAt = now;
    const text = `${tally.seeds}${Number.isFinite(seeds) ? ` of ${seeds}` : ''} seeds, ${perSecond(tally, now - began)} steps/s`;
    process.stderr.write(isTTY ? `\r${text} ` : `${text}\n`);
  };
}

function perSecond({ steps }: Tally, millis: number): number {
  return Math.round((steps * 1000) / Math.max(1, millis));
}

function describeViolation(violation: Violation): string {
  const { seed, rule, message, hash, steps, replay, trace } = violation;
  return [
    `seed ${seed} breaks ${rule}: ${message}`,
    `hash ${hash} after ${steps} steps`,
    `replay: ${replay}`,
    `the last ${trace.length} lines of its history:`,
    ...trace.map((line) => `  ${line}`),
  ].join('\n');
}

async function main(options: RunOptions, trace: TraceFile | undefined): Promise<void> {
  const { from, seeds, minutes, workers, lines, json, keepGoing } = options;
  const began = performance.now();
  const tally = new Tally();
  const tell = progress(tally, options, began);
  const stop = new Stop();
  let hash = '';
  await runSeeds({
    ...{ from, seeds, workers, lines, keepGoing },
    twiceEvery: TWICE_EVERY,
    signal: stop.signal,
    endAt: minutes === undefined ? Number.POSITIVE_INFINITY : began + minutes * 60_000,
    onReport: (report) => {
      tally.add(report);
      hash = report.hash;
      tell();
      if (report.violation !== undefined) console.error(describeViolation(report.violation));
    },
  });
  stop.release();
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  const millis = performance.now() - began;
  // What was stopped early is no measure of what is reached.
  const isWhole = tally.violations.length === 0 && tally.seeds >= FLOORS_FROM;
  const low = isWhole ? belowFloor(tally.totals, tally.seeds) : [];
  if (json) {
    const { steps, outcomes, virtualMillis, ranTwice } = tally;
    const result = {
      from,
      seeds: tally.seeds,
      stoppedBy: stop.by,
      steps,
      violations: tally.violations,
      floors: floorsOf(tally.totals, tally.seeds),
      belowFloor: low,
      deterministic: tally.different.length === 0 && ranTwice > 0,
      ranTwice,
      stepsPerSecond: perSecond(tally, millis),
      virtualMillis: Math.round(virtualMillis),
      millis: Math.round(millis),
      workers,
      outcomes,
    };
    console.log(JSON.stringify(result));
  } else {
    if (stop.by !== undefined) console.log(`stopped by ${stop.by}`);
    report(tally, millis, low);
  }
  if (!json && tally.seeds === 1) console.log(`hash: ${hash}`);
  const isGood = tally.violations.length === 0 && tally.different.length === 0 && low.length === 0;
  process.exitCode = isGood ? (stop.by === undefined ? 0 : 128 + constants.signals[stop.by]) : 1;
  if (trace === undefined) return;
  if (stop.by === undefined) await runStorm(from, { history: trace }).catch(() => undefined);
  trace.close();
}

function report(tally: Tally, millis: number, low: readonly string[]): void {
  const { seeds, steps, violations, ranTwice, different, outcomes } = tally;
  const seconds = (millis / 1000).toFixed(1);
  console.log(
    `${seeds} seeds, ${steps} steps in ${seconds} s (${perSecond(tally, millis)} steps/s), ${violations.length} violations`,
  );
  const verdict = different.length === 0 ? 'the same history each' : `not: ${different.join(', ')}`;
  console.log(`${ranTwice} seeds played twice: ${verdict}`);
  for (const [name, { reached, floor }] of Object.entries(floorsOf(tally.totals, seeds))) {
    console.log(`  ${name}: ${reached} (floor ${floor})`);
  }
  const sorted = Object.entries(outcomes).sort(([, a], [, b]) => b - a);
  console.log(sorted.map(([name, count]) => `${name}: ${count}`).join(', '));
  for (const line of low) console.log(`  below its floor: ${line}`);
  for (const { seed, rule, message } of violations)
    console.log(`  seed ${seed}: ${rule}: ${message}`);
}

/** @returns false when it cannot be written. */
function openTrace({ trace, lines }: RunOptions): TraceFile | undefined | false {
  try {
    return trace === undefined ? undefined : new TraceFile(trace, lines);
  } catch (error) {
    console.error(`--trace: ${(error as Error).message}`);
    process.exitCode = 2;
    return false;
  }
}

const options = readOptions();
if (options !== undefined) {
  const trace = openTrace(options);
  if (trace !== false) await main(options, trace);
}

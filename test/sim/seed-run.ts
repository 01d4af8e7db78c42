/** Runs of many seeds and what they add up to; the same sum whatever process ran which seed. */
import { History } from '../../src/testing/history.ts';
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { SITUATIONS, type Situation } from './counters.ts';
import { noTotals } from './floors.ts';
import { runStorm } from './storm.ts';

export interface Violation {
  readonly seed: number;
  /** The broken invariant or limit; `error` when something else was thrown, `process` when none answered. */
  readonly rule: string;
  readonly message: string;
  /** Hash and events of the history up to the failure; empty and 0 when its process told nothing. */
  readonly hash: string;
  readonly steps: number;
  /** The shortest command that plays it again. */
  readonly replay: string;
  readonly trace: readonly string[];
}

/** What one seed came to. */
export interface SeedReport {
  readonly seed: number;
  readonly hash: string;
  readonly steps: number;
  readonly virtualMillis: number;
  readonly millis: number;
  readonly totals: Readonly<Partial<Record<Situation, number>>>;
  readonly outcomes: Readonly<Record<string, number>>;
  /** Whether a second run had the same history; undefined when it was not run twice. */
  readonly isSame?: boolean;
  readonly violation?: Violation;
}

interface SeedOptions {
  /** Lines that the trace of a violation keeps. */
  readonly lines: number;
  readonly twice: boolean;
  /** What is played. */
  readonly storm?: typeof runStorm;
}

/** Plays one seed; a violation is part of the answer. */
export async function runSeed(
  seed: number,
  { lines, twice, storm = runStorm }: SeedOptions,
): Promise<SeedReport> {
  const began = performance.now();
  // Stacks cost a lot where faults are common; the second run of a failure has them.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const history = new History();
  try {
    const { hash, steps, virtualMillis, counters } = await storm(seed, { history });
    const totals = Object.fromEntries(
      Object.entries(counters.counts).filter(([, count]) => count > 0),
    );
    const millis = performance.now() - began;
    const { outcomes } = counters;
    const report = { seed, hash, steps, virtualMillis, millis, totals, outcomes };
    if (!twice) return report;
    const kept = new History({ keepLines: lines });
    return await storm(seed, { history: kept }).then(
      (again) => ({ ...report, isSame: again.hash === hash }),
      (again: unknown) => {
        const failure = failureOf(again, kept);
        const message = `${failure.message} (the first run of the seed did not fail)`;
        const violation = { ...failure, message, seed, replay: replayOf(seed) };
        return { ...report, isSame: false, violation };
      },
    );
  } catch (error) {
    Error.stackTraceLimit = stackTraceLimit;
    const first = failureOf(error, history);
    const kept = new History({ keepLines: lines });
    const second = await storm(seed, { history: kept }).then(
      () => undefined,
      (again: unknown) => failureOf(again, kept),
    );
    return { ...failed(seed, first, second), millis: performance.now() - began };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

type Failure = Pick<Violation, 'rule' | 'message' | 'hash' | 'steps' | 'trace'>;

function failureOf(error: unknown, history: History): Failure {
  if (error instanceof SimulationFailure) {
    const { rule, summary, hash, steps, trace } = error;
    return { rule, message: summary, hash, steps, trace };
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { rule: 'error', message, hash: history.hash, steps: 0, trace: history.trace() };
}

/** A failure, told by its second run: the one with stacks and with as many lines as were asked for. */
function failed(
  seed: number,
  first: Failure,
  second: Failure | undefined,
): Omit<SeedReport, 'millis'> {
  const isSame = first.rule === second?.rule && first.hash === second.hash;
  const told = isSame ? second : first;
  const other = second === undefined ? 'did not fail' : `broke ${second.rule}: ${second.message}`;
  const message = isSame ? told.message : `${told.message} (the second run of the seed ${other})`;
  const { hash, steps } = told;
  const violation = { ...told, message, seed, replay: replayOf(seed) };
  return { seed, hash, steps, virtualMillis: 0, totals: {}, outcomes: {}, isSame, violation };
}

/** The process that played the seed ended, or answered no more. */
export function lostSeed(seed: number, message: string, millis: number): SeedReport {
  const nothing = { seed, hash: '', steps: 0 };
  const violation = { ...nothing, rule: 'process', message, replay: replayOf(seed), trace: [] };
  return { ...nothing, virtualMillis: 0, millis, totals: {}, outcomes: {}, violation };
}

const replayOf = (seed: number): string => `npm run sim -- --from ${seed} --seeds 1`;

/** Sums of many reports. */
export class Tally {
  readonly totals = noTotals();
  readonly outcomes: Record<string, number> = {};
  readonly violations: Violation[] = [];
  /** Seeds that had another history the second time. */
  readonly different: number[] = [];
  seeds = 0;
  steps = 0;
  virtualMillis = 0;
  ranTwice = 0;

  add(report: SeedReport): void {
    this.seeds++;
    this.steps += report.steps;
    this.virtualMillis += report.virtualMillis;
    for (const name of SITUATIONS) this.totals[name] += report.totals[name] ?? 0;
    for (const [name, count] of Object.entries(report.outcomes)) {
      this.outcomes[name] = (this.outcomes[name] ?? 0) + count;
    }
    if (report.violation !== undefined) this.violations.push(report.violation);
    if (report.isSame === undefined) return;
    this.ranTwice++;
    if (!report.isSame) this.different.push(report.seed);
  }
}

/** Runs of many seeds and what they add up to; the same sum whatever process ran which seed. */
import { History } from '../../src/testing/history.ts';
import { SimulationFailure } from '../../src/testing/simulation-failure.ts';
import { SITUATIONS, type Situation } from './counters.ts';
import { noTotals } from './floors.ts';
import { runStorm } from './storm.ts';

export interface Violation {
  readonly seed: number;
  /** The broken invariant or limit; `error` when something else was thrown. */
  readonly rule: string;
  readonly message: string;
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

/** Plays one seed; a violation is part of the answer. */
export async function runSeed(
  seed: number,
  { lines, twice }: { readonly lines: number; readonly twice: boolean },
): Promise<SeedReport> {
  const began = performance.now();
  // Stacks cost a lot where faults are common; the second run of a failure has them.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  const nothing = { seed, hash: '', steps: 0, virtualMillis: 0, totals: {}, outcomes: {} };
  try {
    const { hash, steps, virtualMillis, counters } = await runStorm(seed);
    const totals = Object.fromEntries(
      Object.entries(counters.counts).filter(([, count]) => count > 0),
    );
    const millis = performance.now() - began;
    const { outcomes } = counters;
    const report = { seed, hash, steps, virtualMillis, millis, totals, outcomes };
    return twice ? { ...report, isSame: (await runStorm(seed)).hash === hash } : report;
  } catch (error) {
    Error.stackTraceLimit = stackTraceLimit;
    const violation = await explain(seed, lines, error);
    return { ...nothing, millis: performance.now() - began, violation };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** The seed once more, with lines kept, for a trace that can be read. */
async function explain(seed: number, lines: number, error: unknown): Promise<Violation> {
  const again: unknown = await runStorm(seed, { history: new History({ keepLines: lines }) }).then(
    () => error,
    (second: unknown) => second,
  );
  const replay = `npm run sim -- --from ${seed} --seeds 1`;
  if (again instanceof SimulationFailure) {
    const { rule, summary, trace } = again;
    return { seed, rule, message: summary, replay, trace };
  }
  const message = again instanceof Error ? (again.stack ?? again.message) : String(again);
  return { seed, rule: 'error', message, replay, trace: [] };
}

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

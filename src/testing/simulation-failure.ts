import type { History } from './history.ts';

export interface FailureContext {
  readonly seed: number;
  /** The shortest command that runs the same history again. */
  readonly replay: string;
  readonly history: History;
  /** Events so far. */
  readonly steps: number;
}

/** A simulation that broke a rule: says which seed, how to see it again and what happened last. */
export class SimulationFailure extends Error {
  override readonly name = 'SimulationFailure';
  readonly rule: string;
  /** What was broken, in one line. */
  readonly summary: string;
  readonly seed: number;
  readonly replay: string;
  readonly trace: readonly string[];
  /** Of the history up to the failure: another one means that the seed did not decide all. */
  readonly hash: string;
  /** Events up to the failure. */
  readonly steps: number;

  /** @param rule - the broken invariant or limit, for example `A1` or `step-limit`. */
  constructor(rule: string, summary: string, context: FailureContext, cause?: unknown) {
    const trace = context.history.trace();
    super(
      [
        `${rule}: ${summary}`,
        ...causes(cause),
        `seed=${context.seed} hash=${context.history.hash}`,
        `replay: ${context.replay}`,
        `the last ${trace.length} of ${context.history.count} lines:`,
        ...trace.map((line) => `  ${line}`),
      ].join('\n'),
      cause === undefined ? {} : { cause },
    );
    this.rule = rule;
    this.summary = summary;
    this.seed = context.seed;
    this.replay = context.replay;
    this.trace = trace;
    this.hash = context.history.hash;
    this.steps = context.steps;
  }
}

/** What led to it, innermost last; a stack shows where the product broke. */
function causes(cause: unknown): string[] {
  const lines: string[] = [];
  for (let error = cause; error instanceof Error && lines.length < 5; error = error.cause) {
    const where = (error.stack ?? '').split('\n').filter((line) => line.includes(' at '));
    lines.push(`caused by ${error.name}: ${error.message}`, ...where.slice(0, 4));
  }
  return lines;
}

import type { History } from './history.ts';

export interface FailureContext {
  readonly seed: number;
  /** The shortest command that runs the same history again. */
  readonly replay: string;
  readonly history: History;
}

/** A simulation that broke a rule: says which seed, how to see it again and what happened last. */
export class SimulationFailure extends Error {
  override readonly name = 'SimulationFailure';
  readonly rule: string;
  readonly seed: number;
  readonly replay: string;
  readonly trace: readonly string[];

  /** @param rule - the broken invariant or limit, for example `A1` or `step-limit`. */
  constructor(rule: string, summary: string, context: FailureContext, cause?: unknown) {
    const trace = context.history.trace();
    super(
      [
        `${rule}: ${summary}`,
        `seed=${context.seed} hash=${context.history.hash}`,
        `replay: ${context.replay}`,
        `the last ${trace.length} of ${context.history.count} lines:`,
        ...trace.map((line) => `  ${line}`),
      ].join('\n'),
      cause === undefined ? {} : { cause },
    );
    this.rule = rule;
    this.seed = context.seed;
    this.replay = context.replay;
    this.trace = trace;
  }
}

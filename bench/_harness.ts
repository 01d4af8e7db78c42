import { run } from 'mitata';

export interface BenchOptions {
  /** Results as one JSON document on standard output instead of a table. */
  readonly json: boolean;
  /** Few samples: proves that the benchmark still runs, its numbers mean nothing. */
  readonly smoke: boolean;
}

export function benchOptions(args: readonly string[] = process.argv): BenchOptions {
  return { json: args.includes('--json'), smoke: args.includes('--smoke') };
}

/** Runs what was declared with mitata's `bench`; a benchmark that throws fails the process. */
export async function runBenches(options = benchOptions()): Promise<void> {
  const format = options.json ? { json: { debug: false, samples: false } } : 'mitata';
  await run({ throw: true, format });
}

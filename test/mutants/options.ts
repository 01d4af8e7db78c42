/** The command line of `npm run mutants`. */
import { parseArgs } from 'node:util';

export interface MutantOptions {
  readonly json: boolean;
  /** Mutants whose name or invariant holds the text. */
  readonly only: string;
  /** The first seed. */
  readonly from: number;
  /** Seeds of each mutant, in place of its own number. */
  readonly seeds: number | undefined;
  /** Every mutant at its known killing seed alone. */
  readonly known: boolean;
  /** Writes down the seeds that killed. */
  readonly record: boolean;
  readonly parallel: number;
}

/** A command line that cannot be followed. */
export class UsageError extends Error {}

/** @throws UsageError */
export function parseOptions(args: readonly string[]): MutantOptions {
  let values;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        json: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
        from: { type: 'string' },
        seeds: { type: 'string' },
        known: { type: 'boolean', default: false },
        record: { type: 'boolean', default: false },
        parallel: { type: 'string' },
      },
    }));
  } catch (error) {
    throw new UsageError(`INVALID_OPTION: ${(error as Error).message.split('.')[0]!}`);
  }
  const { json, only, known, record } = values;
  const from = numberOf('from', values.from, 0, Number.MAX_SAFE_INTEGER / 2);
  const seeds = numberOf('seeds', values.seeds, 1, 1_000_000);
  const parallel = numberOf('parallel', values.parallel, 1, 64) ?? 2;
  if (known && (record || from !== undefined || seeds !== undefined)) {
    throw new UsageError(
      'INVALID_OPTION: --known plays known seeds: no --record, --from or --seeds',
    );
  }
  return { json, only, from: from ?? 0, seeds, known, record, parallel };
}

function numberOf(
  name: string,
  text: string | undefined,
  min: number,
  max: number,
): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new UsageError(
    `INVALID_OPTION: --${name} takes a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`,
  );
}

/** The command line of `npm run model`. */
import { parseArgs } from 'node:util';

export interface RunOptions {
  /** Only cases with this in their names; '' for all. */
  readonly wanted: string;
  /** Also the cases that take minutes and gigabytes. */
  readonly slow: boolean;
}

export const USAGE = 'npm run model -- [--slow] [PART OF A NAME]';

/** @throws Error in one line, for options that do not exist. */
export function runOptions(args: readonly string[]): RunOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { slow: { type: 'boolean', default: false } },
  });
  if (positionals.length > 1) throw new Error('one part of a name at most: put it in quotes');
  return { wanted: positionals[0] ?? '', slow: values.slow };
}

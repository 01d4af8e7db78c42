/** The command line of `npm run sim`. */
import { parseArgs } from 'node:util';

export interface RunOptions {
  readonly from: number;
  /** Infinite when only the time ends the run. */
  readonly seeds: number;
  /** Undefined: as long as it takes. */
  readonly minutes: number | undefined;
  readonly workers: number;
  readonly lines: number;
  readonly json: boolean;
  readonly keepGoing: boolean;
  /** Where the trace of the one seed goes. */
  readonly trace: string | undefined;
}

export const USAGE =
  'npm run sim -- [--from SEED] [--seeds N] [--minutes M] [--workers N] [--lines N] [--keep-going] [--json] [--trace FILE]';

/** Where neither their number nor a time is given. */
const SEEDS = 100;

const LIMITS: Readonly<Record<string, readonly [min: number, max: number, whole: boolean]>> = {
  from: [0, 2 ** 40, true],
  seeds: [1, 10_000_000, true],
  minutes: [0.01, 100_000, false],
  workers: [1, 64, true],
  lines: [1, 10_000_000, true],
};

/** @throws Error in one line, for what is not a number or out of its bounds. */
export function runOptions(args: readonly string[]): RunOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      from: { type: 'string', default: '0' },
      seeds: { type: 'string' },
      minutes: { type: 'string' },
      workers: { type: 'string', default: '2' },
      lines: { type: 'string', default: '400' },
      json: { type: 'boolean', default: false },
      'keep-going': { type: 'boolean', default: false },
      trace: { type: 'string' },
    },
  });
  const number = (name: 'from' | 'seeds' | 'minutes' | 'workers' | 'lines'): number => {
    const text = values[name]!;
    const [min, max, whole] = LIMITS[name]!;
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
    throw new Error(
      `--${name} takes a ${whole ? 'whole ' : ''}number from ${min} to ${max}, not "${text}"`,
    );
  };
  const seeds = (): number => {
    if (values.seeds !== undefined) return number('seeds');
    return values.minutes === undefined ? SEEDS : Number.POSITIVE_INFINITY;
  };
  const options = {
    from: number('from'),
    seeds: seeds(),
    minutes: values.minutes === undefined ? undefined : number('minutes'),
    workers: number('workers'),
    lines: number('lines'),
    json: values.json,
    keepGoing: values['keep-going'],
    trace: values.trace,
  };
  if (options.trace !== undefined && options.seeds !== 1) {
    throw new Error('--trace writes the history of one seed: give --seeds 1 as well');
  }
  return options;
}

/** The command line of `npm run fuzz`. */
import { parseArgs } from 'node:util';

export interface RunOptions {
  readonly minutes: number;
  /** Undefined: drawn. */
  readonly seed: number | undefined;
  /** Only decoders with this in their titles; '' for all. */
  readonly only: string;
  /** The one case that is tried. */
  readonly case: number | undefined;
  readonly json: boolean;
}

export const USAGE = 'npm run fuzz -- [--minutes M] [--seed N] [--only TEXT] [--case N] [--json]';

const LIMITS: Readonly<Record<string, readonly [min: number, max: number, whole: boolean]>> = {
  minutes: [0.01, 100_000, false],
  seed: [0, 2 ** 24 - 1, true],
  case: [0, 2 ** 24 - 1, true],
};

/**
 * @param titles Of all decoders.
 * @throws Error in one line, for what is not a number, out of its bounds, or names no decoder.
 */
export function runOptions(args: readonly string[], titles: readonly string[]): RunOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '1' },
      seed: { type: 'string' },
      only: { type: 'string', default: '' },
      case: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  const { only, json } = values;
  if (!titles.some((title) => title.includes(only))) {
    throw new Error(`no decoder has ${JSON.stringify(only)} in its title`);
  }
  const optional = (name: 'seed' | 'case'): number | undefined =>
    values[name] === undefined ? undefined : numberOf(name, values[name]);
  return {
    minutes: numberOf('minutes', values.minutes),
    seed: optional('seed'),
    only,
    case: optional('case'),
    json,
  };
}

function numberOf(name: string, text: string): number {
  const [min, max, whole] = LIMITS[name]!;
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (value >= min && value <= max && (!whole || Number.isInteger(value))) return value;
  const kind = whole ? 'whole number' : 'number';
  throw new Error(`--${name} takes a ${kind} from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

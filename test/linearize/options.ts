/** Options of `npm run linearize`. */
import { parseArgs } from 'node:util';
import { BREAKS, type Break } from './breaks.ts';

export class OptionError extends Error {
  override readonly name = 'OptionError';
}

export interface Options {
  readonly seeds: number;
  readonly from: number;
  readonly clients: number;
  readonly operations: number;
  /** Length of the run with real processes; 0: none. */
  readonly seconds: number;
  readonly history: string | undefined;
  readonly check: string | undefined;
  readonly break: Break | undefined;
  readonly json: boolean;
}

const NUMBERS = {
  seeds: { default: 20, min: 0, max: 10_000_000 },
  from: { default: 0, min: 0, max: 2 ** 40 },
  clients: { default: 4, min: 1, max: 32 },
  operations: { default: 12, min: 1, max: 10_000 },
  seconds: { default: 10, min: 0, max: 86_400 },
} as const;

/** @throws OptionError in one line. */
export function parseOptions(args: readonly string[]): Options {
  const values = valuesOf(args);
  const number = (name: keyof typeof NUMBERS): number => {
    const text = values[name];
    const { default: preset, min, max } = NUMBERS[name];
    if (text === undefined) return preset;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new OptionError(
      `--${name} is a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`,
    );
  };
  const planted = breakOf(values.break);
  // A planted break is looked for in the simulator.
  const seconds = planted === undefined ? number('seconds') : 0;
  const seeds = number('seeds');
  if (values.check === undefined && seeds + seconds === 0) {
    throw new OptionError('nothing is judged: --seeds, --seconds or --check says what');
  }
  return {
    seeds,
    from: values.from === undefined ? (planted?.from ?? 0) : number('from'),
    clients: number('clients'),
    operations: number('operations'),
    seconds,
    history: fileOf('history', values.history),
    check: fileOf('check', values.check),
    break: planted,
    json: values.json,
  };
}

function valuesOf(args: readonly string[]) {
  const text = { type: 'string' } as const;
  try {
    return parseArgs({
      args: [...args],
      options: {
        ...{ seeds: text, from: text, clients: text, operations: text, seconds: text },
        ...{ history: text, check: text, break: text },
        json: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new OptionError((error as Error).message.split('\n')[0] ?? '');
  }
}

function fileOf(name: string, value: string | undefined): string | undefined {
  if (value === '') throw new OptionError(`--${name} names a file`);
  return value;
}

function breakOf(name: string | undefined): Break | undefined {
  if (name === undefined) return undefined;
  const found = BREAKS.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = BREAKS.map((each) => JSON.stringify(each.name)).join(', ');
  throw new OptionError(`--break is one of ${names}`);
}

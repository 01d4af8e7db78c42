/** Values of options, from text. A wrong one is a usage error that names the value and the bound. */
import { InvalidArgumentError } from 'commander';

export function integerIn(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
  };
}

export function numberIn(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
  };
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Milliseconds of `15s`, `500ms`, `2m`, `1.5s`. The unit is required: a bare 15 has misled many. */
export function duration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text);
  const millis = match === null ? Number.NaN : Math.round(Number(match[1]) * UNITS[match[2]!]!);
  if (Number.isSafeInteger(millis)) return millis;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 15s or 2m.');
}

/** Milliseconds since 1970 of a number of milliseconds or of an ISO 8601 date. */
export function instant(text: string): number {
  // `Date.parse` alone takes nearly anything, `-5` for the month of May among it.
  const date = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  const millis = /^\d+$/.test(text) ? Number(text) : date;
  if (Number.isSafeInteger(millis) && millis >= 0) return millis;
  throw new InvalidArgumentError('It must be milliseconds since 1970 or an ISO 8601 date.');
}

/** What callers in plain JavaScript pass by mistake, in place of options and records. */
import type { Prng } from '../../src/lib/prng.ts';
import { anyValue, drawn } from './generate.ts';

const NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '', '0', 'typo'];

function withoutPrototype(): object {
  return Object.create(null) as object;
}

/** A value that says nothing about itself: `String` of it throws. */
function silent(): object {
  return Object.assign(withoutPrototype(), { toString: undefined, valueOf: undefined });
}

const PLAIN: readonly (() => unknown)[] = [
  () => undefined,
  () => null,
  () => true,
  () => 0,
  () => -0,
  () => -1,
  () => 0.5,
  () => 1e300,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => Number.MAX_SAFE_INTEGER + 1,
  () => 10n,
  () => '',
  () => 'text',
  () => '../..',
  () => 'x'.repeat(5_000),
  () => '\ud800',
  () => '\u0000\n',
  () => Symbol('odd'),
  () => () => undefined,
  () => [],
  () => new Array<unknown>(3),
  () => ({}),
  withoutPrototype,
  silent,
  () => new Date(0),
  () => new Map(),
  () => new Uint8Array(4),
  () => new Uint8Array(new SharedArrayBuffer(4)),
  () => new DataView(new ArrayBuffer(4)),
  () => new ArrayBuffer(4),
  () => new AbortController().signal,
  () => ({ aborted: false }),
  () => Promise.resolve(),
];

export function oddValue(random: Prng, depth = 2): unknown {
  if (depth === 2 && random.chance(0.3)) return drawn(anyValue, random);
  if (depth === 0 || random.chance(0.7)) return random.pick(PLAIN)();
  const length = random.below(4);
  if (random.chance(0.4)) return Array.from({ length }, () => oddValue(random, depth - 1));
  return Object.fromEntries(
    Array.from({ length }, () => [random.pick(NAMES), oddValue(random, depth - 1)]),
  );
}

/** The arguments with one of them, or one value somewhere inside it, replaced; frozen. */
export function oddArguments(seed: readonly unknown[], random: Prng): unknown[] {
  const args = [...seed];
  const at = random.below(args.length);
  args[at] = oddInside(args[at], random);
  return args.map((value) => frozen(value));
}

function oddInside(value: unknown, random: Prng): unknown {
  if (random.chance(0.2) || !isPlain(value)) return oddValue(random);
  if (Array.isArray(value)) {
    const copy = [...(value as unknown[])];
    const at = random.below(copy.length + 1);
    copy[at] = at < copy.length ? oddInside(copy[at], random) : oddValue(random);
    return copy;
  }
  const entries = Object.entries(value);
  if (entries.length === 0 || random.chance(0.3)) {
    return Object.fromEntries([...entries, [random.pick(NAMES), oddValue(random)]]);
  }
  const at = random.below(entries.length);
  return Object.fromEntries(
    entries.map(([name, inner], index) => [name, index === at ? oddInside(inner, random) : inner]),
  );
}

function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
}

/** Whoever writes into what a caller passed throws. */
function frozen(value: unknown): unknown {
  if (!isPlain(value)) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}

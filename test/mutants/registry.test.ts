import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { parseOptions, UsageError } from './options.ts';
import { MUTANTS, NOT_YET } from './registry.ts';
import { misfits, ROOT } from './tree.ts';

const page = readFileSync(join(ROOT, 'docs/protocol.md'), 'utf8');
const numbers = [...page.matchAll(/^- \*\*([A-Z]\d?)\*\* /gm)].map(([, number]) => number!);
const known = JSON.parse(
  readFileSync(join(import.meta.dirname, 'known-seeds.json'), 'utf8'),
) as Record<string, number>;

describe('mutants', () => {
  it('have names of their own', () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  });

  it.each(numbers)('break the invariant %s', (number) => {
    expect(MUTANTS.filter(({ invariant }) => invariant === number)).not.toEqual([]);
  });

  it('break numbered invariants only, and say why another rule may notice', () => {
    for (const { name, invariant, rule, because } of MUTANTS) {
      expect(numbers, name).toContain(invariant);
      if (rule !== undefined) expect(numbers, name).toContain(rule);
      expect(because !== undefined, name).toBe(rule !== undefined);
      expect(rule, name).not.toBe(invariant);
    }
  });

  it('fit the product as it is', () => {
    expect(misfits(MUTANTS)).toEqual([]);
  });

  it('that a storm kills have a seed that is known to do it', () => {
    const wanted = MUTANTS.filter(({ killer }) => killer.by === 'storm').map(({ name }) => name);
    expect(Object.keys(known).sort()).toEqual([...wanted].sort());
  });

  it('that are missing are missing for a reason', () => {
    for (const { what, why } of NOT_YET) {
      expect(what.length).toBeGreaterThan(10);
      expect(why).toMatch(/\w+ \w+ \w+/);
    }
  });
});

test.each([
  [['--seeds', 'x'], '--seeds takes a whole number from 1'],
  [['--seeds', '0'], '--seeds takes a whole number from 1'],
  [['--from', '-1'], '--from'],
  [['--parallel', '65'], '--parallel takes a whole number from 1 to 64'],
  [['--known', '--record'], '--known plays known seeds'],
  [['--sees', '3'], "Unknown option '--sees'"],
  [['stray'], 'stray'],
])('a bad command line is refused: %j', (args, part) => {
  expect(() => parseOptions(args)).toThrow(UsageError);
  expect(() => parseOptions(args)).toThrow(/^INVALID_OPTION: /);
  expect(() => parseOptions(args)).toThrow(part);
});

test('a good one is taken as it is', () => {
  expect(parseOptions(['--json', '--only', 'F1', '--from', '3', '--seeds', '7'])).toEqual({
    json: true,
    only: 'F1',
    from: 3,
    seeds: 7,
    known: false,
    record: false,
    parallel: 2,
  });
});

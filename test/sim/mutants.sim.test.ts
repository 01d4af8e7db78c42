import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { MUTANTS } from './mutants.ts';

/** Enough for the rarest; most are noticed in the first seed. */
const SEEDS = 150;

interface Hunt {
  readonly name: string;
  readonly rule: string;
  readonly seed?: number;
}

describe('planted breaks', () => {
  // In a process of their own: a broken engine may throw where only the process can catch it.
  it(
    'are noticed by the checker of the rule that they break, all others deaf',
    async () => {
      const script = join(import.meta.dirname, 'run-mutants.ts');
      const args = ['--import', 'tsx', script, '--json', '--seeds', String(SEEDS)];
      const { stdout } = await promisify(execFile)(process.execPath, args, {
        maxBuffer: 16 * 1024 * 1024,
      });
      const hunts = JSON.parse(stdout) as readonly Hunt[];
      expect(hunts).toHaveLength(MUTANTS.length);
      expect(hunts.filter(({ seed }) => seed === undefined)).toEqual([]);
    },
    20 * 60_000,
  );

  it('stand for every invariant that a checker watches', () => {
    const rules = new Set(MUTANTS.map(({ rule }) => rule));
    expect([...rules].sort()).toEqual([...RULES].sort());
  });
});

const RULES = [
  ...['A1', 'A2', 'A3', 'A4', 'A5'],
  ...['B', 'C', 'F1', 'F2', 'F3', 'F4', 'L1', 'N'],
  ...['S3', 'S4', 'T1', 'T2', 'T6'],
];

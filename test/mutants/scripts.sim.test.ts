/** The scripts that kill mutants: without the break every rule holds in them. */
import { describe, it } from 'vitest';
import { play } from '../sim/scenario.ts';
import { MUTANTS } from './registry.ts';

describe('without its break no rule is broken', () => {
  for (const { name, killer } of MUTANTS) {
    if (killer.by !== 'script') continue;
    it(name, async () => {
      await play(killer.options ?? {}, killer.script);
    });
  }
});

import { describe, expect, it } from 'vitest';
import { SCRIPTED_MUTANTS } from './leadership-mutants.ts';
import { play } from './scenario.ts';

describe('planted breaks of leadership, scripted', () => {
  it.each(SCRIPTED_MUTANTS)('$rule is noticed: $name', async ({ rule, mutate, stream, script }) => {
    const broken = play({ mutate, wrapStream: stream, rules: [rule] }, script);
    await expect(broken).rejects.toMatchObject({ rule });
  });

  it.each(SCRIPTED_MUTANTS)('$rule holds without the break: $name', async ({ script }) => {
    await play({}, script);
  });
});

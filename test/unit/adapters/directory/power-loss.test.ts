import { describe, expect, it } from 'vitest';
import type { SyncSite } from '../../../../src/adapters/directory/file-system.ts';
import { runPowerLossHistory, type Situations } from './power-loss-history.ts';

const SEEDS = 150;
/** Histories in which a forgotten sync must show: that of `exists` does in one of 300. */
const MUTANT_SEEDS = 2_000;

/** Every sync of the product. A new site fails to compile until it is named here. */
const SITES: Readonly<Record<SyncSite, string>> = {
  object: 'the bytes of an object, before it gets its name',
  created: 'the name of an object, before `created`',
  exists: 'the name of an object of somebody else, before `exists`',
  evidence: 'what a reader decides from',
  deleted: 'the removal of a name',
  'new-directory': 'the parent of a directory used for the first time',
  'layout-file': 'the bytes of the layout file',
  root: 'layout file, objects/ and tmp/',
  'above-root': 'the folders above the bucket',
};

describe('power loss', () => {
  it('takes back no answer, whatever was under way', async () => {
    const seen: Situations = {
      created: 0,
      exists: 0,
      evidence: 0,
      deleted: 0,
      losses: 0,
      interrupted: 0,
    };
    for (let seed = 0; seed < SEEDS; seed++) {
      const { violations, situations } = await runPowerLossHistory(seed);
      expect(violations, `seed=${seed}`).toEqual([]);
      for (const key of Object.keys(seen) as (keyof Situations)[]) seen[key] += situations[key];
    }
    // A history in which nothing happens proves nothing.
    expect(seen.created).toBeGreaterThan(SEEDS * 3);
    expect(seen.exists).toBeGreaterThan(SEEDS);
    expect(seen.evidence).toBeGreaterThan(SEEDS * 3);
    expect(seen.deleted).toBeGreaterThan(SEEDS / 4);
    expect(seen.interrupted).toBeGreaterThan(SEEDS);
  });

  it('is the same history for the same seed', async () => {
    for (const seed of [1, 2, 3]) {
      expect(await runPowerLossHistory(seed)).toMatchObject({
        situations: (await runPowerLossHistory(seed)).situations,
      });
    }
  });

  it.each(Object.entries(SITES) as [SyncSite, string][])(
    'shows when this sync is forgotten: %s (%s)',
    async (site) => {
      for (let seed = 0; seed < MUTANT_SEEDS; seed++) {
        const { violations } = await runPowerLossHistory(seed, site);
        if (violations.length > 0) return;
      }
      expect.unreachable(`no history of ${MUTANT_SEEDS} needs the sync '${site}'`);
    },
  );
});

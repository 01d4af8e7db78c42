import { defineConfig } from 'vitest/config';

const shared = {
  // For what hangs. A machine that is busy with others takes a test of seconds for a minute.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  pool: 'forks',
  expect: { poll: { timeout: 20_000 } },
} as const;

/** Files that mostly wait or compute by themselves: as many at once as there are cores. */
const sideBySide = { maxWorkers: '100%', sequence: { groupOrder: 0 } } as const;
/** Files whose processes want the machine: one after the other, behind all of those. */
const oneByOne = { fileParallelism: false, sequence: { groupOrder: 1 } } as const;

/** Each starts processes of its own for all cores. */
const PROOFS = ['test/sim/storm.sim.test.ts', 'test/mutants/known.sim.test.ts'];

/** What one Node shows for all: states, histories and decoders by the thousand. */
const SEARCHES = ['test/{model,linearize,fuzz}/**/*.test.ts'];

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.reporter.ts'],
    projects: [
      {
        test: {
          ...shared,
          ...sideBySide,
          name: 'source',
          include: ['test/**/*.test.ts'],
          exclude: [
            'test/{dist,cli,kill,services}/**',
            ...PROOFS,
            ...SEARCHES,
            '**/node_modules/**',
          ],
        },
      },
      { test: { ...shared, ...sideBySide, name: 'searches', include: SEARCHES } },
      {
        test: { ...shared, ...oneByOne, name: 'proofs', include: PROOFS },
      },
      {
        test: {
          ...shared,
          ...oneByOne,
          name: 'dist',
          include: ['test/dist/**/*.test.ts'],
          globalSetup: ['./test/support/build-dist.setup.ts'],
          // Node itself loads what is built, as it does for users.
          server: { deps: { external: [/\/dist\/(src|actors|machines)\//] } },
        },
      },
      {
        // Whole processes of the built command line: started, stopped, killed.
        test: {
          ...shared,
          ...oneByOne,
          name: 'processes',
          testTimeout: 240_000,
          include: ['test/{cli,kill}/**/*.test.ts'],
          globalSetup: ['./test/support/build-dist.setup.ts'],
        },
      },
    ],
  },
});

import { defineConfig } from 'vitest/config';

const shared = {
  testTimeout: 30_000,
  hookTimeout: 60_000,
  pool: 'forks',
  // A busy machine may leave a process without a turn for seconds.
  expect: { poll: { timeout: 10_000 } },
} as const;

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
      { test: { ...shared, name: 'searches', include: SEARCHES } },
      {
        // Both cores for minutes: after everything that looks at a clock.
        test: {
          ...shared,
          name: 'proofs',
          include: PROOFS,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
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
          name: 'processes',
          testTimeout: 60_000,
          include: ['test/{cli,kill}/**/*.test.ts'],
          globalSetup: ['./test/support/build-dist.setup.ts'],
        },
      },
    ],
  },
});

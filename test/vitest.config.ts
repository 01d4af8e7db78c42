import { defineConfig } from 'vitest/config';

const shared = {
  testTimeout: 30_000,
  hookTimeout: 60_000,
  pool: 'forks',
  // A busy machine may leave a process without a turn for seconds.
  expect: { poll: { timeout: 10_000 } },
} as const;

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.reporter.ts'],
    projects: [
      {
        test: {
          ...shared,
          name: 'source',
          include: ['test/**/*.test.ts'],
          exclude: ['test/{dist,cli,kill}/**', '**/node_modules/**'],
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

import { defineConfig } from 'vitest/config';

const shared = { testTimeout: 30_000, hookTimeout: 60_000, pool: 'forks' } as const;

export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line.reporter.ts'],
    projects: [
      {
        test: {
          ...shared,
          name: 'source',
          include: ['test/**/*.test.ts'],
          exclude: ['test/dist/**', '**/node_modules/**'],
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
    ],
  },
});

import { defineConfig } from 'vitest/config';

/** Against real servers, apart from the other tests: they need packages and half a minute to start. */
export default defineConfig({
  test: {
    name: 'services',
    include: ['test/services/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 120_000,
    pool: 'forks',
    fileParallelism: false,
    reporters: ['verbose', './test/support/closing-line.reporter.ts'],
  },
});

import type { Reporter, TestModule } from 'vitest/node';

/** Prints `N passed, N failed, N skipped` as the last line, for scripts that add up several runs. */
export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      const failedBefore = counts.failed;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        // A test without a verdict (the run was cut short) is not a pass and not a choice to skip.
        counts[state === 'pending' ? 'failed' : state] += 1;
      }
      // A file that does not load, or whose hook fails, may fail without one failing test.
      if (module.state() === 'failed' && counts.failed === failedBefore) counts.failed += 1;
    }
    process.stdout.write(
      `${String(counts.passed)} passed, ${String(counts.failed)} failed, ${String(counts.skipped)} skipped\n`,
    );
  }
}

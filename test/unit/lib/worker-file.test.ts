import { Piscina } from 'piscina';
import { describe, expect, it } from 'vitest';
import { workerFile } from '../../../src/lib/worker-file.ts';

describe('workerFile', () => {
  it('runs a TypeScript worker from source', async () => {
    const pool = new Piscina({
      ...workerFile('../../support/echo.worker', import.meta.url),
      maxThreads: 1,
    });
    try {
      expect(await pool.run({ slot: 7 })).toEqual({ echoed: { slot: 7 } });
    } finally {
      await pool.destroy();
    }
  });

  it('names the compiled file beside a compiled caller', () => {
    expect(workerFile('a.worker', 'file:///dist/src/workers/pool.js')).toEqual({
      filename: '/dist/src/workers/a.worker.js',
      execArgv: [],
    });
  });
});

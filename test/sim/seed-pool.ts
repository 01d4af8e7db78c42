/** Plays seeds in processes of their own, as many at once as there are cores to use. */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import type { SeedReport } from './seed-run.ts';

export interface PoolOptions {
  readonly from: number;
  readonly seeds: number;
  readonly workers: number;
  /** Lines that the trace of a violation keeps. */
  readonly lines: number;
  /** Every seed of this many is run twice; 0: none. */
  readonly twiceEvery: number;
  /** No seed is begun after this moment of `performance.now()`. */
  readonly endAt: number;
  readonly onReport: (report: SeedReport) => void;
  /** Goes on after a violation. */
  readonly keepGoing: boolean;
}

export interface SeedOrder {
  readonly seed: number;
  readonly lines: number;
  readonly twice: boolean;
}

/** Seeds in order, each by whichever process is free. */
export async function runSeeds(options: PoolOptions): Promise<void> {
  const { from, seeds, workers, lines, twiceEvery, endAt, onReport, keepGoing } = options;
  let next = from;
  let isOver = false;
  const take = (): SeedOrder | undefined => {
    if (isOver || next >= from + seeds || performance.now() >= endAt) return undefined;
    const seed = next++;
    return { seed, lines, twice: twiceEvery > 0 && (seed - from) % twiceEvery === 0 };
  };
  const heard = (report: SeedReport): void => {
    onReport(report);
    if (report.violation !== undefined && !keepGoing) isOver = true;
  };
  const count = Math.max(1, Math.min(workers, seeds));
  await Promise.all(Array.from({ length: count }, () => serve(take, heard)));
}

function serve(
  take: () => SeedOrder | undefined,
  heard: (report: SeedReport) => void,
): Promise<void> {
  const child: ChildProcess = fork(join(import.meta.dirname, 'seed-worker.ts'), {
    execArgv: ['--import', 'tsx'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  return new Promise((resolve, reject) => {
    let order: SeedOrder | undefined;
    const give = (): void => {
      order = take();
      if (order === undefined) child.disconnect();
      else child.send(order);
    };
    child.on('message', (report) => {
      heard(report as SeedReport);
      give();
    });
    child.once('error', reject);
    child.once('exit', (code) => {
      if (order === undefined) resolve();
      else reject(new Error(`the process of seed ${order.seed} ended with ${code ?? 'a signal'}`));
    });
    give();
  });
}

/** Plays seeds in processes of their own, as many at once as there are cores to use. */
import { fork, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { lostSeed, type SeedReport } from './seed-run.ts';

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
  /** Ends the run at once; the seeds under way are not reported. */
  readonly signal?: AbortSignal;
  /** A seed that takes longer than this runs in circles. */
  readonly silenceMillis?: number;
  /** What a process runs. */
  readonly script?: string;
}

export interface SeedOrder {
  readonly seed: number;
  readonly lines: number;
  readonly twice: boolean;
}

/** Some seconds are much for a seed; a busy machine takes its time. */
const SILENCE_MILLIS = 300_000;

/** Seeds in order, each by whichever process is free; one that loses its process breaks a rule. */
export async function runSeeds(options: PoolOptions): Promise<void> {
  const { from, seeds, workers, lines, twiceEvery, endAt, onReport, keepGoing, signal } = options;
  let next = from;
  let isOver = false;
  const take = (): SeedOrder | undefined => {
    const isEnough = isOver || signal?.aborted === true || performance.now() >= endAt;
    if (isEnough || next >= from + seeds) return undefined;
    const seed = next++;
    return { seed, lines, twice: twiceEvery > 0 && (seed - from) % twiceEvery === 0 };
  };
  const heard = (report: SeedReport): void => {
    onReport(report);
    if (report.violation !== undefined && !keepGoing) isOver = true;
  };
  const count = Math.max(1, Math.min(workers, seeds));
  await Promise.all(Array.from({ length: count }, () => serve(take, heard, options)));
}

async function serve(
  take: () => SeedOrder | undefined,
  heard: (report: SeedReport) => void,
  { signal, silenceMillis = SILENCE_MILLIS, script = WORKER }: PoolOptions,
): Promise<void> {
  let child: ChildProcess | undefined;
  for (let order = take(); order !== undefined; order = take()) {
    if (child?.connected !== true) child = startChild(script);
    const report = await play(child, order, silenceMillis, signal);
    if (report === undefined) return;
    heard(report);
  }
  const last = child;
  if (last?.connected !== true) return;
  // No `close` comes to who disconnects.
  const ended = new Promise((resolve) => last.once('exit', resolve));
  last.disconnect();
  await ended;
}

const WORKER = join(import.meta.dirname, 'seed-worker.ts');

/** A seed leaves millions of short-lived objects: with room for them a sixth of the time is saved. */
export const NODE_FLAGS = ['--max-semi-space-size=32', '--import', 'tsx'];

function startChild(script: string): ChildProcess {
  const child = fork(script, {
    execArgv: NODE_FLAGS,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  // Its end is heard in any case.
  child.on('error', () => undefined);
  return child;
}

/** @returns undefined when the run was ended before. */
function play(
  child: ChildProcess,
  order: SeedOrder,
  silenceMillis: number,
  signal: AbortSignal | undefined,
): Promise<SeedReport | undefined> {
  const began = performance.now();
  let isSilent = false;
  const kill = (): void => void child.kill('SIGKILL');
  const guard = setTimeout(() => {
    isSilent = true;
    kill();
  }, silenceMillis);
  signal?.addEventListener('abort', kill);
  return new Promise<SeedReport | undefined>((resolve) => {
    child.once('message', (report) => {
      resolve(report as SeedReport);
    });
    child.once('close', (code, by) => {
      if (signal?.aborted === true) resolve(undefined);
      const end = isSilent
        ? `it did not end within ${silenceMillis} ms: it runs in circles`
        : `its process ended with ${code ?? by ?? 'nothing'}`;
      resolve(lostSeed(order.seed, end, performance.now() - began));
    });
    // A process that is gone is told by its end.
    child.send(order, () => undefined);
  }).finally(() => {
    clearTimeout(guard);
    signal?.removeEventListener('abort', kill);
    child.removeAllListeners('message').removeAllListeners('close');
  });
}

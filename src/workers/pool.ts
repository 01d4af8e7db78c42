/**
 * Checksums on worker threads, hashes on those of Node. A hop to a worker costs some 16 us of this thread and
 * 60 us of latency whatever the size, so only work above a threshold goes there; the rest is answered at once.
 */
import { Piscina } from 'piscina';
import { assert } from '../lib/assert.ts';
import { workerFile, type WorkerFile } from '../lib/worker-file.ts';
import type { Compute } from '../ports/compute.ts';
import type { ChecksumTask } from './checksum.worker.ts';
import { Digests } from './digests.ts';
import { checksumRanges } from './inline.ts';
import { Scratch } from './scratch.ts';

export interface PooledComputeOptions {
  /** Worker threads, started together at the first task that needs one. */
  readonly threads: number;
  /** Bytes in all ranges together from which on a checksum leaves this thread. */
  readonly thresholdBytes?: number;
  /** The same of hashes. */
  readonly hashThresholdBytes?: number;
  /** Another worker file, for tests of what happens when workers fail. */
  readonly worker?: WorkerFile;
}

/** From here on the hop is cheaper for this thread than the checksum; see bench/checksum.bench.ts. */
export const DEFAULT_THRESHOLD_BYTES = 256 * 1024;

/** Tasks that may wait in one worker: keeps it busy without a wake-up between them. */
const TASKS_A_WORKER = 8;
/** One copy that a worker reads and one that waits for it. */
const COPIES_A_WORKER = 2;
/** Pools that may break one after the other, without an answer between, before no more is started. */
const FAILURES_MAX = 3;

/**
 * A `Compute` over a pool of worker threads of fixed size. The threads start at the first large
 * task, never keep the process alive while idle, and end with `close()`.
 *
 * Bytes in shared memory are read where they are; others are copied into shared memory of the pool,
 * of which there are two pieces a thread: while none is free, such tasks are done inline.
 *
 * Every task is answered: one whose worker fails, or that is outstanding at `close()`, is done in
 * the caller's thread instead. After repeated failures without an answer all work stays there.
 */
export function pooledCompute(options: PooledComputeOptions): Compute {
  return new PooledCompute(options);
}

class PooledCompute implements Compute {
  readonly #threads: number;
  readonly #thresholdBytes: number;
  readonly #worker: WorkerFile;
  readonly #scratch: Scratch;
  readonly #digests: Digests;
  #pool: Piscina | undefined;
  #failures = 0;
  #closed = false;

  constructor(options: PooledComputeOptions) {
    const { threads, thresholdBytes = DEFAULT_THRESHOLD_BYTES, worker } = options;
    assert(Number.isSafeInteger(threads) && threads >= 1, 'threads is not a positive integer');
    assert(thresholdBytes >= 0, 'threshold is negative');
    this.#threads = threads;
    this.#thresholdBytes = thresholdBytes;
    this.#worker = worker ?? workerFile('checksum.worker', import.meta.url);
    this.#scratch = new Scratch(threads * COPIES_A_WORKER);
    this.#digests = new Digests(threads, options.hashThresholdBytes);
  }

  checksums(bytes: Uint8Array, ranges: Uint32Array): Uint32Array | Promise<Uint32Array> {
    const extent = extentOf(bytes, ranges);
    if (!this.#leavesThread(extent.totalBytes)) return checksumRanges(bytes, ranges);
    const { start, end } = extent;
    const run = (shared: Uint8Array, shifted: Uint32Array): Promise<Uint32Array> =>
      this.#run({ bytes: shared, ranges: shifted });
    if (bytes.buffer instanceof SharedArrayBuffer) return run(bytes, ranges);
    const copied = this.#onCopy(bytes.subarray(start, end), (copy) =>
      run(
        copy,
        ranges.map((offset) => offset - start),
      ),
    );
    return copied ?? checksumRanges(bytes, ranges);
  }

  sha256(bytes: Uint8Array): string | Promise<string> {
    return this.#digests.sha256(bytes);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#endPool(this.#pool);
  }

  #leavesThread(totalBytes: number): boolean {
    if (this.#closed || this.#failures >= FAILURES_MAX) return false;
    return totalBytes >= this.#thresholdBytes;
  }

  /** Undefined while no memory is free. */
  #onCopy<T>(bytes: Uint8Array, run: (copy: Uint8Array) => Promise<T>): Promise<T> | undefined {
    const copy = this.#scratch.take(bytes.length);
    if (copy === undefined) return undefined;
    copy.set(bytes);
    return run(copy).finally(() => this.#scratch.give(copy));
  }

  async #run(task: ChecksumTask): Promise<Uint32Array> {
    const pool = (this.#pool ??= this.#startPool());
    try {
      const answer = (await pool.run(task)) as Uint32Array;
      this.#failures = 0;
      return answer;
    } catch {
      // The worker died, the pool broke or was closed. The bytes are still here.
      return checksumRanges(task.bytes, task.ranges);
    }
  }

  #startPool(): Piscina {
    const pool = new Piscina({
      filename: this.#worker.filename,
      execArgv: this.#worker.execArgv,
      minThreads: this.#threads,
      maxThreads: this.#threads,
      concurrentTasksPerWorker: TASKS_A_WORKER,
      atomics: 'async',
      recordTiming: false,
    });
    // Tasks still queued for a pool whose workers cannot start would wait for ever, so a pool is
    // given up as a whole at the first death in it, and the next large task starts another.
    const giveUp = (): void => {
      if (this.#pool !== pool || this.#closed) return;
      this.#failures++;
      void this.#endPool(pool);
    };
    pool.on('error', giveUp);
    pool.on('workerDestroy', giveUp);
    return pool;
  }

  /** Rejects what is outstanding, so that it is done inline, and ends the threads. */
  async #endPool(pool: Piscina | undefined): Promise<void> {
    if (pool === undefined) return;
    if (this.#pool === pool) this.#pool = undefined;
    await pool.destroy();
  }
}

/** What the ranges cover: all bytes counted, and the stretch that holds them. */
interface Extent {
  readonly totalBytes: number;
  readonly start: number;
  readonly end: number;
}

/** Also refuses bad ranges, so that a mistake throws at once wherever the work is done. */
function extentOf(bytes: Uint8Array, ranges: Uint32Array): Extent {
  assert(ranges.length % 2 === 0, 'ranges are not pairs');
  let totalBytes = 0;
  let first = bytes.length;
  let last = 0;
  for (let index = 0; index < ranges.length; index += 2) {
    const start = ranges[index]!;
    const end = ranges[index + 1]!;
    assert(start <= end, 'range ends before it starts');
    assert(end <= bytes.length, 'range ends behind the bytes');
    totalBytes += end - start;
    first = Math.min(first, start);
    last = Math.max(last, end);
  }
  return { totalBytes, start: Math.min(first, last), end: last };
}

/** The parent's account of what its writers reported: kept outside of every process that is killed. */
import type { ReadOnlyEngine } from '../../engine/api.ts';
import { EngineError } from '../../lib/errors.ts';
import { quantileOf } from '../numbers.ts';
import type { Report } from './reports.ts';
import { addVerdicts, StreamVerifier, type Verdict } from './verifier.ts';

/** What one writer process did. */
interface RunTally {
  submitted: number;
  acknowledged: number;
  bodyBytes: number;
  firstMillis: number;
  lastMillis: number;
}

export interface Throughput {
  readonly records: number;
  readonly batches: number;
  readonly bodyBytes: number;
  readonly mbPerSecond: number;
  readonly ackP50Millis: number;
  readonly ackP99Millis: number;
}

export class Tally {
  readonly #streams: readonly string[];
  readonly #now: () => number;
  readonly #verifiers: StreamVerifier[];
  readonly #runs: RunTally[] = [];
  readonly #latencies: number[] = [];
  #records = 0;

  constructor(streams: readonly string[], now: () => number = () => performance.now()) {
    this.#streams = streams;
    this.#now = now;
    this.#verifiers = streams.map(() => new StreamVerifier());
  }

  /** A new writer begins; what is reported from here on is its. */
  beginRun(): void {
    const now = this.#now();
    this.#runs.push({
      submitted: 0,
      acknowledged: 0,
      bodyBytes: 0,
      firstMillis: now,
      lastMillis: now,
    });
  }

  take(report: Report): void {
    const run = this.#runs.at(-1)!;
    if (report.kind === 'appending') {
      run.firstMillis = this.#now();
    } else if (report.kind === 'submitted') {
      run.submitted = report.batches;
    } else if (report.kind === 'ack') {
      const { ack } = report;
      this.#verifiers[ack.stream]!.acknowledged(ack);
      run.acknowledged++;
      run.bodyBytes += ack.bodyBytes;
      run.lastMillis = this.#now();
      this.#records += ack.end - ack.start;
      this.#latencies.push(ack.latencyMillis);
    }
  }

  /** Acknowledged records and their bytes of all runs so far. */
  get progress(): { records: number; bodyBytes: number } {
    return { records: this.#records, bodyBytes: sum(this.#runs, (run) => run.bodyBytes) };
  }

  /** The newest `count` latencies. */
  recentLatencies(count: number): readonly number[] {
    return this.#latencies.slice(-count);
  }

  /** Batches of the current run that were accepted and not acknowledged, as far as was reported. */
  get unacknowledgedBatches(): number {
    const run = this.#runs.at(-1)!;
    return run.submitted - run.acknowledged;
  }

  throughput(): Throughput {
    const sorted = Float64Array.from(this.#latencies).sort();
    const bodyBytes = sum(this.#runs, (run) => run.bodyBytes);
    const millis = sum(this.#runs, (run) => run.lastMillis - run.firstMillis);
    return {
      records: this.#records,
      batches: this.#latencies.length,
      bodyBytes,
      mbPerSecond: millis === 0 ? 0 : bodyBytes / 1000 / millis,
      ackP50Millis: quantileOf(sorted, 0.5),
      ackP99Millis: quantileOf(sorted, 0.99),
    };
  }

  /**
   * Reads on from where the last call ended and judges every acknowledgement that was reported before
   * this call. Writers may go on meanwhile.
   */
  async readBack(
    reader: ReadOnlyEngine,
    onProgress: (records: number) => void = () => undefined,
  ): Promise<Verdict> {
    let records = 0;
    for (const [at, name] of this.#streams.entries()) {
      const verifier = this.#verifiers[at]!;
      const due = verifier.dueCount;
      for await (const batch of fromPosition(reader, name, verifier.next)) {
        for (const record of batch) verifier.read(record);
        records += batch.length;
        onProgress(records);
      }
      verifier.judge(due);
    }
    return addVerdicts(this.#verifiers.map((verifier) => verifier.verdict()));
  }
}

/** A stream that is not there, or ends before the position, holds nothing: what is due there is lost. */
async function* fromPosition(reader: ReadOnlyEngine, name: string, from: number | undefined) {
  try {
    yield* reader.read(name, from === undefined ? {} : { from }).batches();
  } catch (error) {
    const nothing =
      EngineError.is(error) && (error.code === 'STREAM_NOT_FOUND' || error.code === 'BEYOND_TAIL');
    if (!nothing) throw error;
  }
}

function sum<T>(items: readonly T[], read: (item: T) => number): number {
  return items.reduce((total, item) => total + read(item), 0);
}

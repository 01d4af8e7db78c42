/**
 * The demo: a writer process is killed in mid-stream, the next one fences what it left and goes on, and
 * everything is read back and compared with the acknowledgements, which the parent kept.
 */
import type { RecoverySummary } from '../../engine/api.ts';
import { EngineError } from '../../lib/errors.ts';
import type { Context } from '../context.ts';
import { sparkline } from '../drawing.ts';
import { errorOfChild } from '../load/child-failure.ts';
import type { Report } from '../load/reports.ts';
import { Tally } from '../load/tally.ts';
import type { Verdict } from '../load/verifier.ts';
import type { WriterConfig } from '../load/writer-config.ts';
import { startWriter, type WriterProcess } from '../load/writer-process.ts';
import { formatBytes, formatCount, formatMillis } from '../numbers.ts';
import type { Output } from '../output.ts';
import type { WriterOptions } from '../store.ts';
import { LiveBlock } from '../terminal.ts';
import { FenceView } from './fence-view.ts';
import type { DemoFigures, FenceFigures } from './result.ts';

export interface DemoPlan {
  readonly store: WriterOptions & { readonly root: string };
  /** Where the data is, for people. */
  readonly place: string;
  readonly seconds: number;
  readonly streams: number;
  readonly producers: number;
  readonly batchRecords: number;
  readonly inFlight: number;
  readonly files: readonly string[];
}

const PROGRESS_MILLIS = 100;
/** The kill falls at a random moment of this part of the run. */
const KILL_EARLIEST = 0.4;
const KILL_LATEST = 0.7;

export async function runDemo(
  context: Context,
  output: Output,
  plan: DemoPlan,
): Promise<DemoFigures> {
  const demo = new Demo(context, output, plan);
  try {
    return await demo.run();
  } finally {
    demo.dispose();
  }
}

class Demo {
  readonly #context: Context;
  readonly #output: Output;
  readonly #plan: DemoPlan;
  readonly #names: readonly string[];
  readonly #tally: Tally;
  readonly #firstRun = Math.floor(Math.random() * 1_000_000);
  #writer: WriterProcess | undefined;

  constructor(context: Context, output: Output, plan: DemoPlan) {
    this.#context = context;
    this.#output = output;
    this.#plan = plan;
    // Names that no earlier demo in the same directory used.
    const tag = this.#firstRun.toString().padStart(6, '0');
    this.#names = Array.from({ length: plan.streams }, (_, at) => `demo-${tag}-${at + 1}`);
    this.#tally = new Tally(this.#names);
  }

  async run(): Promise<DemoFigures> {
    const { seconds, store } = this.#plan;
    this.#announce();
    const share = KILL_EARLIEST + Math.random() * (KILL_LATEST - KILL_EARLIEST);
    const killed = await this.#untilKilled(seconds * 1000 * share);
    const after = await this.#afterKill(killed.atMillis, seconds * 1000 * (1 - share));
    const readBackStart = performance.now();
    const verdict = await this.#readBack();
    return {
      root: store.root,
      seconds,
      throughput: this.#tally.throughput(),
      kill: killed.kill,
      restartMillis: after.restartMillis,
      fence: after.fence,
      verdict,
      readBackMillis: performance.now() - readBackStart,
    };
  }

  /** No writer outlives the demo, however it ends. */
  dispose(): void {
    this.#writer?.kill();
  }

  async #untilKilled(millis: number) {
    const run = this.#start(this.#firstRun);
    await this.#waitFor(run, run.appending);
    await this.#append(run, millis);
    run.writer.kill();
    const atMillis = performance.now();
    await run.writer.ended;
    const unacknowledgedBatches = this.#tally.unacknowledgedBatches;
    this.#output.note(
      `SIGKILL after ${formatMillis(millis)}, ${formatCount(unacknowledgedBatches)} batches ` +
        'not acknowledged',
    );
    return { atMillis, kill: { afterMillis: millis, unacknowledgedBatches } };
  }

  async #afterKill(killedMillis: number, millis: number) {
    const view = new FenceView(this.#output.err);
    const run = this.#start(this.#firstRun + 1, (report) => {
      if (report.kind === 'fence' && !this.#output.json) view.show(report.progress);
    });
    await this.#waitFor(run, run.appending);
    const restartMillis = performance.now() - killedMillis;
    const fence = newestFence(await this.#waitFor(run, run.recovered));
    await this.#append(run, millis);
    run.writer.stop();
    const { exitCode } = await run.writer.ended;
    if (exitCode !== 0) throw await this.#failure(run);
    return { restartMillis, fence };
  }

  #start(run: number, onReport: (report: Report) => void = () => undefined): Run {
    const { store, producers, batchRecords, inFlight, files } = this.#plan;
    const config: WriterConfig = {
      store,
      run,
      streams: this.#names,
      producers,
      batchRecords,
      inFlight,
      files,
    };
    this.#tally.beginRun();
    const started = new Run(config, (report) => {
      this.#tally.take(report);
      onReport(report);
    });
    this.#writer = started.writer;
    return started;
  }

  /** Waits for a report of the writer; its early end or the wish to stop comes first. */
  async #waitFor<T>(run: Run, report: Promise<T>): Promise<T> {
    const { signal } = this.#context.shutdown;
    const stopped = new Promise<never>((_, reject) => {
      const stop = (): void => reject(new EngineError('ABORTED', 'the demo was stopped'));
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
    const ended = run.writer.ended.then(async () => {
      throw await this.#failure(run);
    });
    stopped.catch(() => undefined);
    ended.catch(() => undefined);
    return Promise.race([report, ended, stopped]);
  }

  async #append(run: Run, millis: number): Promise<void> {
    const live = new LiveBlock(this.#output.err);
    const rates: number[] = [];
    let bytes = this.#tally.progress.bodyBytes;
    const timer = setInterval(() => {
      const { records, bodyBytes } = this.#tally.progress;
      rates.push(((bodyBytes - bytes) / PROGRESS_MILLIS) * 1000);
      bytes = bodyBytes;
      live.update(() => [
        `${formatCount(records)} records  ${formatBytes(bodyBytes)}  ` +
          sparkline(rates, 30, this.#output.err.charset),
      ]);
    }, PROGRESS_MILLIS);
    let elapsed: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      elapsed = setTimeout(resolve, millis);
    });
    try {
      await this.#waitFor(run, over);
    } finally {
      clearInterval(timer);
      clearTimeout(elapsed);
      live.end();
    }
  }

  /** A reader of its own, without a lease: it sees what anybody would see. */
  async #readBack(): Promise<Verdict> {
    const reader = await this.#context.door.openReader(this.#plan.store);
    const live = new LiveBlock(this.#output.err);
    try {
      return await this.#tally.readBack(reader, (records) => {
        live.update(() => [`reading back: ${formatCount(records)} records`]);
      });
    } finally {
      live.end();
      await reader.close();
    }
  }

  async #failure(run: Run): Promise<EngineError> {
    const { exitCode, signal, stderr } = await run.writer.ended;
    const told = errorOfChild(run.failure);
    if (told !== undefined) return told;
    return new EngineError('INTERNAL', 'a writer process ended early', {
      details: {
        exitCode: exitCode ?? undefined,
        signal: signal ?? undefined,
        stderr: stderr === '' ? undefined : stderr,
      },
      sideEffects: 'possible',
    });
  }

  #announce(): void {
    const { store, place, seconds, streams, producers } = this.#plan;
    this.#output.note(
      `${store.buckets} buckets in ${place}, ${producers} producers, ${streams} streams, ` +
        `${seconds} s`,
    );
  }
}

/** One writer and the reports that the demo waits for. */
class Run {
  readonly writer: WriterProcess;
  readonly appending: Promise<void>;
  readonly recovered: Promise<RecoverySummary>;
  failure: Record<string, unknown> | undefined;

  constructor(config: WriterConfig, onReport: (report: Report) => void) {
    let onAppending!: () => void;
    let onRecovered!: (summary: RecoverySummary) => void;
    this.appending = new Promise((resolve) => {
      onAppending = resolve;
    });
    this.recovered = new Promise((resolve) => {
      onRecovered = resolve;
    });
    this.writer = startWriter(config, (report) => {
      if (report.kind === 'failed') this.failure = report.error;
      onReport(report);
      if (report.kind === 'appending') onAppending();
      if (report.kind === 'recovered') onRecovered(report.summary);
    });
  }
}

/** The killed writer's epoch is the newest of those that were fenced. */
function newestFence({ fences }: RecoverySummary): FenceFigures {
  const [newest] = [...fences].sort((a, b) => b.epoch - a.epoch);
  if (newest !== undefined) return newest;
  throw new EngineError('INVARIANT', 'the killed epoch was not fenced');
}

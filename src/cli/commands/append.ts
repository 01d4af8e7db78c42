import { Option, type Command } from 'commander';
import type { Ack, Engine, Stream } from '../../engine/api.ts';
import { Histogram } from '../../lib/metrics.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { addCommonOptions, outputOf, withEngine } from '../context.ts';
import type { CommonOptions, Context } from '../context.ts';
import { sparkline } from '../drawing.ts';
import { formatBytes, formatCount, formatMillis, formatRate, rounded } from '../numbers.ts';
import type { Output } from '../output.ts';
import { integerIn } from '../parse.ts';
import {
  checkReadable,
  fileSource,
  INPUT_FORMATS,
  inputBatches,
  streamSource,
} from '../records/input.ts';
import type { InputFormat, Source } from '../records/input.ts';
import { addWriterOptions, type WriterOptions } from '../store.ts';
import { LiveBlock } from '../terminal.ts';

interface AppendOptions extends WriterOptions, CommonOptions {
  readonly stream: string;
  readonly format: InputFormat;
  readonly batch: number;
  readonly inFlight: number;
  readonly fencingToken?: string;
  readonly matchSeqNum?: number;
}

const HELP = `
Every line of the input becomes one record. A batch is acknowledged when enough buckets hold it and
everything before it; only acknowledged records are counted. What was acknowledged survives a kill
of this process and a power cut. Without files, or with "-", standard input is read.

Examples:
  $ asterlog append --stream orders orders.ndjson --format ndjson
  $ tail -f /var/log/app.log | asterlog append --stream log
`;

export function registerAppend(program: Command, context: Context): void {
  const command = program
    .command('append')
    .summary('append lines or NDJSON from files or standard input')
    .description('Appends the lines of files or of standard input to a stream, durably.')
    .argument('[files...]', 'inputs, read one after the other; "-" is standard input')
    .requiredOption('--stream <name>', 'the stream; it is created if there is none')
    .addOption(
      new Option('--format <format>', 'what a line is: a body, or a record as JSON')
        .choices(INPUT_FORMATS)
        .default('lines'),
    )
    .addOption(
      new Option('--batch <records>', 'records a batch at most')
        .argParser(integerIn(1, LIMITS.batchRecords))
        .default(500),
    )
    .addOption(
      new Option('--in-flight <batches>', 'batches that may await their acknowledgement')
        .argParser(integerIn(1, 10_000))
        .default(64),
    )
    .option(
      '--fencing-token <token>',
      'append only while this is the token of the stream; "" while it has none',
    )
    .addOption(
      new Option(
        '--match-seq-num <number>',
        'append only if the first record gets this number, and each following one the next',
      ).argParser(integerIn(0, Number.MAX_SAFE_INTEGER)),
    );
  addCommonOptions(addWriterOptions(command))
    .addHelpText('after', HELP)
    .action((files: string[], options: AppendOptions) => append(context, files, options));
}

async function append(context: Context, files: string[], options: AppendOptions): Promise<void> {
  const output = outputOf(context, options);
  const sources = files.length === 0 ? ['-'] : files;
  await checkReadable(sources.filter((path) => path !== '-'));
  const run = new AppendRun(output, options.inFlight);
  try {
    await withEngine(context, options, {}, async (engine: Engine) => {
      const { fencingToken } = options;
      const stream = await engine.open(options.stream, {
        signal: context.shutdown.signal,
        ...(fencingToken === undefined ? {} : { fencingToken }),
      });
      await run.feed(
        stream,
        options.matchSeqNum,
        inputBatches(
          sources.map((path) => sourceOf(path, context)),
          {
            format: options.format,
            batchRecords: options.batch,
            signal: context.shutdown.signal,
          },
        ),
      );
    });
  } finally {
    // Also after a failure: a caller must learn how much of its input is durable.
    run.report(options.stream);
  }
}

function sourceOf(path: string, context: Context): Source {
  return path === '-' ? streamSource('standard input', context.stdin) : fileSource(path);
}

/** Counts of one run; a bounded number of batches awaits acknowledgement at any time. */
class AppendRun {
  readonly #output: Output;
  readonly #inFlight: number;
  readonly #latency = new Histogram();
  readonly #progress: LiveBlock;
  readonly #rates: number[] = [];
  readonly #startMillis = performance.now();
  #pending: Promise<void>[] = [];
  #failure: Error | undefined;
  #begun = false;
  #records = 0;
  #batches = 0;
  #bytes = 0;
  #first: Ack | undefined;
  #last: Ack | undefined;
  #rateBytes = 0;
  #rateMillis = 0;

  constructor(output: Output, inFlight: number) {
    this.#output = output;
    this.#inFlight = inFlight;
    this.#progress = new LiveBlock(output.err);
  }

  async feed(
    stream: Stream,
    matchSeqNum: number | undefined,
    batches: AsyncIterable<{ records: Parameters<Stream['submit']>[0]; bodyBytes: number }>,
  ): Promise<void> {
    this.#begun = true;
    let expected = matchSeqNum;
    for await (const { records, bodyBytes } of batches) {
      if (this.#pending.length >= this.#inFlight) await this.#pending[0];
      if (this.#failure !== undefined) break;
      const submittedMillis = performance.now();
      const ticket = await stream.submit(
        records,
        expected === undefined ? {} : { matchSeqNum: expected },
      );
      if (expected !== undefined) expected = ticket.endSeqNum;
      const acked = ticket.ack().then(
        (ack) => this.#acknowledged(ack, bodyBytes, submittedMillis),
        (error: unknown) => {
          this.#failure ??= error instanceof Error ? error : new Error(String(error));
        },
      );
      const settled = acked.finally(() => {
        this.#pending = this.#pending.filter((other) => other !== settled);
      });
      this.#pending.push(settled);
    }
    await Promise.all(this.#pending);
    if (this.#failure !== undefined) throw this.#failure;
  }

  #acknowledged(ack: Ack, bodyBytes: number, submittedMillis: number): void {
    const now = performance.now();
    this.#latency.record(now - submittedMillis);
    this.#records += ack.end.seqNum - ack.start.seqNum;
    this.#batches++;
    this.#bytes += bodyBytes;
    this.#first ??= ack;
    this.#last = ack;
    this.#progress.update(() => [this.#progressLine(now)]);
  }

  #progressLine(now: number): string {
    const { charset } = this.#output.err;
    const seconds = (now - Math.max(this.#rateMillis, this.#startMillis)) / 1000;
    this.#rates.push((this.#bytes - this.#rateBytes) / Math.max(seconds, 1e-3));
    this.#rateBytes = this.#bytes;
    this.#rateMillis = now;
    const rate = formatRate(this.#rates.at(-1)!);
    const spark = sparkline(this.#rates, 20, charset);
    return `${formatCount(this.#records)} records  ${formatBytes(this.#bytes)}  ${rate}  ${spark}`;
  }

  /** Says nothing of a run that never came to appending: its error says it all. */
  report(stream: string): void {
    if (!this.#begun) return;
    this.#progress.end();
    const millis = performance.now() - this.#startMillis;
    const perSecond = 1000 / Math.max(millis, 1e-3);
    const { p50, p99 } = this.#latency.summary();
    const [start, end] = [this.#first?.start, this.#last?.end];
    this.#output.result(
      {
        stream,
        records: this.#records,
        batches: this.#batches,
        bytes: this.#bytes,
        ...(start === undefined ? {} : { start }),
        ...(end === undefined ? {} : { end }),
        millis: rounded(millis),
        recordsPerSecond: rounded(this.#records * perSecond),
        mbPerSecond: rounded((this.#bytes * perSecond) / 1e6),
        ackP50Millis: rounded(p50),
        ackP99Millis: rounded(p99),
      },
      () => [
        `${formatCount(this.#records)} records (${formatBytes(this.#bytes)}) acknowledged in ` +
          `${formatMillis(millis)}, ${formatRate(this.#bytes * perSecond)}, ack p50 ` +
          `${formatMillis(p50)}, p99 ${formatMillis(p99)}`,
        ...(start === undefined || end === undefined
          ? []
          : [`${stream}: sequence numbers [${start.seqNum}, ${end.seqNum})`]),
      ],
    );
  }
}

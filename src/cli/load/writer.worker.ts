/**
 * A process that appends text as fast as it is acknowledged, until its standard input ends or it is
 * killed. Started by `startWriter`; the demo kills it to show what that costs.
 */
import { writeSync } from 'node:fs';
import type { Engine, Stream, Ticket } from '../../engine/api.ts';
import { logTo } from '../context.ts';
import { engineDoor } from '../door.ts';
import { failureOf } from './child-failure.ts';
import { loadCorpus, type Corpus } from './corpus.ts';
import { encodeReport, type Report } from './reports.ts';
import { buildSubmission, type Submission } from './submission.ts';
import { REPORT_FD, type WriterConfig } from './writer-config.ts';

/** Collects the reports of one turn of the event loop and hands them to the kernel in one write. */
class Reporter {
  #text = '';
  #submitted = 0;
  #scheduled = false;

  submitted(): void {
    this.#submitted++;
    this.#schedule();
  }

  report(report: Report): void {
    this.#text += encodeReport(report);
    this.#schedule();
  }

  /** A blocking write: when it returns, not even SIGKILL can take the reports back. */
  flush(): void {
    this.#scheduled = false;
    const submitted = encodeReport({ kind: 'submitted', batches: this.#submitted });
    const bytes = Buffer.from(submitted + this.#text);
    this.#text = '';
    for (let sent = 0; sent < bytes.length;) sent += writeSync(REPORT_FD, bytes, sent);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }
}

class Producer {
  readonly #config: WriterConfig;
  readonly #corpus: Corpus;
  readonly #reporter: Reporter;
  readonly #producer: number;
  #batch = 0;
  #line: number;

  constructor(config: WriterConfig, corpus: Corpus, reporter: Reporter, producer: number) {
    this.#config = config;
    this.#corpus = corpus;
    this.#reporter = reporter;
    this.#producer = producer;
    // Producers begin at different places of the text.
    this.#line = Math.floor((producer * corpus.lines.length) / config.producers);
  }

  /** Submits until the signal fires, then waits for what is in flight. */
  async run(stream: Stream, signal: AbortSignal): Promise<void> {
    const inFlight: Promise<void>[] = [];
    while (!signal.aborted) {
      const batch = this.#batch++;
      const submission = this.#nextSubmission(batch);
      const submittedMillis = performance.now();
      const ticket = await stream.submit(submission.records);
      this.#reporter.submitted();
      const acked = this.#report(ticket, { batch, submission, submittedMillis });
      // Awaited below, in order; a failure before that must not count as unhandled.
      acked.catch(() => undefined);
      inFlight.push(acked);
      if (inFlight.length >= this.#config.inFlight) await inFlight.shift();
    }
    await Promise.all(inFlight);
  }

  #nextSubmission(batch: number): Submission {
    const { run, batchRecords: count } = this.#config;
    const submission = buildSubmission(this.#corpus, this.#line, {
      run,
      producer: this.#producer,
      batch,
      count,
    });
    this.#line = (this.#line + count) % this.#corpus.lines.length;
    return submission;
  }

  async #report(
    ticket: Ticket,
    {
      batch,
      submission,
      submittedMillis,
    }: { batch: number; submission: Submission; submittedMillis: number },
  ): Promise<void> {
    const { start, end } = await ticket.ack();
    const { run, streams } = this.#config;
    this.#reporter.report({
      kind: 'ack',
      ack: {
        run,
        producer: this.#producer,
        batch,
        stream: this.#producer % streams.length,
        start: start.seqNum,
        startTimestamp: start.timestamp,
        end: end.seqNum,
        endTimestamp: end.timestamp,
        checksum: submission.checksum,
        bodyBytes: submission.bodyBytes,
        latencyMillis: Math.round((performance.now() - submittedMillis) * 1000) / 1000,
      },
    });
  }
}

async function write(config: WriterConfig, reporter: Reporter, signal: AbortSignal): Promise<void> {
  const corpus = loadCorpus(config.files);
  const engine = await engineDoor.openEngine(config.store, {
    ...(config.settings === undefined ? {} : { settings: config.settings }),
    ...(process.env['ASTERLOG_WRITER_LOG'] === undefined ? {} : { log: logTo(process.stderr) }),
    onFenceProgress: (progress) => {
      reporter.report({ kind: 'fence', progress });
    },
  });
  const recovered = engine.recovered().then((summary) => {
    reporter.report({ kind: 'recovered', summary });
  });
  recovered.catch(() => undefined);
  const streams = await openAll(engine, config.streams);
  const { epoch } = await engine.status();
  reporter.report({ kind: 'appending', epoch });
  await Promise.all(
    Array.from({ length: config.producers }, (_, producer) =>
      new Producer(config, corpus, reporter, producer).run(
        streams[producer % streams.length]!,
        signal,
      ),
    ),
  );
  await recovered;
  await engine.close({ timeoutMillis: config.store.closeTimeout });
  reporter.report({ kind: 'closed' });
}

function openAll(engine: Engine, names: readonly string[]): Promise<Stream[]> {
  return Promise.all(names.map((name) => engine.open(name)));
}

async function main(): Promise<void> {
  const stop = new AbortController();
  // The parent closes the pipe to stop us; it also closes when the parent dies.
  process.stdin.on('close', () => stop.abort()).resume();
  const reporter = new Reporter();
  try {
    await write(JSON.parse(process.argv[2]!) as WriterConfig, reporter, stop.signal);
  } catch (error) {
    reporter.report({ kind: 'failed', error: failureOf(error) });
    process.exitCode = 1;
  }
  reporter.flush();
  process.stdin.destroy();
}

await main();

/**
 * Producers that do not fail while leaders come and go: each batch is tried again until it is
 * acknowledged. One whose outcome is unknown goes out under a new id, so that a record that comes to
 * light twice is not mistaken for a doubled one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Engine, Stream } from '../../engine/api.ts';
import { EngineError, toEngineError } from '../../lib/errors.ts';
import type { Corpus } from '../load/corpus.ts';
import { buildSubmission } from '../load/submission.ts';
import type { MemberConfig } from './member-config.ts';
import { hostMillis, type MemberReport } from './reports.ts';

const TRY_MILLIS = 10_000;
const PAUSE_MILLIS = 25;

/** One stream's handle, opened again when it is over. */
export class SharedStream {
  readonly #engine: Engine;
  readonly #name: string;
  #handle: Promise<Stream> | undefined;

  constructor(engine: Engine, name: string) {
    this.#engine = engine;
    this.#name = name;
  }

  handle(): Promise<Stream> {
    if (this.#handle === undefined) {
      const handle = this.#engine.open(this.#name, { timeoutMillis: TRY_MILLIS });
      this.#handle = handle;
      handle.catch(() => this.#forget(handle));
    }
    return this.#handle;
  }

  /** Opens anew next time, if the error says that this handle is over. */
  failed({ kind }: EngineError): void {
    if (kind !== 'fenced' && kind !== 'closed') return;
    const handle = this.#handle;
    if (handle === undefined) return;
    this.#forget(handle);
    handle.then((stream) => stream.close({ timeoutMillis: TRY_MILLIS })).catch(() => undefined);
  }

  #forget(handle: Promise<Stream>): void {
    if (this.#handle === handle) this.#handle = undefined;
  }
}

export interface ProducerInput {
  readonly config: MemberConfig;
  readonly corpus: Corpus;
  readonly producer: number;
  readonly stream: SharedStream;
  readonly signal: AbortSignal;
  readonly report: (report: MemberReport) => void;
}

/** Appends until the signal fires; reports `gaveUp` and ends when a batch fails for `retryMillis`. */
export async function produce(input: ProducerInput): Promise<void> {
  const { config, corpus, producer, signal, report } = input;
  let line = Math.floor((producer * corpus.lines.length) / config.producers);
  let batch = 0;
  while (!signal.aborted) {
    const since = hostMillis();
    for (;;) {
      const { run, batchRecords: count } = config;
      const id = { run, producer, batch: batch++, count };
      const outcome = await tryOnce(input, line, id, since);
      if (outcome === undefined) break;
      report({ kind: 'retry', at: hostMillis(), code: outcome.code });
      if (hostMillis() - since > config.retryMillis) {
        report({ kind: 'gaveUp', producer, code: outcome.code });
        return;
      }
      await sleep(PAUSE_MILLIS);
      if (isOver(signal)) return;
    }
    line = (line + config.batchRecords) % corpus.lines.length;
  }
}

/** Asked again after a wait: what was false before may be true now. */
function isOver(signal: AbortSignal): boolean {
  return signal.aborted;
}

async function tryOnce(
  { config, corpus, stream, report }: ProducerInput,
  line: number,
  id: { readonly run: number; readonly producer: number; readonly batch: number; count: number },
  since: number,
): Promise<EngineError | undefined> {
  const submission = buildSubmission(corpus, line, id);
  try {
    const handle = await stream.handle();
    const { start, end } = await handle.append(submission.records, { timeoutMillis: TRY_MILLIS });
    const at = hostMillis();
    report({
      kind: 'ack',
      at,
      ack: {
        run: id.run,
        producer: id.producer,
        batch: id.batch,
        stream: id.producer % config.streams.length,
        start: start.seqNum,
        startTimestamp: start.timestamp,
        end: end.seqNum,
        endTimestamp: end.timestamp,
        checksum: submission.checksum,
        bodyBytes: submission.bodyBytes,
        latencyMillis: at - since,
      },
    });
    return undefined;
  } catch (cause) {
    const error = toEngineError(cause);
    stream.failed(error);
    return error;
  }
}

export interface TailCheckInput {
  readonly stream: SharedStream;
  readonly index: number;
  readonly everyMillis: number;
  readonly signal: AbortSignal;
  readonly report: (report: MemberReport) => void;
}

/** Asks for the tail again and again; what it answers is judged by the parent. */
export async function checkTails(input: TailCheckInput): Promise<void> {
  const { stream, index, everyMillis, signal, report } = input;
  while (!signal.aborted) {
    const askedAt = hostMillis();
    try {
      const handle = await stream.handle();
      const { seqNum } = await handle.checkTail({ timeoutMillis: TRY_MILLIS });
      report({ kind: 'tail', stream: index, askedAt, tail: seqNum });
    } catch (cause) {
      // No answer is no stale answer; whoever leads next answers the next question.
      const error = toEngineError(cause);
      stream.failed(error);
      report({ kind: 'retry', at: hostMillis(), code: error.code });
    }
    await sleep(everyMillis);
  }
}

/**
 * Extends the rows of all streams of one epoch, requested streams first. Coverage is per stream
 * (S3): whoever waits for one learns its outcome while the rest goes on.
 */
import { forEachBounded } from '../src/lib/bounded.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { endOf } from '../src/protocol/coverage.ts';
import type { SourceEntry } from '../src/protocol/coverage.ts';
import type { RowSource } from '../src/protocol/ref-rows.ts';
import { isDeleted } from './deleted-stream.ts';
import { extendRows, type SeenLastRow } from './ref-rows.ts';
import type { StarPorts } from './ports.ts';

export type StreamOutcome =
  | { readonly kind: 'covered'; readonly end: number }
  | { readonly kind: 'gap'; readonly end: number; readonly next: number }
  | { readonly kind: 'failed'; readonly error: EngineError };

export interface StreamCoverageInput {
  readonly source: RowSource;
  readonly streams: ReadonlyMap<string, readonly SourceEntry[]>;
  /** The streams in the order in which they are taken unless somebody asks. */
  readonly order: readonly string[];
  readonly concurrency: number;
  /** What is known already of a stream's last row. */
  seenRow(streamId: string): Promise<SeenLastRow | undefined>;
  /** Called once a stream's fate is known; not for failures that a later run may overcome. */
  onOutcome(streamId: string, outcome: StreamOutcome): void;
}

/** A run with that many failures ends early: most likely the metastore does not answer. */
const FAILURES_MAX = 64;

export class StreamCoverage {
  readonly #ports: StarPorts;
  readonly #input: StreamCoverageInput;
  readonly #outcomes = new Map<string, StreamOutcome>();
  readonly #requested: string[] = [];
  #started = new Set<string>();

  constructor(ports: StarPorts, input: StreamCoverageInput) {
    this.#ports = ports;
    this.#input = input;
  }

  get streamCount(): number {
    return this.#input.streams.size;
  }

  get coveredCount(): number {
    return this.#outcomes.size;
  }

  has(streamId: string): boolean {
    return this.#input.streams.has(streamId);
  }

  outcome(streamId: string): StreamOutcome | undefined {
    return this.#outcomes.get(streamId);
  }

  /** Takes the stream before those that nobody waits for. */
  request(streamId: string): void {
    if (this.has(streamId)) this.#requested.push(streamId);
  }

  /**
   * Takes every stream whose fate is not known yet; a run that was interrupted goes on.
   *
   * @throws EngineError a failure, after all other streams were taken (after many failures: not
   *   all); a retryable one if there is any, so that a further run can cover more.
   */
  async run(signal: AbortSignal): Promise<void> {
    this.#started = new Set(this.#outcomes.keys());
    const failures: EngineError[] = [];
    await forEachBounded(this.#pending(), this.#input.concurrency, async (streamId) => {
      if (signal.aborted || failures.length >= FAILURES_MAX) return;
      try {
        this.#note(streamId, await this.#extend(streamId, signal));
      } catch (cause) {
        const error = toEngineError(cause);
        failures.push(error);
        if (isFinal(error)) this.#note(streamId, { kind: 'failed', error });
      }
    });
    const failure = failures.find((error) => error.retryable) ?? failures[0];
    if (failure !== undefined) throw failure;
  }

  /** The gap to report: that of a requested stream if there is one. */
  gap(): { readonly streamId: string; readonly end: number; readonly next: number } | undefined {
    for (const streamId of [...this.#requested, ...this.#input.order]) {
      const outcome = this.#outcomes.get(streamId);
      if (outcome?.kind === 'gap') return { streamId, end: outcome.end, next: outcome.next };
    }
    return undefined;
  }

  /** A failure that no further run overcomes. */
  failure(): EngineError | undefined {
    for (const outcome of this.#outcomes.values()) {
      if (outcome.kind === 'failed') return outcome.error;
    }
    return undefined;
  }

  *#pending(): Iterable<string> {
    let requestedIndex = 0;
    const order = this.#input.order[Symbol.iterator]();
    for (;;) {
      // Looked at anew for every stream: requests come in while others are under way.
      while (requestedIndex < this.#requested.length) {
        const streamId = this.#requested[requestedIndex++]!;
        if (this.#start(streamId)) yield streamId;
      }
      const next = order.next();
      if (next.done === true) {
        if (requestedIndex === this.#requested.length) return;
      } else if (this.#start(next.value)) yield next.value;
    }
  }

  #start(streamId: string): boolean {
    if (this.#started.has(streamId)) return false;
    this.#started.add(streamId);
    return true;
  }

  #note(streamId: string, outcome: StreamOutcome): void {
    this.#outcomes.set(streamId, outcome);
    this.#input.onOutcome(streamId, outcome);
  }

  async #extend(streamId: string, signal: AbortSignal): Promise<StreamOutcome> {
    const entries = this.#input.streams.get(streamId)!;
    const seen = await this.#input.seenRow(streamId);
    const request = { ...this.#input.source, streamId, entries, seen };
    const result = await extendRows(this.#ports, request, { signal });
    if (result.kind === 'covered') return { kind: 'covered', end: result.end };
    // Deleted is final, so that even a stale read of it holds; nobody needs rows of such a stream.
    if (await isDeleted(this.#ports, streamId, signal)) {
      return { kind: 'covered', end: endOf(entries.at(-1)!) };
    }
    return result;
  }
}

/** Whether trying again cannot help. A wait that was given up says nothing about the stream. */
function isFinal(error: EngineError): boolean {
  return !error.retryable && error.kind !== 'cancelled';
}

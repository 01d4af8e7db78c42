/**
 * The parent's account of what several members acknowledged and answered, kept outside of every
 * process that is killed. Judges at the end: lost, reused, stale.
 */
import type { ReadOnlyEngine } from '../../engine/api.ts';
import type { AckReport } from '../load/reports.ts';
import { addVerdicts, StreamVerifier, type Verdict } from '../load/verifier.ts';
import type { MemberReport, TailReport } from './reports.ts';

interface TimedAck {
  readonly at: number;
  readonly start: number;
  readonly end: number;
}

export class Ledger {
  readonly #streams: readonly string[];
  readonly #verifiers: StreamVerifier[];
  readonly #acks: TimedAck[][];
  readonly #tails: TailReport[] = [];
  /** Time of the last acknowledgement of each producer of each run. */
  readonly #lastAck = new Map<string, number>();
  #longestStallMillis = 0;
  #records = 0;
  producerErrors = 0;
  retries = 0;

  constructor(streams: readonly string[]) {
    this.#streams = streams;
    this.#verifiers = streams.map(() => new StreamVerifier());
    this.#acks = streams.map(() => []);
  }

  take(report: MemberReport): void {
    if (report.kind === 'ack') this.#acknowledged(report.at, report.ack);
    else if (report.kind === 'tail') this.#tails.push(report);
    else if (report.kind === 'retry') this.retries++;
    else if (report.kind === 'gaveUp') this.producerErrors++;
  }

  /** Acknowledged records so far. */
  get records(): number {
    return this.#records;
  }

  get tailChecks(): number {
    return this.#tails.length;
  }

  /** The longest time between two acknowledgements of one producer, from its first one on. */
  get longestStallMillis(): number {
    return this.#longestStallMillis;
  }

  /** Streams with an acknowledgement of the run after `at`. */
  streamsAcknowledgedSince(at: number): number {
    return this.#acks.filter((acks) => (acks.at(-1)?.at ?? 0) > at).length;
  }

  /** Records acknowledged under numbers that another acknowledgement had, too. */
  reused(): number {
    let reused = 0;
    for (const acks of this.#acks) {
      const sorted = [...acks].sort((a, b) => a.start - b.start);
      let end = 0;
      for (const ack of sorted) {
        reused += Math.max(0, Math.min(end, ack.end) - ack.start);
        end = Math.max(end, ack.end);
      }
    }
    return reused;
  }

  /**
   * Answers that an acknowledgement contradicts which had been given, to whomever, before the question
   * was asked.
   */
  staleTails(): number {
    let stale = 0;
    this.#streams.forEach((_, stream) => {
      const acks = [...this.#acks[stream]!].sort((a, b) => a.at - b.at);
      const questions = this.#tails
        .filter((tail) => tail.stream === stream)
        .sort((a, b) => a.askedAt - b.askedAt);
      let next = 0;
      let known = 0;
      for (const { askedAt, tail } of questions) {
        for (; next < acks.length && acks[next]!.at < askedAt; next++) {
          known = Math.max(known, acks[next]!.end);
        }
        if (tail < known) stale++;
      }
    });
    return stale;
  }

  /** Reads every stream from its beginning and compares it with what was acknowledged. */
  async readBack(
    reader: ReadOnlyEngine,
    onProgress: (records: number) => void = () => undefined,
  ): Promise<Verdict> {
    let records = 0;
    for (const [stream, name] of this.#streams.entries()) {
      const verifier = this.#verifiers[stream]!;
      for await (const batch of reader.read(name).batches()) {
        for (const record of batch) verifier.read(record);
        records += batch.length;
        onProgress(records);
      }
      verifier.judge();
    }
    return addVerdicts(this.#verifiers.map((verifier) => verifier.verdict()));
  }

  #acknowledged(at: number, ack: AckReport): void {
    this.#verifiers[ack.stream]!.acknowledged(ack);
    this.#acks[ack.stream]!.push({ at, start: ack.start, end: ack.end });
    this.#records += ack.end - ack.start;
    const producer = `${ack.run}.${ack.producer}`;
    const before = this.#lastAck.get(producer);
    if (before !== undefined) {
      this.#longestStallMillis = Math.max(this.#longestStallMillis, at - before);
    }
    this.#lastAck.set(producer, at);
  }
}

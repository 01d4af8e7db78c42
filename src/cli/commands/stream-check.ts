import type { ReadRecord } from '../../engine/api.ts';

export interface StreamReport {
  readonly name: string;
  readonly records: number;
  readonly bytes: number;
  /** The first sequence number read, and one past the last. */
  readonly first?: number;
  readonly tail?: number;
  readonly problems: number;
  /** The first few problems in words. */
  readonly examples: readonly string[];
  /** What ended reading before the tail, checksums included. */
  readonly failure?: unknown;
}

const EXAMPLES = 5;

/** Contiguity of one stream as it is read: sequence numbers without gaps, timestamps in order. */
export class StreamCheck {
  readonly #name: string;
  readonly #examples: string[] = [];
  #records = 0;
  #bytes = 0;
  #first: number | undefined;
  #next: number | undefined;
  #lastTimestamp = 0;
  #problems = 0;

  constructor(name: string) {
    this.#name = name;
  }

  get records(): number {
    return this.#records;
  }

  add(records: readonly ReadRecord[]): void {
    for (const record of records) this.#addOne(record);
  }

  report(failure?: unknown): StreamReport {
    return {
      name: this.#name,
      records: this.#records,
      bytes: this.#bytes,
      ...(this.#first === undefined ? {} : { first: this.#first }),
      ...(this.#next === undefined ? {} : { tail: this.#next }),
      problems: this.#problems,
      examples: this.#examples,
      ...(failure === undefined ? {} : { failure }),
    };
  }

  #addOne({ seqNum, timestamp, body }: ReadRecord): void {
    this.#first ??= seqNum;
    const expected = this.#next ?? seqNum;
    if (seqNum > expected) this.#problem(`[${expected}, ${seqNum}) is missing`);
    if (seqNum < expected) this.#problem(`${seqNum} follows ${expected - 1}`);
    if (timestamp < this.#lastTimestamp) {
      this.#problem(`timestamp ${timestamp} of ${seqNum} is before ${this.#lastTimestamp}`);
    }
    this.#records++;
    this.#bytes += body.length;
    this.#next = seqNum + 1;
    this.#lastTimestamp = Math.max(timestamp, this.#lastTimestamp);
  }

  #problem(text: string): void {
    this.#problems++;
    if (this.#examples.length < EXAMPLES) this.#examples.push(text);
  }
}

/**
 * What happened in a simulation: every line enters a running hash, the latest lines stay readable.
 * Lines hold names, numbers and keys only, never an object's identity, so that one seed gives one
 * hash on every machine.
 */

export interface HistoryOptions {
  /** Lines kept for the trace of a failure. */
  readonly keepLines?: number;
}

export class History {
  readonly #lines: string[] = [];
  readonly #keep: number;
  #next = 0;
  #count = 0;
  #high = 0xdeadbeef;
  #low = 0x41c6ce57;

  constructor(options: HistoryOptions = {}) {
    this.#keep = Math.max(1, options.keepLines ?? 400);
  }

  /** Lines recorded so far, also those that the trace has forgotten. */
  get count(): number {
    return this.#count;
  }

  /** A line of the trace; enters the hash. */
  note(line: string): void {
    this.#count++;
    this.mix(line);
    this.#lines[this.#next] = line;
    this.#next = (this.#next + 1) % this.#keep;
  }

  /** Enters the hash without a line: for what happens too often to be read. */
  mix(text: string): void {
    let high = this.#high;
    let low = this.#low;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      high = Math.imul(high ^ unit, 2654435761);
      low = Math.imul(low ^ unit, 1597334677);
    }
    this.#high = (high ^ (low >>> 15)) | 0;
    this.#low = (low ^ (high >>> 13)) | 0;
  }

  mixNumber(value: number): void {
    const high = Math.imul(this.#high ^ Math.floor(value / 2 ** 32), 2654435761);
    const low = Math.imul(this.#low ^ (value | 0), 1597334677);
    this.#high = (high ^ (low >>> 15)) | 0;
    this.#low = (low ^ (high >>> 13)) | 0;
  }

  /** Equal for equal histories; different for different ones but for a chance of 2^-64. */
  get hash(): string {
    const hex = (value: number): string => (value >>> 0).toString(16).padStart(8, '0');
    return hex(this.#high) + hex(this.#low);
  }

  /** The latest lines, oldest first. */
  trace(lineCount = this.#keep): readonly string[] {
    const ordered =
      this.#lines.length < this.#keep
        ? this.#lines
        : [...this.#lines.slice(this.#next), ...this.#lines.slice(0, this.#next)];
    return ordered.slice(-lineCount);
  }
}

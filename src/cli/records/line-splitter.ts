import { EngineError } from '../../lib/errors.ts';

const NEWLINE = 0x0a;

export interface Line {
  /** From 1. */
  readonly number: number;
  /** Without its newline; a view of the chunk where the line lies in one chunk. */
  readonly bytes: Uint8Array;
}

/**
 * Cuts chunks of bytes at newlines. Nothing else is touched, so that the lines with their newlines
 * are the input again; a last line without one is a line too.
 */
export class LineSplitter {
  readonly #maxLineBytes: number;
  readonly #where: string;
  #parts: Uint8Array[] = [];
  #partBytes = 0;
  #lines = 0;

  /** @param where - names the input in errors. */
  constructor(where: string, maxLineBytes: number) {
    this.#where = where;
    this.#maxLineBytes = maxLineBytes;
  }

  /** The lines that this chunk completes. */
  push(chunk: Uint8Array): Line[] {
    const lines: Line[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      lines.push(this.#take(chunk.subarray(start, end)));
      start = end + 1;
    }
    if (start < chunk.length) this.#hold(chunk.subarray(start));
    return lines;
  }

  /** What is left behind the last newline. */
  end(): Line[] {
    return this.#partBytes === 0 ? [] : [this.#take(new Uint8Array(0))];
  }

  #take(last: Uint8Array): Line {
    this.#lines++;
    this.#check(this.#partBytes + last.length, this.#lines);
    if (this.#parts.length === 0) return { number: this.#lines, bytes: last };
    const bytes = Buffer.concat([...this.#parts, last]);
    this.#parts = [];
    this.#partBytes = 0;
    return { number: this.#lines, bytes };
  }

  #hold(part: Uint8Array): void {
    this.#parts.push(part);
    this.#partBytes += part.length;
    // Checked while it grows: an input without newlines must not fill the memory.
    this.#check(this.#partBytes, this.#lines + 1);
  }

  #check(bytes: number, number: number): void {
    if (bytes <= this.#maxLineBytes) return;
    throw new EngineError('RECORD_TOO_LARGE', 'a line of the input is too long', {
      details: { input: this.#where, line: number, bytes, max: this.#maxLineBytes },
    });
  }
}

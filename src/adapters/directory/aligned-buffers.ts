import { allocatePages } from '../../lib/pages.ts';

/** Direct writes take whole blocks from memory that begins on one. */
export const BLOCK_BYTES = 4096;
export const ALIGNED_BUFFER_BYTES = 1 << 20;
/** As many as the default thread pool can write at once, and some being filled meanwhile. */
const COUNT = 6;

/** A few page-aligned buffers, allocated when first needed and passed from write to write. */
export class AlignedBuffers {
  readonly #free: Uint8Array[] = [];
  readonly #waiting: ((buffer: Uint8Array) => void)[] = [];
  #allocated = 0;

  take(): Uint8Array | Promise<Uint8Array> {
    const buffer = this.#free.pop();
    if (buffer !== undefined) return buffer;
    if (this.#allocated < COUNT) {
      this.#allocated++;
      return allocatePages(ALIGNED_BUFFER_BYTES);
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  give(buffer: Uint8Array): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(buffer);
    else next(buffer);
  }
}

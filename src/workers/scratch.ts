import { assert } from '../lib/assert.ts';

/**
 * A few pieces of shared memory for bytes on their way to worker threads. Kept and reused: memory
 * that is touched for the first time costs more than the checksum that it should save.
 */
export class Scratch {
  readonly #countMax: number;
  readonly #free: Uint8Array[] = [];
  #takenCount = 0;

  /** @param countMax - pieces in existence at once; the largest request so far sets the size of each. */
  constructor(countMax: number) {
    assert(countMax >= 1, 'scratch memory has no piece');
    this.#countMax = countMax;
  }

  /** A piece of at least that size, with old bytes in it; `undefined` when all are taken. */
  take(byteCount: number): Uint8Array | undefined {
    if (this.#takenCount === this.#countMax) return undefined;
    this.#takenCount++;
    const fitting = this.#free.findIndex(({ length }) => length >= byteCount);
    if (fitting >= 0) return this.#free.splice(fitting, 1)[0]!;
    // All free ones are too small; one of them gives way when there may be no more.
    if (this.#takenCount + this.#free.length > this.#countMax) this.#free.pop();
    return new Uint8Array(new SharedArrayBuffer(byteCount));
  }

  give(piece: Uint8Array): void {
    assert(this.#takenCount > 0, 'scratch memory returned twice');
    this.#takenCount--;
    this.#free.push(piece);
  }
}

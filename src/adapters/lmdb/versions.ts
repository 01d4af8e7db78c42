import type { BytesDatabase } from './environment.ts';

const NEXT_KEY = Buffer.from('next-version');
const BYTES = 8;
/** Rarely reserved, and still half a billion reservations until safe integers run out. */
const BLOCK = 2 ** 24;

/**
 * Versions out of a store-wide counter. Each thread reserves a block of them and gives them out by
 * itself; what a process did not use when it ended is never used. So a version is unique in the
 * store for good, and a write can name its version before it is judged.
 */
export class VersionSource {
  readonly #system: BytesDatabase;
  #next = 0;
  #end = 0;

  constructor(system: BytesDatabase) {
    this.#system = system;
  }

  /** May block the thread for one commit, when a block is used up. */
  next(): number {
    if (this.#next === this.#end) this.#reserve();
    return this.#next++;
  }

  #reserve(): void {
    const system = this.#system;
    const start = system.transactionSync(() => {
      const found = system.getBinary(NEXT_KEY)?.readDoubleLE(0) ?? 1;
      const bytes = Buffer.alloc(BYTES);
      bytes.writeDoubleLE(found + BLOCK);
      system.putSync(NEXT_KEY, bytes);
      return found;
    });
    this.#next = start;
    this.#end = start + BLOCK;
  }
}

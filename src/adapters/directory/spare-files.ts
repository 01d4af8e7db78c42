/**
 * Temporary files made ahead of need: to make one is among the slowest steps of a small creation, above
 * all where many files were deleted lately, and needs nothing of the object. Each creation leaves one
 * for the next, made while nobody waits for it.
 */
import type { OpenMode } from './file-system.ts';
import type { TempFile } from './temp-files.ts';

/** As many of a kind as creations usually are under way; each holds a descriptor. */
const SPARES_MAX = 4;

export type CreateMode = Extract<OpenMode, 'create' | 'create-direct'>;

export class SpareFiles {
  readonly #make: (mode: CreateMode) => Promise<TempFile>;
  readonly #discard: (file: TempFile) => void;
  readonly #spares: Record<CreateMode, TempFile[]> = { create: [], 'create-direct': [] };
  readonly #making = new Set<Promise<void>>();
  #isClosed = false;

  constructor(make: (mode: CreateMode) => Promise<TempFile>, discard: (file: TempFile) => void) {
    this.#make = make;
    this.#discard = discard;
  }

  take(mode: CreateMode): TempFile | undefined {
    return this.#spares[mode].pop();
  }

  /** For the next creation of this kind. */
  add(mode: CreateMode): void {
    const spares = this.#spares[mode];
    if (this.#isClosed || spares.length + this.#making.size >= SPARES_MAX) return;
    const making = this.#make(mode)
      .then((file) => {
        if (this.#isClosed) this.#discard(file);
        else spares.push(file);
      })
      // Whoever needs a file makes one then, and learns what is wrong.
      .catch(() => undefined)
      .finally(() => this.#making.delete(making));
    this.#making.add(making);
  }

  /** Hands over what nobody took; none is made from now on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const spares of Object.values(this.#spares)) {
      for (const file of spares.splice(0)) this.#discard(file);
    }
    await Promise.all(this.#making);
  }
}

import { assert } from '../src/lib/assert.ts';

/** A piece of payload memory. Not shared between threads: stores into shared memory go byte by byte. */
export interface Arena {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Bytes that count against the pool; the capacity of `bytes`. */
  readonly sizeBytes: number;
}

/** Memory that may be given up for new batches: a flight that is kept only for tail reads. */
export interface Evictable {
  /** Gives the arena back to the pool. */
  evict(): void;
}

/**
 * Arenas for batches beyond the standard size are rounded up to steps of it, so that one batch can
 * use the arena of another: new memory costs more than all that is done with it.
 */
const STEP_BYTES = 256 * 1024;

/**
 * All payload memory of a star: open, sealed, in flight, awaiting copies and cached. Bounded by
 * `limitBytes`; arenas are used again, and given up only for one of another size.
 */
export class ArenaPool {
  readonly limitBytes: number;
  readonly standardBytes: number;
  readonly #newMemory: (sizeBytes: number) => Uint8Array<ArrayBuffer>;
  #usedBytes = 0;
  readonly #free = new Map<number, Arena[]>();
  /** Insertion order is age. */
  readonly #cached = new Set<Evictable>();
  #peakBytes = 0;
  /** Called after memory became available, free or evictable. */
  onRoom: () => void = () => undefined;

  /** @param allocate - where the memory comes from; buckets may want it aligned. */
  constructor(
    limitBytes: number,
    standardBytes: number,
    allocate: (sizeBytes: number) => Uint8Array<ArrayBuffer> = (size) => new Uint8Array(size),
  ) {
    assert(standardBytes <= limitBytes, 'the pool holds at least one arena');
    this.#newMemory = allocate;
    this.limitBytes = limitBytes;
    this.standardBytes = standardBytes;
  }

  /** Bytes of arenas that exist, free ones included: what the process holds. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  get peakBytes(): number {
    return this.#peakBytes;
  }

  /** An arena of at least `sizeBytes`, or undefined when the pool is exhausted for now. */
  acquire(sizeBytes: number): Arena | undefined {
    const size = this.#rounded(sizeBytes);
    for (;;) {
      const free = this.#free.get(size)?.pop();
      if (free !== undefined) return free;
      if (this.#fits(size)) return this.#allocate(size);
      const larger = this.#takeLarger(size);
      if (larger !== undefined) return larger;
      if (this.#dropFree()) continue;
      const oldest = this.#cached.values().next();
      if (oldest.done === true) return undefined;
      this.#cached.delete(oldest.value);
      oldest.value.evict();
    }
  }

  release(arena: Arena): void {
    const free = this.#free.get(arena.sizeBytes);
    if (free === undefined) this.#free.set(arena.sizeBytes, [arena]);
    else free.push(arena);
    this.onRoom();
  }

  /** Keeps memory for readers until somebody needs it. */
  cache(item: Evictable): void {
    this.#cached.add(item);
    this.onRoom();
  }

  #rounded(sizeBytes: number): number {
    const beyond = Math.max(0, sizeBytes - this.standardBytes);
    return this.standardBytes + Math.ceil(beyond / STEP_BYTES) * STEP_BYTES;
  }

  /** The smallest free arena beyond this size. */
  #takeLarger(size: number): Arena | undefined {
    let best: Arena[] | undefined;
    let bestSize = Infinity;
    for (const [each, arenas] of this.#free) {
      if (each <= size || each >= bestSize || arenas.length === 0) continue;
      best = arenas;
      bestSize = each;
    }
    return best?.pop();
  }

  /** Gives up one arena that nobody uses; false when there is none. */
  #dropFree(): boolean {
    for (const arenas of this.#free.values()) {
      const arena = arenas.pop();
      if (arena === undefined) continue;
      this.#usedBytes -= arena.sizeBytes;
      assert(this.#usedBytes >= 0, 'an arena is released once');
      return true;
    }
    return false;
  }

  #fits(sizeBytes: number): boolean {
    return this.#usedBytes + sizeBytes <= this.limitBytes;
  }

  #allocate(sizeBytes: number): Arena {
    const bytes = this.#newMemory(sizeBytes);
    this.#usedBytes += sizeBytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#usedBytes);
    return { bytes, view: new DataView(bytes.buffer, 0, sizeBytes), sizeBytes };
  }
}

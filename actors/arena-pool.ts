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
 * All payload memory of a star: open, sealed, in flight, awaiting copies and cached. Bounded by
 * `limitBytes`; arenas of the standard size are reused, larger ones are made for one batch each.
 */
export class ArenaPool {
  readonly limitBytes: number;
  readonly standardBytes: number;
  #usedBytes = 0;
  readonly #free: Arena[] = [];
  /** Insertion order is age. */
  readonly #cached = new Set<Evictable>();
  #peakBytes = 0;
  /** Called after memory became available, free or evictable. */
  onRoom: () => void = () => undefined;

  constructor(limitBytes: number, standardBytes: number) {
    assert(standardBytes <= limitBytes, 'the pool holds at least one arena');
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

  /** Whether memory is short enough that background copies should be given up. */
  get isShort(): boolean {
    return this.#free.length === 0 && this.#cached.size === 0 && !this.#fits(this.standardBytes);
  }

  /** An arena of at least `sizeBytes`, or undefined when the pool is exhausted for now. */
  acquire(sizeBytes: number): Arena | undefined {
    const size = Math.max(sizeBytes, this.standardBytes);
    for (;;) {
      if (size === this.standardBytes) {
        const free = this.#free.pop();
        if (free !== undefined) return free;
      }
      if (this.#fits(size)) return this.#allocate(size);
      if (size > this.standardBytes && this.#free.length > 0) {
        this.#usedBytes -= this.#free.pop()!.sizeBytes;
        continue;
      }
      const oldest = this.#cached.values().next();
      if (oldest.done === true) return undefined;
      this.#cached.delete(oldest.value);
      oldest.value.evict();
    }
  }

  release(arena: Arena): void {
    if (arena.sizeBytes === this.standardBytes) this.#free.push(arena);
    else this.#usedBytes -= arena.sizeBytes;
    assert(this.#usedBytes >= 0, 'an arena is released once');
    this.onRoom();
  }

  /** Keeps memory for readers until somebody needs it. */
  cache(item: Evictable): void {
    this.#cached.add(item);
    this.onRoom();
  }

  #fits(sizeBytes: number): boolean {
    return this.#usedBytes + sizeBytes <= this.limitBytes;
  }

  #allocate(sizeBytes: number): Arena {
    const buffer = new ArrayBuffer(sizeBytes);
    this.#usedBytes += sizeBytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#usedBytes);
    return { bytes: new Uint8Array(buffer), view: new DataView(buffer), sizeBytes };
  }
}

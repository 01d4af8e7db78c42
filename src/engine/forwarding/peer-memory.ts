/** Bytes that wait at one place, with a bound; whoever waits for room is told when some was freed. */
export class PeerMemory {
  readonly #bytesMax: number;
  readonly #waiting = new Set<() => void>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** One batch fits always: none is larger than the bound, but the bound must not refuse one either. */
  hasRoom(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#bytesMax;
  }

  take(bytes: number): void {
    this.#bytes += bytes;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const tell of waiting) tell();
  }

  /** Calls `tell` once, when something was released. */
  wait(tell: () => void): void {
    this.#waiting.add(tell);
  }

  forget(tell: () => void): void {
    this.#waiting.delete(tell);
  }
}

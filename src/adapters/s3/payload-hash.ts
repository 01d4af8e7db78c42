/** Answers at once for what is small, and may ask another thread for what is not. */
export type HashOf = (bytes: Uint8Array) => string | Promise<string>;

/**
 * SHA-256 of bodies on their way. A flight goes to all buckets of a set at once, as one and the same
 * array: its hash is computed by whoever comes first, and forgotten with the last call that carries
 * it, since its memory is used again for other bytes then.
 */
export class PayloadHashes {
  readonly #entries = new Map<Uint8Array, { hex: string | Promise<string>; uses: number }>();

  /** To be followed by one `release` of the same array, once the call has ended. */
  acquire(bytes: Uint8Array, hashOf: HashOf): string | Promise<string> {
    const entry = this.#entries.get(bytes);
    if (entry !== undefined) {
      entry.uses++;
      return entry.hex;
    }
    const hex = hashOf(bytes);
    this.#entries.set(bytes, { hex, uses: 1 });
    return hex;
  }

  release(bytes: Uint8Array): void {
    const entry = this.#entries.get(bytes);
    if (entry !== undefined && --entry.uses === 0) this.#entries.delete(bytes);
  }
}

/** Shared by all buckets of the thread. */
export const PAYLOAD_HASHES = new PayloadHashes();

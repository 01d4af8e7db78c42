import { webcrypto } from 'node:crypto';
import { sha256Hex } from './inline.ts';

/** From here on a hash costs this thread twice what handing it over does; see bench/checksum.bench.ts. */
export const HASH_THRESHOLD_BYTES = 128 * 1024;

/**
 * SHA-256 in the threads that Node has for such work. They get a copy, which is memory of the platform's
 * own, so nothing here has to be kept for it. At most so many are computed there at once: whoever comes
 * while they are computes inline, so that neither waits for the other.
 */
export class Digests {
  readonly #concurrent: number;
  readonly #thresholdBytes: number;
  #active = 0;

  constructor(concurrent: number, thresholdBytes = HASH_THRESHOLD_BYTES) {
    this.#concurrent = concurrent;
    this.#thresholdBytes = thresholdBytes;
  }

  /** In hex. A plain value was computed at once. */
  sha256(bytes: Uint8Array): string | Promise<string> {
    const isSmall = bytes.byteLength < this.#thresholdBytes;
    if (isSmall || this.#active >= this.#concurrent || !isOwn(bytes)) return sha256Hex(bytes);
    return this.#elsewhere(bytes);
  }

  async #elsewhere(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
    this.#active++;
    try {
      return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex');
    } finally {
      this.#active--;
    }
  }
}

/** What threads share is refused there. */
function isOwn(bytes: Uint8Array): bytes is Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer;
}

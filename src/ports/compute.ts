/**
 * Checksums and hashes of large buffers, inline or on worker threads. A plain value is answered when the work
 * was done inline, so the hot path pays no promise for small flights.
 */
export interface Compute {
  /**
   * CRC-32 of each range of `bytes`. `ranges` holds `[start, end)` pairs. The bytes must not change
   * until the answer is there; a buffer over a SharedArrayBuffer is not copied.
   */
  checksums(bytes: Uint8Array, ranges: Uint32Array): Uint32Array | Promise<Uint32Array>;
  /** SHA-256 of `bytes` in hex, on the same terms. */
  sha256(bytes: Uint8Array): string | Promise<string>;
  close(): Promise<void>;
}

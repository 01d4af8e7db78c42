/** Every fixed limit of the engine, in one place. Settable ones are in `settings.ts`. */
export const LIMITS = Object.freeze({
  /** Metered: 8 bytes + 2 a header + header bytes + body. */
  recordBytes: 1024 * 1024,
  batchRecords: 1_000,
  /** Metered, over all records of a batch. */
  batchBytes: 1024 * 1024,
  /** UTF-8 bytes of a stream name. */
  streamNameBytes: 512,
  fencingTokenBytes: 36,
  starNameBytes: 63,
  buckets: 16,
  window: 1_024,
  /** Entries of one page of `listStreams`. */
  listPage: 1_000,
  /** Records of one batch that a reader yields. */
  readBatchRecords: 1_000,
});

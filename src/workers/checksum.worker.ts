import { checksumRanges } from './inline.ts';

export interface ChecksumTask {
  readonly bytes: Uint8Array;
  readonly ranges: Uint32Array;
}

/** Runs in a worker thread: CRC-32 of each range. */
export default function checksum({ bytes, ranges }: ChecksumTask): Uint32Array {
  return checksumRanges(bytes, ranges);
}

import { checksumRanges, sha256Hex } from './inline.ts';

export interface ChecksumTask {
  readonly bytes: Uint8Array;
  readonly ranges: Uint32Array;
}

/** Runs in a worker thread: CRC-32 of each range. */
export default function checksum({ bytes, ranges }: ChecksumTask): Uint32Array {
  return checksumRanges(bytes, ranges);
}

export interface HashTask {
  readonly bytes: Uint8Array;
}

/** Runs in a worker thread too. */
export function sha256({ bytes }: HashTask): string {
  return sha256Hex(bytes);
}

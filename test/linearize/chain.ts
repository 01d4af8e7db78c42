/**
 * What a stream holds, in 64 bits: the left fold of XXH3 over the hashes of all record bodies, from 0
 * for the empty stream. The same chain as in the public S2 verification tool.
 */
import { xxh3 } from './xxh3.ts';

export const EMPTY_CHAIN = 0n;

const word = new Uint8Array(8);
const wordView = new DataView(word.buffer);

export function chained(chain: bigint, recordHash: bigint): bigint {
  wordView.setBigUint64(0, recordHash, true);
  return xxh3(word, chain);
}

export function foldRecords(chain: bigint, recordHashes: readonly bigint[]): bigint {
  return recordHashes.reduce(chained, chain);
}

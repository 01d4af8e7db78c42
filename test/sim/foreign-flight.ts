/** Objects of writers that this metastore never knew. */
import { crc32 } from '../../src/format/crc.ts';
import { encodeHead, HEAD_ROOM_BYTES } from '../../src/format/flight.ts';
import { encodeRecord, recordEncodedBytes } from '../../src/format/records.ts';

/** A sound flight under a nonce that no mint returned. */
export function foreignFlight(star: string, epoch: number, slot: number): Uint8Array {
  const length = recordEncodedBytes('foreign', []);
  const bytes = new Uint8Array(HEAD_ROOM_BYTES + length);
  encodeRecord(bytes, new DataView(bytes.buffer), HEAD_ROOM_BYTES, 1, 'foreign', []);
  const entry = {
    streamId: 'e'.repeat(32),
    firstSeqNum: 0,
    count: 1,
    offset: 0,
    length,
    firstTimestamp: 1,
    lastTimestamp: 1,
    checksum: crc32(bytes.subarray(HEAD_ROOM_BYTES)),
  };
  const fields = { star, epoch, slot, nonce: 'f'.repeat(32), released: slot };
  return bytes.slice(encodeHead(bytes, HEAD_ROOM_BYTES, fields, [entry]));
}

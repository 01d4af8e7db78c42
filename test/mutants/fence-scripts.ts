/** What storms meet too rarely of classify, fence and publish. */
import { crc32 } from '../../src/format/crc.ts';
import { encodeHead, HEAD_ROOM_BYTES } from '../../src/format/flight.ts';
import { encodeRecord, recordEncodedBytes } from '../../src/format/records.ts';
import { slotKey } from '../../src/protocol/keys.ts';
import type { Scenario } from '../sim/scenario.ts';

/** A bucket holds a flight of a writer whose metastore was lost, in the slot that would come next. */
export async function foreignFlightAboveTheEnd(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const b = await scenario.start('b');
  await scenario.append(a, await scenario.open(a, 's'));
  await scenario.wait(100);
  await scenario.world.bucket(2).store.createOnly(slotKey('a', 0, 1), foreignFlight('a', 0, 1));
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

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

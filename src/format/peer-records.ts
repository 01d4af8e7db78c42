/** The messages that carry records which were read: runs without a gap, cut to fit frames. */
import { FieldWriter } from './peer-fields.ts';
import { encodeRecord, recordEncodedBytes, type StoredRecord } from './records.ts';

const RECORDS = 12;
/** A message is sent at this size; one record more may pass it, and still fits a frame. */
const TARGET_BYTES = 256 * 1024;
const RECORDS_MAX = 1_000;

/** Messages with the records, in order: a new one at each gap in their numbers and at a size. */
export function* encodePeerRecords(records: readonly StoredRecord[]): Generator<Uint8Array> {
  let start = 0;
  let bytes = 0;
  for (const [index, record] of records.entries()) {
    const isNext = index === start || record.seqNum === records[index - 1]!.seqNum + 1;
    if (index > start && (!isNext || bytes >= TARGET_BYTES || index - start === RECORDS_MAX)) {
      yield encodeRun(records.slice(start, index), bytes);
      start = index;
      bytes = 0;
    }
    bytes += recordEncodedBytes(record.body, record.headers);
  }
  if (records.length > start) yield encodeRun(records.slice(start), bytes);
}

function encodeRun(run: readonly StoredRecord[], encodedBytes: number): Uint8Array {
  const writer = new FieldWriter(RECORDS, 12 + encodedBytes)
    .uint64(run[0]!.seqNum)
    .uint32(run.length);
  for (const { timestamp, body, headers } of run) {
    writer.at = encodeRecord(writer.bytes, writer.view, writer.at, timestamp, body, headers);
  }
  return writer.done();
}

/** Entries and rows that tests of ref rows share. */
import type { SourceEntry } from '../../src/protocol/coverage.ts';
import type { RefRow } from '../../src/protocol/records.ts';
import type { NewRefRow, RowSource } from '../../src/protocol/ref-rows.ts';

export const SET_ID = '5e'.repeat(16);
export const BUILDER = { star: 'builder', incarnation: '1c'.repeat(16) };
export const ATTEMPT = '0123456789abcdef';

/** Covers `[seq, seq + count)` in `slot`; timestamps are the sequence numbers times ten. */
export function entryOf(
  seq: number,
  count: number,
  slot = seq,
  delta?: SourceEntry['delta'],
): SourceEntry {
  const span = {
    seq,
    count,
    slot,
    offset: 216,
    length: 13 * count,
    checksum: 7,
    first: seq * 10,
    last: (seq + count - 1) * 10,
  };
  return delta === undefined ? { span } : { span, delta };
}

export function sourceFor(epoch = 3, star = 'main'): RowSource {
  return { star, epoch, set: SET_ID, builder: BUILDER };
}

export function stored(row: NewRefRow, attempt = ATTEMPT): RefRow {
  return { ...row, attempt };
}

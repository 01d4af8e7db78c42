/**
 * S1: settlement reads headers, no record. Whoever published a cut has ended its fence, and repairs
 * nothing any more; its callers read what rows cover. A body of another writer's epoch of which no
 * row covers anything is read by its settlement alone.
 */
import { DEFAULT_HEAD_READ_BYTES } from '../../../src/format/flight.ts';
import type { RefRow } from '../../../src/protocol/records.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import type { EpochChange } from '../meta-index.ts';
import { addressOf, epochName } from '../slot-index.ts';
import type { CheckContext, Checker } from './context.ts';

export class SettlementChecker implements Checker {
  readonly #context: CheckContext;
  /** Who published the cut of an epoch. */
  readonly #publishers = new Map<string, string>();
  /** To where rows ever covered a stream. */
  readonly #ends = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  epochChanged({ process, epoch, record, before }: EpochChange): void {
    if (record.cut === undefined || before?.cut !== undefined) return;
    this.#publishers.set(epochName(epoch), process);
  }

  rowChanged(streamId: string, row: RefRow): void {
    this.#ends.set(streamId, Math.max(this.#ends.get(streamId) ?? 0, row.end));
  }

  bucketSent({ op, key, process }: BucketCall): void {
    const address = addressOf(key);
    if (address === undefined || op !== 'readRange') return;
    const { slots, meta, fail } = this.#context;
    if (this.#publishers.get(epochName(address)) !== process) return;
    // A star that rolls serves its callers from its own uncovered flights.
    if (meta.epoch(address.star, address.epoch)?.minter === process) return;
    const contents = slots.find(address)?.contents ?? [];
    const isRecords = contents.every(
      // Of a longer head the rest is read as a range.
      ({ bodyStart, entries }) =>
        bodyStart <= DEFAULT_HEAD_READ_BYTES &&
        entries.every(
          ({ streamId, firstSeqNum, count }) =>
            (this.#ends.get(streamId) ?? 0) < firstSeqNum + count,
        ),
    );
    if (contents.length > 0 && isRecords) {
      fail('S1', `${process} reads records of ${key}, which it settles`);
    }
  }
}

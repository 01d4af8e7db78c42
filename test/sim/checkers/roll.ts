/**
 * R1: a flight that a cut placed below itself is acknowledged from there, and never sent again, by
 * whomever; what a process sent itself it sends again only when a cut left it over.
 */
import { parsePreamble } from '../../../src/format/preamble.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import { addressOf, epochName } from '../slot-index.ts';
import type { CheckContext, Checker } from './context.ts';

export class PlacementChecker implements Checker {
  readonly #context: CheckContext;
  readonly #sent = new Set<string>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketSent(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly' || this.#sent.has(call.key)) return;
    const read = parsePreamble(call.bytes!);
    if (!read.ok || read.preamble.kind !== 'flight') return;
    this.#sent.add(call.key);
    const { slots, meta, fail } = this.#context;
    for (const entry of slots.contentOf(address, call.bytes!)?.entries ?? []) {
      const { streamId, firstSeqNum, count } = entry;
      for (const { at } of slots.placesOf(streamId, firstSeqNum, firstSeqNum + count)) {
        if (at.star === address.star && at.epoch === address.epoch && at.slot === address.slot) {
          continue;
        }
        const { minter, record } = meta.epoch(at.star, at.epoch) ?? {};
        const cut = record?.cut;
        if (cut !== undefined && at.slot >= cut) continue;
        if (minter !== call.process) {
          // A successor gives numbers again that a zombie has used: T2 watches what becomes of those.
          if (cut === undefined) continue;
          // Who was cut off may still send what it assigned: nobody maps it.
          if (meta.epoch(address.star, address.epoch)?.record.cut !== undefined) continue;
        }
        const where = `${epochName(at)}/${at.slot}, ${cut === undefined ? 'which no cut placed' : `below the cut ${cut}`}`;
        fail(
          'R1',
          `${call.process} sends ${streamId} ${firstSeqNum} in ${call.key}: it is in ${where}`,
        );
      }
    }
  }
}

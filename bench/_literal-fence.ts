/**
 * The fence as the source document words it, for comparison: doubling one probe at a time, binary
 * search, then slot by slot from a little below. No waves, no identities, no hint.
 */
import { encodePoison, NO_EPOCH } from '../src/format/poison.ts';
import { PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { slotKey } from '../src/protocol/keys.ts';
import { classify, EMPTY, FLIGHT, POISON } from '../src/protocol/slot.ts';
import { EPOCH, NONCE, STAR } from './_sparse-store.ts';

export interface LiteralCost {
  readonly cut: number;
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
}

export async function literalFence(
  stores: readonly BucketStore[],
  epoch: { readonly copies: number; readonly window: number; readonly checkpoint: number },
): Promise<LiteralCost> {
  const quorum = { buckets: stores.length, copies: epoch.copies };
  const cost = { rounds: 0, gets: 0, puts: 0 };
  const observe = async (slot: number): Promise<Uint8Array> => {
    cost.rounds++;
    cost.gets += stores.length;
    const key = slotKey(STAR, EPOCH, slot);
    const found = await Promise.all(stores.map((store) => store.readHead(key, PREAMBLE_BYTES)));
    return Uint8Array.from(found, (outcome) => {
      if (outcome.kind !== 'found') return EMPTY;
      const expected = { star: STAR, epoch: EPOCH, slot, nonce: NONCE };
      const object = inspectSlotObject(outcome.bytes, outcome.sizeBytes, expected);
      return object.kind === 'flight' ? FLIGHT : POISON;
    });
  };
  const exists = async (slot: number): Promise<boolean> => (await observe(slot)).includes(FLIGHT);

  let low = epoch.checkpoint - 1;
  let step = 1;
  while (await exists(low + step)) {
    low += step;
    step *= 2;
  }
  let high = low + step;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await exists(middle)) low = middle;
    else high = middle;
  }

  let slot = Math.max(epoch.checkpoint, low - epoch.window + 1);
  for (;;) {
    const found = classify(quorum, await observe(slot));
    if (found.kind === 'committed') slot++;
    else if (found.kind === 'dead') return { cut: slot, ...cost };
    else if (found.kind === 'poison') {
      cost.rounds++;
      cost.puts++;
      const fencedBy = { star: STAR, incarnation: 'literal', epoch: NO_EPOCH };
      const fields = { star: STAR, epoch: EPOCH, slot, nonce: NONCE, fencedBy, atMillis: 0 };
      await stores[found.bucket]!.createOnly(slotKey(STAR, EPOCH, slot), encodePoison(fields));
    } else throw new Error(`this chain needs no ${found.kind}`);
  }
}

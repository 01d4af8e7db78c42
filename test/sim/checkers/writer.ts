/** What a writer may send: A2 one content a slot, A3 halt, M1 own mints only, T1 named before the first PUT. */
import { parsePreamble, type Preamble } from '../../../src/format/preamble.ts';
import type { CreateOutcome, ReadOutcome } from '../../../src/ports/bucket-store.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import { describe } from './acknowledged.ts';
import type { Operation, Outcome } from '../operations.ts';
import { addressOf, epochName, type SlotAddress } from '../slot-index.ts';
import type { CheckContext, Checker } from './context.ts';

function flightOf(call: BucketCall): Preamble | undefined {
  if (call.op !== 'createOnly' || call.bytes === undefined) return undefined;
  const read = parsePreamble(call.bytes);
  return read.ok && read.preamble.kind === 'flight' ? read.preamble : undefined;
}

/** A2: whatever is sent for a slot, by whomever, is one and the same flight. */
export class OneContentChecker implements Checker {
  readonly #context: CheckContext;

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketSent(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const { slots, meta, fail } = this.#context;
    const nonce = meta.epoch(address.star, address.epoch)?.record.nonce;
    const own = (slots.find(address)?.contents ?? []).filter(
      ({ preamble }) => preamble.nonce === nonce,
    );
    if (own.length > 1) fail('A2', `${call.process} sends a second content for ${call.key}`);
    const read = parsePreamble(call.bytes!);
    const known =
      flightOf(call) === undefined || slots.contentOf(address, call.bytes!) !== undefined;
    if (!read.ok || !known) fail('A2', `${call.process} sends damaged bytes for ${call.key}`);
  }
}

/** M1 and T1, at the first PUT of a slot. */
export class FirstPutChecker implements Checker {
  readonly #context: CheckContext;
  readonly #sent = new Set<string>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketSent(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined || flightOf(call) === undefined || this.#sent.has(call.key)) return;
    this.#sent.add(call.key);
    const { star, epoch } = address;
    const { slots, meta, fail } = this.#context;
    const minter = meta.epoch(star, epoch)?.minter;
    if (minter !== call.process) {
      fail('M1', `${call.process} writes ${call.key} of an epoch minted by ${minter ?? 'nobody'}`);
    }
    for (const { streamId } of slots.contentOf(address, call.bytes!)?.entries ?? []) {
      if (meta.wasNamed(streamId, star, epoch)) continue;
      fail('T1', `${call.process} sends records of ${streamId} in ${call.key} before it is named`);
    }
  }
}

/**
 * A3: once a writer was shown poison or a foreign flight in its epoch it assigns no further slot,
 * and acknowledges from that slot on only what a published cut places.
 */
export class HaltChecker implements Checker {
  readonly #context: CheckContext;
  /** Lowest slot in which the writer of an epoch was shown poison or a foreign object. */
  readonly #halted = new Map<string, number>();
  readonly #highest = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketAnswered(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined) return;
    const { minter, record } = this.#context.meta.epoch(address.star, address.epoch) ?? {};
    if (minter !== call.process || record === undefined) return;
    const shown = shownBytes(outcome as CreateOutcome | ReadOutcome);
    if (shown === undefined) return;
    const read = parsePreamble(shown);
    if (!read.ok) return;
    const { kind, nonce } = read.preamble;
    if (kind !== 'poison' && nonce === record.nonce) return;
    const name = epochName(address);
    this.#halted.set(name, Math.min(this.#halted.get(name) ?? address.slot, address.slot));
  }

  bucketSent(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined || flightOf(call) === undefined) return;
    if (this.#context.meta.epoch(address.star, address.epoch)?.minter !== call.process) return;
    const name = epochName(address);
    const highest = this.#highest.get(name) ?? -1;
    if (address.slot > highest && this.#halted.has(name)) {
      this.#context.fail('A3', `${call.process} assigns ${call.key} after it was shown the end`);
    }
    this.#highest.set(name, Math.max(highest, address.slot));
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    if (outcome.kind !== 'appended') return;
    const { slots, fail } = this.#context;
    const places = slots.placesOf(operation.streamId, outcome.start, outcome.end);
    const allowed = places.some(
      ({ at }) =>
        at.slot < (this.#halted.get(epochName(at)) ?? Number.POSITIVE_INFINITY) ||
        this.#isPlaced(at),
    );
    if (!allowed) fail('A3', `${describe(operation)} acknowledged after its writer had to halt`);
  }

  #isPlaced(at: SlotAddress): boolean {
    const cut = this.#context.meta.epoch(at.star, at.epoch)?.record.cut;
    return cut !== undefined && at.slot < cut;
  }
}

function shownBytes(outcome: CreateOutcome | ReadOutcome): Uint8Array | undefined {
  if (outcome.kind === 'exists') return outcome.head;
  return outcome.kind === 'found' ? outcome.bytes : undefined;
}

/** What a writer may send: A2 one content a slot, A3 halt, M1 own mints only, T1 named before the first PUT. */
import type { FlightEntry } from '../../../src/format/flight.ts';
import { parsePreamble, type Preamble } from '../../../src/format/preamble.ts';
import type { CreateOutcome, ReadOutcome } from '../../../src/ports/bucket-store.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import { describe } from './acknowledged.ts';
import type { Operation, Outcome } from '../operations.ts';
import { addressOf, epochName, type SlotAddress } from '../slot-index.ts';
import { DurablePrefixes, type CheckContext, type Checker } from './context.ts';

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

/**
 * At the first PUT of a slot: M1, T1, R4 a batch that is sent again is so under an unbroken
 * leadership, and what may lie above a cut is confined to the window (F2).
 */
export class FirstPutChecker implements Checker {
  readonly #context: CheckContext;
  readonly #prefixes: DurablePrefixes;
  readonly #sent = new Set<string>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.#prefixes = new DurablePrefixes(context);
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
    const { window } = meta.epoch(star, epoch)?.record ?? { window: Number.POSITIVE_INFINITY };
    const durable = this.#prefixes.of(star, epoch);
    if (address.slot >= durable + window) {
      fail('F2', `${call.process} assigns ${call.key}, ${window} beyond ${durable}`);
    }
    for (const entry of slots.contentOf(address, call.bytes!)?.entries ?? []) {
      // Who was cut off may still send what it assigned: nobody maps it.
      if (meta.epoch(star, epoch)?.record.cut === undefined) this.#checkAgain(call, address, entry);
      if (meta.wasNamed(entry.streamId, star, epoch)) continue;
      fail(
        'T1',
        `${call.process} sends records of ${entry.streamId} in ${call.key} before it is named`,
      );
    }
  }

  #checkAgain(call: BucketCall, address: SlotAddress, entry: FlightEntry): void {
    const { slots, meta, fail } = this.#context;
    const { streamId, firstSeqNum, count, checksum } = entry;
    for (const { at, entry: other } of slots.placesOf(streamId, firstSeqNum, firstSeqNum + count)) {
      if (at.star === address.star && at.epoch === address.epoch) continue;
      const isAgain =
        other.firstSeqNum === firstSeqNum && other.count === count && other.checksum === checksum;
      const isOwn = meta.epoch(at.star, at.epoch)?.minter === call.process;
      if (isAgain && isOwn && !this.#ledThroughout(streamId, at)) {
        fail('R4', `${call.process} sends ${streamId} ${firstSeqNum} again after others led it`);
      }
    }
  }

  /** Nobody but the star had the stream since the epoch was named. */
  #ledThroughout(streamId: string, { star, epoch }: SlotAddress): boolean {
    const changes = this.#context.meta.writersOf(streamId);
    for (let i = changes.length - 1; i >= 0; i--) {
      const { record } = changes[i]!;
      if (record.kind !== 'tenure' || record.tenure.star !== star) return false;
      if (record.tenure.epoch === epoch) return true;
    }
    return false;
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

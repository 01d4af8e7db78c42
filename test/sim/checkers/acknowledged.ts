/** A1 and F2 at the moment of an acknowledgement, A4 by what the writer had been told. */
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import type { CreateOutcome, ReadOutcome } from '../../../src/ports/bucket-store.ts';
import { parsePreamble } from '../../../src/format/preamble.ts';
import type { Operation, Outcome } from '../operations.ts';
import { addressOf, epochName, type EntryPlace } from '../slot-index.ts';
import {
  copyQuorumOf,
  countCopies,
  DurablePrefixes,
  type AckView,
  type CheckContext,
  type Checker,
} from './context.ts';

interface AckedRecord {
  readonly streamId: string;
  readonly seqNum: number;
  readonly places: readonly EntryPlace[];
}

/**
 * A1: an acknowledged record stands in a slot with W identical copies, and every lower slot had W.
 * F2: nothing at or above a published cut is acknowledged.
 */
export class AcknowledgedChecker implements Checker, AckView {
  readonly #context: CheckContext;
  readonly #prefixes: DurablePrefixes;
  readonly #ackedEnds = new Map<string, number>();
  readonly #bySlot = new Map<string, Map<number, AckedRecord[]>>();

  constructor(context: Omit<CheckContext, 'acks'>) {
    this.#context = { ...context, acks: this };
    this.#prefixes = new DurablePrefixes(this.#context);
  }

  ackedEnd(streamId: string): number {
    return this.#ackedEnds.get(streamId) ?? 0;
  }

  ackedFrom(star: string, epoch: number, slot: number): number | undefined {
    for (const [at, records] of this.#bySlot.get(epochName({ star, epoch })) ?? []) {
      if (at < slot) continue;
      const onlyThere = records.some(({ places }) => places.every((place) => this.#isCut(place)));
      if (onlyThere) return at;
    }
    return undefined;
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    if (outcome.kind !== 'appended') return;
    const { streamId, bodies } = operation;
    const end = outcome.start + bodies.length;
    if (outcome.end !== end) {
      this.#context.fail(
        'A5',
        `${describe(operation)} got ${outcome.end - outcome.start} positions`,
      );
    }
    for (const [index, body] of bodies.entries()) {
      this.#check(operation, outcome.start + index, body);
    }
    this.#ackedEnds.set(streamId, Math.max(this.ackedEnd(streamId), end));
  }

  #check(operation: Operation, seqNum: number, body: string): void {
    const { slots, fail } = this.#context;
    const { streamId } = operation;
    const places = slots
      .placesOf(streamId, seqNum, seqNum + 1)
      .filter((place) => slots.textsOf(place)[seqNum - place.entry.firstSeqNum] === body);
    if (places.length > 0 && places.every((place) => this.#isCut(place))) {
      fail('F2', `${describe(operation)} acknowledged at ${seqNum} at or above the cut`);
    }
    const durable = places.filter((place) => this.#isStored(place) && this.#isDurable(place));
    if (durable.length === 0) {
      const where = places.map(({ at }) => `${epochName(at)}/${at.slot}`).join(' ') || 'nowhere';
      fail('A1', `${describe(operation)} acknowledged at ${seqNum} without W copies: in ${where}`);
      return;
    }
    const record: AckedRecord = { streamId, seqNum, places: durable };
    for (const { at } of durable) {
      const name = epochName(at);
      const ofEpoch = this.#bySlot.get(name) ?? new Map<number, AckedRecord[]>();
      this.#bySlot.set(name, ofEpoch);
      ofEpoch.set(at.slot, [...(ofEpoch.get(at.slot) ?? []), record]);
    }
  }

  #isStored({ at, content }: EntryPlace): boolean {
    const copyQuorum = copyQuorumOf(this.#context, at.star, at.epoch);
    return copyQuorum !== undefined && countCopies(at.held, content) >= copyQuorum;
  }

  #isDurable({ at }: EntryPlace): boolean {
    return this.#prefixes.of(at.star, at.epoch) > at.slot;
  }

  #isCut({ at }: EntryPlace): boolean {
    const cut = this.#context.meta.epoch(at.star, at.epoch)?.record.cut;
    return cut !== undefined && at.slot >= cut;
  }
}

/**
 * A4: a copy counts only by an answer that proves it: created, or read and found to be the own
 * flight. An acknowledgement that no published cut explains needs W of them.
 */
export class EvidenceChecker implements Checker {
  readonly #context: CheckContext;
  /** Slot key by process: buckets that showed this process the epoch's own flight. */
  readonly #evidence = new Map<string, Set<string>>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketAnswered(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined) return;
    const nonce = this.#context.meta.epoch(address.star, address.epoch)?.record.nonce;
    const shown =
      call.op === 'createOnly'
        ? createdBytes(call, outcome as CreateOutcome)
        : foundBytes(outcome as ReadOutcome);
    if (shown === undefined) return;
    const read = parsePreamble(shown);
    if (!read.ok || read.preamble.kind !== 'flight' || read.preamble.nonce !== nonce) return;
    const name = `${call.process} ${epochName(address)}/${address.slot}`;
    const buckets = this.#evidence.get(name) ?? new Set<string>();
    this.#evidence.set(name, buckets.add(call.target));
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    if (outcome.kind !== 'appended') return;
    const { meta, slots, fail } = this.#context;
    const places = slots.placesOf(operation.streamId, outcome.start, outcome.end);
    const proven = places.some(({ at }) => {
      const epoch = meta.epoch(at.star, at.epoch);
      if (epoch === undefined) return false;
      // Placed by the cut: the fence proved it.
      if (epoch.record.cut !== undefined && at.slot < epoch.record.cut) return true;
      const slot = ` ${epochName(at)}/${at.slot}`;
      // A forwarded batch is proven to the holder, whichever process that is.
      const shown =
        operation.mayBeForwarded === true
          ? [...this.#evidence].filter(([name]) => name.endsWith(slot)).map(([, found]) => found)
          : [this.#evidence.get(`${operation.process}${slot}`)];
      return shown.some((found) => (found?.size ?? 0) >= epoch.record.copyQuorum);
    });
    if (!proven) fail('A4', `${describe(operation)} acknowledged without W answers that prove it`);
  }
}

function createdBytes(call: BucketCall, outcome: CreateOutcome): Uint8Array | undefined {
  if (outcome.kind === 'created') return call.bytes;
  return outcome.kind === 'exists' ? outcome.head : undefined;
}

function foundBytes(outcome: ReadOutcome): Uint8Array | undefined {
  return outcome.kind === 'found' ? outcome.bytes : undefined;
}

export function describe({ id, process, stream, kind }: Operation): string {
  return `${kind} ${id} of ${process} on ${stream}`;
}

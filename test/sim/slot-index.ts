/**
 * What lies in the buckets, slot by slot: built from the bytes that really arrived, through the
 * formats alone, so that it knows nothing of what the engine believes.
 */
import { parseFlight, type FlightEntry } from '../../src/format/flight.ts';
import { parsePreamble, type Preamble } from '../../src/format/preamble.ts';
import { commandOf, decodeRecords, type StoredRecord } from '../../src/format/records.ts';
import { unpad } from '../../src/protocol/keys.ts';
import type { BucketCall } from '../../src/testing/bucket-fates.ts';
import type { WorldObserver } from '../../src/testing/world.ts';

/** One possible content of a slot, as it was first sent. */
export interface SlotContent {
  readonly preamble: Preamble;
  readonly entries: readonly FlightEntry[];
  readonly bodyStart: number;
  readonly bytes: Uint8Array;
}

export interface SlotState {
  readonly star: string;
  readonly epoch: number;
  readonly slot: number;
  /** Different flights that were ever sent for the slot. One, if A2 holds. */
  readonly contents: SlotContent[];
  /** Buckets that hold a flight now. */
  readonly copies: Map<string, SlotContent>;
  /** Buckets that ever held one and did not lose it by a wipe. */
  readonly held: Map<string, SlotContent>;
  readonly poisoned: Set<string>;
}

export interface SlotAddress {
  readonly star: string;
  readonly epoch: number;
  readonly slot: number;
}

/** Where a range of one stream's records stands. */
export interface EntryPlace {
  readonly at: SlotState;
  readonly content: SlotContent;
  readonly entry: FlightEntry;
}

export function addressOf(key: string): SlotAddress | undefined {
  const match = /^[0-9a-f]{4}\/([^/]+)\/(\d{16})\/(\d{16})$/.exec(key);
  if (match === null) return undefined;
  return { star: match[1]!, epoch: unpad(match[2]!)!, slot: unpad(match[3]!)! };
}

export const epochName = ({ star, epoch }: { star: string; epoch: number }): string =>
  `${star}/${epoch}`;

const decoder = new TextDecoder();

/** A record as the checkers compare it: its body, or `#fence:TOKEN` or `#trim:NUMBER`. */
export function textOf(record: Pick<StoredRecord, 'headers' | 'body'>): string {
  const command = record.headers.length === 1 ? commandOf(record) : undefined;
  if (command === undefined) return decoder.decode(record.body);
  return command.command === 'fence'
    ? `#fence:${command.fencingToken}`
    : `#trim:${command.trimPoint}`;
}

export class SlotIndex implements WorldObserver {
  readonly #epochs = new Map<string, Map<number, SlotState>>();
  readonly #places = new Map<string, EntryPlace[]>();
  readonly #texts = new WeakMap<FlightEntry, readonly string[]>();

  bucketSent(call: BucketCall): void {
    if (call.op !== 'createOnly') return;
    const address = addressOf(call.key);
    if (address !== undefined) this.contentOf(address, call.bytes!);
  }

  bucketApplied(call: BucketCall, outcome: { readonly kind: string }): void {
    if (call.op === 'createOnly' && outcome.kind === 'created') this.#stored(call);
    if (call.op === 'delete' && outcome.kind === 'deleted') this.forget(call.target, call.key);
  }

  bucketWiped(bucket: string): void {
    for (const slots of this.#epochs.values()) {
      for (const state of slots.values()) {
        state.copies.delete(bucket);
        state.held.delete(bucket);
        state.poisoned.delete(bucket);
      }
    }
  }

  /** An object went away. */
  forget(bucket: string, key: string): void {
    const address = addressOf(key);
    const state = address === undefined ? undefined : this.find(address);
    state?.copies.delete(bucket);
    state?.poisoned.delete(bucket);
  }

  find({ star, epoch, slot }: SlotAddress): SlotState | undefined {
    return this.#epochs.get(epochName({ star, epoch }))?.get(slot);
  }

  slotsOf(star: string, epoch: number): ReadonlyMap<number, SlotState> {
    return this.#epochs.get(epochName({ star, epoch })) ?? new Map<number, SlotState>();
  }

  /** Places that hold any record of `[start, end)` of the stream, oldest first. */
  placesOf(streamId: string, start: number, end: number): readonly EntryPlace[] {
    return (this.#places.get(streamId) ?? []).filter(
      ({ entry }) => entry.firstSeqNum < end && start < entry.firstSeqNum + entry.count,
    );
  }

  allPlacesOf(streamId: string): readonly EntryPlace[] {
    return this.#places.get(streamId) ?? [];
  }

  /** The records of a place as text, in order; commands as `textOf` has them. */
  textsOf(place: EntryPlace): readonly string[] {
    const known = this.#texts.get(place.entry);
    if (known !== undefined) return known;
    const texts = this.recordsOf(place).map(textOf);
    this.#texts.set(place.entry, texts);
    return texts;
  }

  /** The records of a place, in order. */
  recordsOf({ content, entry }: EntryPlace): readonly StoredRecord[] {
    const start = content.bodyStart + entry.offset;
    const bytes = content.bytes.subarray(start, start + entry.length);
    return decodeRecords(bytes, entry.firstSeqNum, entry.count);
  }

  /** The known content that equals these bytes; undefined for poison and for what does not parse. */
  contentOf(address: SlotAddress, bytes: Uint8Array): SlotContent | undefined {
    const state = this.#at(address);
    const known = state.contents.find((content) => Buffer.compare(content.bytes, bytes) === 0);
    if (known !== undefined) return known;
    const parsed = parseFlight(bytes);
    if (!parsed.ok) return undefined;
    const { preamble, entries, bodyStart } = parsed;
    const content: SlotContent = { preamble, entries, bodyStart, bytes: bytes.slice() };
    state.contents.push(content);
    for (const entry of entries) {
      const places = this.#places.get(entry.streamId) ?? [];
      if (places.length === 0) this.#places.set(entry.streamId, places);
      places.push({ at: state, content, entry });
    }
    return content;
  }

  #stored(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined) return;
    const state = this.#at(address);
    const content = this.contentOf(address, call.bytes!);
    if (content !== undefined) {
      state.copies.set(call.target, content);
      state.held.set(call.target, content);
      return;
    }
    const read = parsePreamble(call.bytes!);
    if (read.ok && read.preamble.kind === 'poison') state.poisoned.add(call.target);
  }

  #at(address: SlotAddress): SlotState {
    const { star, epoch, slot } = address;
    const name = epochName(address);
    let slots = this.#epochs.get(name);
    if (slots === undefined) {
      slots = new Map();
      this.#epochs.set(name, slots);
    }
    let state = slots.get(slot);
    if (state === undefined) {
      state = {
        star,
        epoch,
        slot,
        contents: [],
        copies: new Map(),
        held: new Map(),
        poisoned: new Set(),
      };
      slots.set(slot, state);
    }
    return state;
  }
}

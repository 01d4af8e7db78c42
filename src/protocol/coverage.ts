/**
 * What the headers of a range of slots say about every stream in them: the entries that rows must
 * cover, in the order of their slots. Pure. Source: DESIGN "Settle".
 */
import { assert } from '../lib/assert.ts';
import type { FlightEntry, StateDelta } from '../format/flight.ts';
import type { Span } from './spans.ts';

/** One entry of one flight as a row takes it: where its records lie, and what it changes. */
export interface SourceEntry {
  /** `offset` counts from the start of the slot object. */
  readonly span: Span;
  readonly delta?: StateDelta;
}

/** @param bodyStart - where the body starts in the slot object: preamble and header come first. */
export function sourceOf(entry: FlightEntry, slot: number, bodyStart: number): SourceEntry {
  const span: Span = {
    seq: entry.firstSeqNum,
    count: entry.count,
    slot,
    offset: bodyStart + entry.offset,
    length: entry.length,
    checksum: entry.checksum,
    first: entry.firstTimestamp,
    last: entry.lastTimestamp,
  };
  return entry.delta === undefined ? { span } : { span, delta: entry.delta };
}

/** First position after the entry. */
export function endOf(entry: SourceEntry): number {
  return entry.span.seq + entry.span.count;
}

/** The entries of `[from, to)`, by stream. Slots are added in any order, each once. */
export class CoveragePlan {
  readonly from: number;
  readonly to: number;
  readonly #slots: (readonly FlightSource[] | undefined)[];
  #missing: number;

  constructor(from: number, to: number) {
    assert(from <= to, 'a plan covers a range of slots');
    this.from = from;
    this.to = to;
    this.#slots = new Array<undefined>(to - from).fill(undefined);
    this.#missing = to - from;
  }

  has(slot: number): boolean {
    return this.#slots[slot - this.from] !== undefined;
  }

  add(slot: number, entries: readonly FlightEntry[], bodyStart: number): void {
    assert(slot >= this.from && slot < this.to, 'a slot lies in the range of its plan');
    if (this.has(slot)) return;
    this.#slots[slot - this.from] = entries.map((entry) => ({
      streamId: entry.streamId,
      source: sourceOf(entry, slot, bodyStart),
    }));
    this.#missing--;
  }

  get isComplete(): boolean {
    return this.#missing === 0;
  }

  /** Entries of each stream in slot order. Only a complete plan knows them. */
  byStream(): Map<string, SourceEntry[]> {
    assert(this.isComplete, 'coverage is planned from all headers of a range');
    const streams = new Map<string, SourceEntry[]>();
    for (const flight of this.#slots) {
      for (const { streamId, source } of flight!) {
        const list = streams.get(streamId);
        if (list === undefined) streams.set(streamId, [source]);
        else list.push(source);
      }
    }
    return streams;
  }
}

interface FlightSource {
  readonly streamId: string;
  readonly source: SourceEntry;
}

/**
 * The order in which a builder takes the streams: by id, beginning at a point that depends on the
 * builder. Settlers that race on one epoch so meet in the middle instead of at every row.
 */
export function streamOrder(streamIds: Iterable<string>, builder: string): string[] {
  const sorted = [...streamIds].sort();
  const turn = sorted.findIndex((streamId) => streamId >= builder);
  return turn <= 0 ? sorted : [...sorted.slice(turn), ...sorted.slice(0, turn)];
}

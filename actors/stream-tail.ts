/**
 * What a leader knows of the newest records of a stream: acknowledged entries, where they lie, and
 * their flight's memory while the pool can spare it. Source: DESIGN "Read".
 */
import type { FlightEntry } from '../src/format/flight.ts';
import { assert } from '../src/lib/assert.ts';
import type { Span } from '../src/protocol/spans.ts';
import type { Flight } from './flight.ts';

/** The epoch and the set whose buckets hold a slot. */
export interface EntrySource {
  readonly star: string;
  readonly epoch: number;
  readonly set: string;
}

export interface TailEntry {
  readonly source: EntrySource;
  readonly span: Span;
  readonly flight: Flight;
  readonly entry: FlightEntry;
}

const PRUNE_STEP = 64;

export class StreamTail {
  #entries: TailEntry[] = [];
  #coveredEnd: number;
  #end: number;

  /** @param end - where the stream ended when this leader took it; rows cover everything below. */
  constructor(end: number) {
    this.#end = end;
    this.#coveredEnd = end;
  }

  get end(): number {
    return this.#end;
  }

  /** Rows reach this position. */
  get coveredEnd(): number {
    return this.#coveredEnd;
  }

  add(flight: Flight, entry: FlightEntry, source: EntrySource): void {
    assert(entry.firstSeqNum === this.#end, 'T2 acknowledged entries of a stream are contiguous');
    this.#end += entry.count;
    this.#entries.push({
      source,
      flight,
      entry,
      span: {
        seq: entry.firstSeqNum,
        count: entry.count,
        slot: flight.slot,
        offset: flight.bodyStart + entry.offset,
        length: entry.length,
        checksum: entry.checksum,
        first: entry.firstTimestamp,
        last: entry.lastTimestamp,
      },
    });
    if (this.#entries.length % PRUNE_STEP === 0) this.#prune();
  }

  setCovered(end: number): void {
    this.#coveredEnd = Math.max(this.#coveredEnd, end);
    this.#prune();
  }

  /** The entry that holds the record, or undefined when only rows know it. */
  find(seqNum: number): TailEntry | undefined {
    const index = this.#indexOf(seqNum);
    const found = this.#entries[index];
    return found !== undefined &&
      found.span.seq <= seqNum &&
      seqNum < found.span.seq + found.span.count
      ? found
      : undefined;
  }

  /** First position with a timestamp at or after the given one, among the entries known here. */
  findEntryByTimestamp(timestamp: number): TailEntry | undefined {
    return this.#entries.find(({ span }) => span.last >= timestamp);
  }

  /** Where the entries known here begin; below it only rows know. */
  get start(): number {
    return this.#entries[0]?.span.seq ?? this.#end;
  }

  #indexOf(seqNum: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { span } = this.#entries[middle]!;
      if (span.seq + span.count <= seqNum) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Drops the oldest entries that rows cover and whose memory is gone. */
  #prune(): void {
    let count = 0;
    while (count < this.#entries.length) {
      const { span, flight } = this.#entries[count]!;
      if (span.seq + span.count > this.#coveredEnd || !flight.isFreed) break;
      count++;
    }
    if (count > 0) this.#entries = this.#entries.slice(count);
  }
}

/**
 * A flight in memory: first open and growing, then sealed, then in a slot. Batches are encoded once,
 * behind room for the head, and the same view goes to all buckets. Source: DESIGN "Append (A)".
 */
import { assert } from '../src/lib/assert.ts';
import {
  encodeHead,
  FLIGHT_ENTRIES_MAX,
  HEAD_ROOM_BYTES,
  type FlightEntry,
  type FlightFields,
  type StateDelta,
} from '../src/format/flight.ts';
import { crc32 } from '../src/format/crc.ts';
import { ALIGN_BYTES, filledUp } from '../src/format/preamble.ts';
import type { Arena, ArenaPool } from './arena-pool.ts';

/** Small batches of one stream share an entry up to this size; a cold read fetches whole entries. */
const ENTRY_BYTES_TARGET = 64 * 1024;
/** From here on padding to whole blocks costs less than the copies that it saves; 6 % at most. */
const ALIGNED_BODY_BYTES_MIN = 128 * 1024;

/** A batch inside a flight: whom to tell when the flight is acknowledged. */
export interface FlightPart {
  readonly streamId: string;
  readonly startSeqNum: number;
  readonly endSeqNum: number;
  /** Called once, in slot order, when the flight is acknowledged. */
  acknowledged(nowMillis: number): void;
  /** Called once when it is certain that the batch will not be acknowledged in this epoch. */
  dropped(error: Error): void;
}

/** An entry while its flight grows; `offset` counts from the start of the body. */
interface OpenEntry {
  streamId: string;
  firstSeqNum: number;
  count: number;
  offset: number;
  length: number;
  firstTimestamp: number;
  lastTimestamp: number;
  checksum: number;
  delta?: StateDelta;
}

export interface BatchShape {
  readonly streamId: string;
  readonly firstSeqNum: number;
  readonly count: number;
  readonly firstTimestamp: number;
  readonly lastTimestamp: number;
  readonly delta: StateDelta | undefined;
}

export class Flight {
  readonly arena: Arena;
  readonly parts: FlightPart[] = [];
  readonly #pool: ArenaPool;
  readonly #entries: OpenEntry[] = [];
  #end = HEAD_ROOM_BYTES;
  /** Where the object starts in the arena once its head is written. */
  #start = HEAD_ROOM_BYTES;
  /** Where it ends then, padding included. */
  #objectEnd = HEAD_ROOM_BYTES;
  /** Requests that still read the arena, the owner until it has answered, and the tail cache. */
  #holders = 1;
  #cached = false;
  /** Set once a slot is assigned. */
  slot = -1;
  released = -1;
  /** Linger passed while the window was busy: seal as soon as a slot is free. */
  lingered = false;

  constructor(pool: ArenaPool, arena: Arena) {
    this.#pool = pool;
    this.arena = arena;
  }

  /** Arena bytes that a batch of this encoded size needs on its own. */
  static arenaBytes(bodyBytes: number): number {
    return HEAD_ROOM_BYTES + filledUp(bodyBytes, ALIGN_BYTES);
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  get bodyBytes(): number {
    return this.#end - HEAD_ROOM_BYTES;
  }

  get entries(): readonly FlightEntry[] {
    return this.#entries;
  }

  /** Where the body starts in the object. */
  get bodyStart(): number {
    return HEAD_ROOM_BYTES - this.#start;
  }

  hasRoom(bodyBytes: number): boolean {
    return (
      filledUp(this.#end + bodyBytes, ALIGN_BYTES) <= this.arena.sizeBytes &&
      this.#entries.length < FLIGHT_ENTRIES_MAX
    );
  }

  /** Offset in the arena where the next batch is to be encoded. */
  get writeOffset(): number {
    return this.#end;
  }

  /** Takes over a batch that was encoded at `writeOffset` and ends at `end`. */
  add(batch: BatchShape, end: number, part: FlightPart): void {
    assert(end > this.#end && end <= this.arena.sizeBytes, 'a batch lies inside its arena');
    const length = end - this.#end;
    // Now, while the processor still has them at hand: later costs twice as much.
    const added = this.arena.bytes.subarray(this.#end, end);
    const last = this.#entries.at(-1);
    if (
      last?.streamId === batch.streamId &&
      last.length + length <= ENTRY_BYTES_TARGET &&
      last.firstSeqNum + last.count === batch.firstSeqNum
    ) {
      last.count += batch.count;
      last.length += length;
      last.checksum = crc32(added, last.checksum);
      last.lastTimestamp = batch.lastTimestamp;
      if (batch.delta !== undefined) last.delta = { ...last.delta, ...batch.delta };
    } else {
      // One by one: to copy all but some costs as much as encoding ten records.
      const entry: OpenEntry = {
        streamId: batch.streamId,
        firstSeqNum: batch.firstSeqNum,
        count: batch.count,
        offset: this.bodyBytes,
        length,
        firstTimestamp: batch.firstTimestamp,
        lastTimestamp: batch.lastTimestamp,
        checksum: crc32(added),
      };
      if (batch.delta !== undefined) entry.delta = batch.delta;
      this.#entries.push(entry);
    }
    this.#end = end;
    this.parts.push(part);
  }

  /**
   * Leaves the slot of an ended epoch, to be sent again in another one (R1). No request reads the
   * memory any more.
   */
  leaveSlot(): void {
    this.slot = -1;
    this.released = -1;
    this.#start = HEAD_ROOM_BYTES;
  }

  /** Takes the batches of a stream out (R4); answers them. No request reads the memory. */
  removeStream(streamId: string): readonly FlightPart[] {
    assert(this.slot === -1, 'A2 a flight in a slot does not change');
    let end = HEAD_ROOM_BYTES;
    const kept: OpenEntry[] = [];
    for (const entry of this.#entries) {
      if (entry.streamId === streamId) continue;
      const start = HEAD_ROOM_BYTES + entry.offset;
      this.arena.bytes.copyWithin(end, start, start + entry.length);
      entry.offset = end - HEAD_ROOM_BYTES;
      end += entry.length;
      kept.push(entry);
    }
    this.#entries.splice(0, this.#entries.length, ...kept);
    this.#end = end;
    const removed = this.parts.filter((part) => part.streamId === streamId);
    const left = this.parts.filter((part) => part.streamId !== streamId);
    this.parts.splice(0, this.parts.length, ...left);
    return removed;
  }

  /** Writes the head for its slot; from now on the object's bytes never change (A2). */
  assign(fields: FlightFields): void {
    assert(this.slot === -1, 'A2 a flight gets one slot');
    this.slot = fields.slot;
    this.released = fields.released;
    const alignBytes = this.bodyBytes >= ALIGNED_BODY_BYTES_MIN ? ALIGN_BYTES : 0;
    const { bytes } = this.arena;
    this.#start = encodeHead(bytes, HEAD_ROOM_BYTES, fields, this.#entries, alignBytes);
    this.#objectEnd = filledUp(this.#end, alignBytes);
  }

  /** The object as it goes to every bucket. */
  objectBytes(): Uint8Array {
    return this.arena.bytes.subarray(this.#start, this.#objectEnd);
  }

  /** A copy of one entry's bytes, or undefined when the arena was given up. */
  copyEntry(entry: { readonly offset: number; readonly length: number }): Uint8Array | undefined {
    if (this.#holders === 0) return undefined;
    const start = HEAD_ROOM_BYTES + entry.offset;
    const copy = new Uint8Array(entry.length);
    copy.set(this.arena.bytes.subarray(start, start + entry.length));
    return copy;
  }

  /** The memory was given up: the bytes are in the buckets only. */
  get isFreed(): boolean {
    return this.#holders === 0;
  }

  hold(): void {
    assert(this.#holders > 0, 'a freed flight is not held again');
    this.#holders++;
  }

  /** Ends one hold. The last one leaves the memory to readers until the pool wants it. */
  letGo(): void {
    assert(this.#holders > 0, 'every hold ends once');
    if (this.#holders > 1 || this.#cached) {
      this.#holders--;
      if (this.#holders === 0) this.#pool.release(this.arena);
      return;
    }
    // Whoever waits for memory may evict this flight before `cache` returns.
    this.#cached = true;
    this.#pool.cache(this);
  }

  evict(): void {
    this.letGo();
  }
}

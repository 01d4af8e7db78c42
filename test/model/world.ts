/**
 * The world of the model: K buckets times S slots, an adversarial writer, a trimmer, a settler, one
 * wipe, and fencers that run the product's rules. Small enough to visit every state; a state is four
 * integers.
 *
 * The writer assigns up to released + P, its writes land at any time, it acknowledges as soon as W
 * copies exist. Requests of a wave are executed in any order, between any two steps of the others.
 */
import { EMPTY, FLIGHT, POISON } from '../../src/protocol/slot.ts';
import {
  CONFIRMED,
  CREATED,
  flightCode,
  IDENTITY_LOST,
  LOST,
  PENDING,
  PROBE_FIRST,
  probeBase,
  Violation,
  type FencerSpace,
  type PackedRecord,
  type Request,
} from './fencer.ts';

export interface Bounds {
  readonly buckets: number;
  readonly copies: number;
  readonly window: number;
  /** Slots that the writer may use; fencers may need one more. */
  readonly slots: number;
  readonly fencers: 1 | 2;
  /** Checkpoint advances, slots below it are deleted. */
  readonly trim?: boolean;
  /** Anybody may poison ahead of a walk. */
  readonly barrier?: boolean;
  /** After publication: settle, delete below the cut and in [cut, cut + P]. */
  readonly sweep?: boolean;
  /** One bucket may be emptied, once; its identity is gone then. */
  readonly wipe?: boolean;
  /** The writer counts a copy only in a bucket whose identity it confirmed after it. */
  readonly writerChecksIdentity?: boolean;
  /** Flights carry the released watermark. */
  readonly watermark?: boolean;
  /** Bit mask of buckets that may leave a request unanswered, executed or not. */
  readonly deaf?: number;
}

/** Receives a successor; the four integers are the state. */
export type Emit = (label: string, cells: number, rest: number, one: number, two: number) => void;

export const STATE_INTS = 4;
const NO_FENCER = -1;

/** Fields of `rest`, low bits first: three bits each, then three for the mark of each slot. */
const ASSIGNED = 0;
const RELEASED = 3;
const CHECKPOINT = 6;
const CUT_PLUS_ONE = 9;
const WIPED_PLUS_ONE = 12;
const SETTLED = 15;
const MARKS = 16;

const field = (rest: number, at: number): number => (rest >> at) & 7;
const setField = (rest: number, at: number, value: number): number =>
  (rest & ~(7 << at)) | (value << at);

export class ModelWorld {
  readonly bounds: Bounds;
  readonly space: FencerSpace;
  readonly #rows: number;
  readonly #records = new Map<number, PackedRecord>();
  /** Without watermarks nobody sees when the writer assigns or acknowledges: it does so at once. */
  readonly #isEager: boolean;

  constructor(bounds: Bounds, space: FencerSpace) {
    this.bounds = bounds;
    this.space = space;
    this.#rows = bounds.slots + 1;
    this.#isEager = bounds.watermark !== true;
    if (bounds.buckets * this.#rows > 15 || bounds.slots > 4) throw new Error('bounds too large');
  }

  initial(emit: Emit): void {
    let cells = 0;
    const cellCount = this.bounds.buckets * this.#rows;
    for (let at = 0; at < cellCount; at++) cells |= EMPTY << (2 * at);
    const { start } = this.space;
    this.#emit(emit, 'begin', cells, 0, start, this.bounds.fencers === 2 ? start : NO_FENCER);
  }

  /** Checks what must hold in every state. */
  check(cells: number, rest: number): void {
    const cut = field(rest, CUT_PLUS_ONE) - 1;
    const released = field(rest, RELEASED);
    if (cut < 0) return;
    if (released > cut) {
      throw new Violation(`F1/F2 slot ${released - 1} acknowledged at or above cut ${cut}`);
    }
    if (this.bounds.wipe === true) return;
    for (let slot = field(rest, CHECKPOINT); slot < cut; slot++) {
      if (this.#count(cells, slot, FLIGHT) < this.bounds.copies) {
        throw new Violation(`F4 hole at ${slot} below cut ${cut}`);
      }
    }
  }

  successors(cells: number, rest: number, one: number, two: number, emit: Emit): void {
    const to: Emit = (label, c, r, f, g) => {
      this.#emit(emit, label, c, r, f, g);
    };
    if (this.#forced(cells, rest, one, two, to)) return;
    this.#writer(cells, rest, one, two, to);
    this.#keepers(cells, rest, one, two, to);
    this.#fencer(cells, rest, one, (label, c, r, next) => {
      to(label, c, r, next, two);
    });
    if (two === NO_FENCER) return;
    this.#fencer(cells, rest, two, (label, c, r, next) => {
      to(label, c, r, one, next);
    });
  }

  /** True when nothing is left to do for anyone. */
  isOver(one: number, two: number): boolean {
    const isDone = (id: number): boolean =>
      id === NO_FENCER || this.space.node(id).phase === 'done';
    return isDone(one) && isDone(two);
  }

  /** Fencers are alike, so states that differ only in their order are one. */
  #emit(emit: Emit, label: string, cells: number, rest: number, one: number, two: number): void {
    const settled = this.#isEager ? this.#acknowledged(cells, rest) : rest;
    if (one <= two || two === NO_FENCER) emit(label, cells, settled, one, two);
    else emit(label, cells, settled, two, one);
  }

  #acknowledged(cells: number, rest: number): number {
    const { slots, window, copies } = this.bounds;
    let released = field(rest, RELEASED);
    let assigned = Math.min(slots, released + window);
    while (released < assigned && this.#good(cells, rest, released) >= copies) {
      released++;
      assigned = Math.min(slots, released + window);
    }
    return setField(setField(rest, RELEASED, released), ASSIGNED, assigned);
  }

  #writer(cells: number, rest: number, one: number, two: number, emit: Emit): void {
    const { buckets, copies, window, slots } = this.bounds;
    const assigned = field(rest, ASSIGNED);
    const released = field(rest, RELEASED);
    if (!this.#isEager && assigned < slots && assigned < released + window) {
      const marked = setField(rest, MARKS + 3 * assigned, released);
      emit('assign', cells, setField(marked, ASSIGNED, assigned + 1), one, two);
    }
    for (let slot = 0; slot < assigned; slot++) {
      for (let bucket = 0; bucket < buckets; bucket++) {
        if (this.#cell(cells, slot, bucket) !== EMPTY) continue;
        emit('land', this.#set(cells, slot, bucket, FLIGHT), rest, one, two);
      }
    }
    if (this.#isEager || released >= assigned) return;
    if (this.#good(cells, rest, released) < copies) return;
    emit('acknowledge', cells, setField(rest, RELEASED, released + 1), one, two);
  }

  #keepers(cells: number, rest: number, one: number, two: number, emit: Emit): void {
    const { buckets, trim, barrier, sweep, wipe, window } = this.bounds;
    const checkpoint = field(rest, CHECKPOINT);
    const cut = field(rest, CUT_PLUS_ONE) - 1;
    const isSettled = (rest >> SETTLED) & 1;
    if (wipe === true && field(rest, WIPED_PLUS_ONE) === 0) {
      for (let bucket = 0; bucket < buckets; bucket++) {
        let wiped = cells;
        for (let slot = 0; slot < this.#rows; slot++) wiped = this.#set(wiped, slot, bucket, EMPTY);
        emit('wipe', wiped, setField(rest, WIPED_PLUS_ONE, bucket + 1), one, two);
      }
    }
    if (trim === true && checkpoint < field(rest, RELEASED) && cut < 0) {
      emit('checkpoint', cells, setField(rest, CHECKPOINT, checkpoint + 1), one, two);
    }
    if (sweep === true && cut >= 0 && isSettled === 0) {
      emit('settle', cells, setField(rest, CHECKPOINT, cut) | (1 << SETTLED), one, two);
    }
    const ahead = barrier === true ? Math.min(this.#walkSlot(one), this.#walkSlot(two)) + 1 : 99;
    for (let slot = 0; slot < this.#rows; slot++) {
      const isTail = isSettled === 1 && slot >= cut && slot <= cut + window;
      const mayGo = isTail || ((trim === true || isSettled === 1) && slot < checkpoint);
      for (let bucket = 0; bucket < buckets; bucket++) {
        const cell = this.#cell(cells, slot, bucket);
        if (mayGo && cell === FLIGHT) {
          emit('delete', this.#set(cells, slot, bucket, EMPTY), rest, one, two);
        }
        if (slot >= ahead && cell === EMPTY) {
          emit('barrier', this.#set(cells, slot, bucket, POISON), rest, one, two);
        }
      }
    }
  }

  #walkSlot(id: number): number {
    if (id === NO_FENCER) return 99;
    const { walk, phase } = this.space.node(id);
    return phase === 'wave' && walk !== undefined ? walk.slot : 99;
  }

  #fencer(
    cells: number,
    rest: number,
    id: number,
    go: (label: string, cells: number, rest: number, next: number) => void,
  ): void {
    const { space } = this;
    const { phase, requests, results } = space.node(id);
    if (phase === 'done') return;
    const record = this.#record(rest);
    if (phase === 'start') go('read record', cells, rest, space.readAtStart(id, record));
    else if (phase === 'record') go('revalidate', cells, rest, space.revalidate(id, record));
    else if (phase === 'publish') go('decide', cells, rest, space.decide(id, record));
    else if (phase === 'cas') {
      const { next, applied } = space.write(id, record);
      const published = setField(rest, CUT_PLUS_ONE, space.node(id).cut + 1);
      if (applied) go('publish', cells, published, next);
      else go('conflict', cells, rest, next);
    } else {
      for (let at = 0; at < requests.length; at++) {
        if (results[at] !== PENDING) continue;
        const request = requests[at]!;
        const code = this.#codeOf(cells, rest, id, request);
        const after = code === CREATED ? this.#written(cells, request) : cells;
        go(request.kind, after, rest, space.execute(id, at, code));
        if (!this.#isDeaf(request)) continue;
        const lost = space.execute(id, at, LOST);
        go('lost', cells, rest, lost);
        if (code === CREATED) go('lost answer', after, rest, lost);
      }
      if (this.bounds.deaf === undefined) return;
      // A walk that stays undecided asks for the record between its waves.
      if (space.node(id).walk?.wave.kind !== 'undecided') return;
      go('reread', cells, rest, space.revalidate(id, record));
    }
  }

  #isDeaf({ bucket }: Request): boolean {
    const { deaf = 0 } = this.bounds;
    return bucket >= 0 && ((deaf >> bucket) & 1) === 1;
  }

  #codeOf(cells: number, rest: number, id: number, request: Request): number {
    const { kind, slot, bucket } = request;
    if (kind === 'identity') {
      return field(rest, WIPED_PLUS_ONE) === bucket + 1 ? IDENTITY_LOST : CONFIRMED;
    }
    if (kind === 'probes') return this.#probeCode(cells, rest, id);
    const cell = this.#cell(cells, slot, bucket);
    if (cell === FLIGHT) return flightCode(this.#mark(rest, slot));
    return kind !== 'read' && cell === EMPTY ? CREATED : cell;
  }

  #written(cells: number, { kind, slot, bucket }: Request): number {
    return this.#set(cells, slot, bucket, kind === 'copy' ? FLIGHT : POISON);
  }

  #probeCode(cells: number, rest: number, id: number): number {
    const { reads } = this.space.node(id).walk!.wave;
    const { buckets } = this.bounds;
    let code = 0;
    for (let at = reads.length - 1; at >= 0; at--) {
      const { slot, evidence } = reads[at]!;
      if (evidence) continue;
      const flights = this.#count(cells, slot, FLIGHT);
      let poisoned = 0;
      for (let bucket = 0; bucket < buckets; bucket++) {
        if (this.#cell(cells, slot, bucket) === POISON) poisoned |= 1 << bucket;
      }
      const digit = flights > 0 ? 2 ** buckets + this.#mark(rest, slot) + 1 : poisoned;
      code = code * probeBase(buckets) + digit;
    }
    return PROBE_FIRST + code;
  }

  #mark(rest: number, slot: number): number {
    return this.bounds.watermark === true ? field(rest, MARKS + 3 * slot) : -1;
  }

  /**
   * A read of what can never change again commutes with everything, unless its answer may be lost:
   * it is enough to explore it first.
   */
  #forced(cells: number, rest: number, one: number, two: number, emit: Emit): boolean {
    const { trim, sweep, wipe } = this.bounds;
    if (wipe === true && field(rest, WIPED_PLUS_ONE) === 0) return false;
    for (let side = 0; side < 2; side++) {
      const id = side === 0 ? one : two;
      if (id === NO_FENCER) continue;
      const { phase, requests, results } = this.space.node(id);
      if (phase !== 'wave') continue;
      for (let at = 0; at < requests.length; at++) {
        if (results[at] !== PENDING) continue;
        const request = requests[at]!;
        const { kind, slot, bucket } = request;
        if ((kind !== 'identity' && kind !== 'read') || this.#isDeaf(request)) continue;
        const cell = kind === 'read' ? this.#cell(cells, slot, bucket) : POISON;
        const mayVanish = cell === FLIGHT && (trim === true || sweep === true);
        if (cell === EMPTY || mayVanish) continue;
        const next = this.space.execute(id, at, this.#codeOf(cells, rest, id, request));
        emit(kind, cells, rest, side === 0 ? next : one, side === 0 ? two : next);
        return true;
      }
    }
    return false;
  }

  #record(rest: number): PackedRecord {
    const code = (rest >> CHECKPOINT) & 0o77;
    const key = code | (((rest >> SETTLED) & 1) << 6);
    const known = this.#records.get(key);
    if (known !== undefined) return known;
    const checkpoint = field(rest, CHECKPOINT);
    const cut = field(rest, CUT_PLUS_ONE) - 1;
    const state = cut < 0 ? 'open' : key > 63 ? 'settled' : 'fenced';
    const cursors = {
      state,
      checkpoint,
      trimmed: checkpoint,
      cut: cut < 0 ? undefined : cut,
    } as const;
    const record = { code: key, cursors };
    this.#records.set(key, record);
    return record;
  }

  #cell(cells: number, slot: number, bucket: number): number {
    if (slot >= this.#rows) return EMPTY;
    return (cells >> (2 * (slot * this.bounds.buckets + bucket))) & 3;
  }

  #set(cells: number, slot: number, bucket: number, code: number): number {
    if (slot >= this.#rows) return cells;
    const at = 2 * (slot * this.bounds.buckets + bucket);
    return (cells & ~(3 << at)) | (code << at);
  }

  #count(cells: number, slot: number, code: number): number {
    let count = 0;
    for (let bucket = 0; bucket < this.bounds.buckets; bucket++) {
      if (this.#cell(cells, slot, bucket) === code) count++;
    }
    return count;
  }

  #good(cells: number, rest: number, slot: number): number {
    const wiped = field(rest, WIPED_PLUS_ONE) - 1;
    let count = 0;
    for (let bucket = 0; bucket < this.bounds.buckets; bucket++) {
      const counts = this.bounds.writerChecksIdentity !== true || wiped !== bucket;
      if (counts && this.#cell(cells, slot, bucket) === FLIGHT) count++;
    }
    return count;
  }
}

/**
 * Is there an order of the operations that the sequential stream explains and that keeps what was over
 * before what began later (Wing & Gong, with Lowe's list and memo)? Appends of unknown outcome may
 * take effect at any time after their call, or never.
 *
 * Two facts keep the search narrow. A look changes nothing, so it takes its place as soon as it can:
 * that never spoils an order. And answers fix tails (`Landmarks`): where an acknowledged append begins,
 * it is the next one; appends of unknown outcome only ever fill the gap up to the next known tail.
 */
import { assert } from '../../src/lib/assert.ts';
import { isRequired, type Append, type Operation } from './history.ts';
import { Landmarks, startOf } from './landmarks.ts';
import { appended, EMPTY_STREAM, explains, fits, type StreamState } from './model.ts';
import { OpenCalls } from './open-calls.ts';

export interface CheckLimits {
  /** Wall-clock time after which the verdict is `unknown`. */
  readonly timeoutMillis?: number;
  /** Configurations tried after which the verdict is `unknown`. */
  readonly maxConfigurations?: number;
}

/** How far an order got. */
export interface Progress {
  /** Indexes of the placed operations, in their order. */
  readonly placed: readonly number[];
  readonly state: StreamState;
}

export type Verdict =
  | { readonly kind: 'linearizable'; readonly configurations: number; readonly order: Progress }
  /** No order exists; `deepest` is the one that placed the most. */
  | { readonly kind: 'violation'; readonly configurations: number; readonly deepest: Progress }
  /** Time or configurations ran out. */
  | { readonly kind: 'unknown'; readonly configurations: number };

const DEFAULT_TIMEOUT_MILLIS = 20_000;
const DEFAULT_MAX_CONFIGURATIONS = 20_000_000;
/** A memo of so many characters stays below some hundred megabytes; a full one is not added to. */
const MEMO_CHARACTERS_MAX = 50_000_000;
const LOOK_AT_CLOCK_EVERY = 256;
/** Most appends of unknown outcome took effect within so many events or never: that is tried first. */
const REACHES = [16, 128, Number.POSITIVE_INFINITY];

export function check(operations: readonly Operation[], limits: CheckLimits = {}): Verdict {
  const { timeoutMillis = DEFAULT_TIMEOUT_MILLIS } = limits;
  const { maxConfigurations = DEFAULT_MAX_CONFIGURATIONS } = limits;
  const endsAt = performance.now() + timeoutMillis;
  let configurations = 0;
  let deepest: Progress = { placed: [], state: EMPTY_STREAM };
  for (const reachEvents of REACHES) {
    const left = maxConfigurations - configurations;
    const search = new Search(operations, { maxConfigurations: left, endsAt, reachEvents });
    const end = search.run();
    configurations += search.configurations;
    if (end === 'spent') return { kind: 'unknown', configurations };
    if (end === 'ordered') return { kind: 'linearizable', configurations, order: search.order };
    deepest = search.deepest;
    if (!search.leftOut) break;
  }
  return { kind: 'violation', configurations, deepest };
}

interface Frame {
  readonly state: StreamState;
  /** How many operations have a place before the next candidate gets its own. */
  readonly depth: number;
  readonly candidates: readonly number[];
  next: number;
}

interface Bounds {
  readonly maxConfigurations: number;
  readonly endsAt: number;
  readonly reachEvents: number;
}

class Search {
  configurations = 0;
  /** Was an append left out that came too late for this search? */
  leftOut = false;
  deepest: Progress = { placed: [], state: EMPTY_STREAM };
  readonly #operations: readonly Operation[];
  readonly #calls: OpenCalls;
  readonly #landmarks: Landmarks;
  readonly #bounds: Bounds;
  readonly #frames: Frame[] = [];
  readonly #memo = new Set<string>();
  #memoCharacters = 0;
  /** Acknowledged appends that have a place; they get one in the order of the landmarks. */
  #acknowledged = 0;
  #requiredLeft: number;

  constructor(operations: readonly Operation[], bounds: Bounds) {
    this.#operations = operations;
    this.#calls = new OpenCalls(operations);
    this.#landmarks = new Landmarks(operations);
    this.#bounds = bounds;
    this.#requiredLeft = operations.filter(isRequired).length;
  }

  run(): 'ordered' | 'none' | 'spent' {
    this.#frames.push(this.#enter(EMPTY_STREAM));
    while (this.#requiredLeft > 0) {
      if (this.#isSpent()) return 'spent';
      const frame = this.#frames.at(-1);
      if (frame === undefined) return 'none';
      this.#undoTo(frame.depth);
      const candidate = frame.candidates[frame.next++];
      if (candidate === undefined) this.#frames.pop();
      else this.#frames.push(this.#enter(this.#place(candidate, frame.state)));
    }
    return 'ordered';
  }

  get order(): Progress {
    return { placed: [...this.#calls.lifted], state: this.#frames.at(-1)!.state };
  }

  #enter(state: StreamState): Frame {
    this.configurations++;
    this.#placeLooks(state);
    const { length: depth } = this.#calls.lifted;
    const candidates = this.#candidates(state);
    if (candidates.length === 0) this.#noteDeadEnd(state);
    const isKnown = candidates.length > 1 && this.#isKnown(state);
    return { state, depth, candidates: isKnown ? [] : candidates, next: 0 };
  }

  /** A placed look may let others be called: again until none fits. */
  #placeLooks(state: StreamState): void {
    for (let placed = -1; placed !== this.#calls.lifted.length;) {
      placed = this.#calls.lifted.length;
      for (const index of this.#calls.open()) {
        const operation = this.#operations[index]!;
        if (operation.kind === 'look' && explains(state, operation)) this.#lift(index);
      }
    }
  }

  /** Appends that may take effect next, the likeliest first. */
  #candidates(state: StreamState): number[] {
    if (!this.#landmarks.agreesWith(state)) return [];
    const open = [...this.#calls.open()];
    const isPassed = (index: number): boolean => {
      const operation = this.#operations[index]!;
      return operation.kind === 'look' && operation.tail < state.tail;
    };
    if (open.some(isPassed)) return [];
    const next = this.#landmarks.order[this.#acknowledged];
    const start = next === undefined ? undefined : startOf(this.#appendAt(next));
    if (next !== undefined && start === state.tail) {
      return open.includes(next) && fits(state, this.#appendAt(next)) ? [next] : [];
    }
    if (start !== undefined && start < state.tail) return [];
    return this.#fillers(state, open);
  }

  /** Appends of unknown outcome that fit into the gap up to the next known tail, the latest first. */
  #fillers(state: StreamState, open: readonly number[]): number[] {
    const gapEnd = this.#landmarks.tailAfter(state.tail);
    if (gapEnd === undefined) return [];
    const now = Math.max(...open.map((index) => this.#operations[index]!.call));
    const fillers = open.filter((index) => {
      const operation = this.#operations[index]!;
      if (operation.kind !== 'append' || operation.tail !== undefined) return false;
      const end = state.tail + operation.append.recordHashes.length;
      return end <= gapEnd && fits(state, operation);
    });
    const soon = fillers.filter(
      (index) => this.#operations[index]!.call >= now - this.#bounds.reachEvents,
    );
    if (soon.length < fillers.length) this.leftOut = true;
    return soon.reverse();
  }

  #place(index: number, state: StreamState): StreamState {
    this.#lift(index);
    return appended(state, this.#appendAt(index).append);
  }

  #lift(index: number): void {
    this.#calls.lift(index);
    this.#count(index, 1);
  }

  #undoTo(depth: number): void {
    while (this.#calls.lifted.length > depth) this.#count(this.#calls.unlift(), -1);
  }

  #count(index: number, by: 1 | -1): void {
    const operation = this.#operations[index]!;
    if (!isRequired(operation)) return;
    this.#requiredLeft -= by;
    if (operation.kind === 'append') this.#acknowledged += by;
  }

  /** The same operations with a place and the same state: what follows was tried already. */
  #isKnown({ tail, hash, token }: StreamState): boolean {
    const words = new Uint16Array(Math.ceil(this.#operations.length / 16));
    for (const index of this.#calls.lifted) words[index >> 4]! |= 1 << (index & 15);
    const key = `${String.fromCharCode(...words)}${tail} ${hash} ${JSON.stringify(token)}`;
    if (this.#memo.has(key)) return true;
    this.#memoCharacters += key.length;
    if (this.#memoCharacters <= MEMO_CHARACTERS_MAX) this.#memo.add(key);
    return false;
  }

  #noteDeadEnd(state: StreamState): void {
    const { lifted } = this.#calls;
    if (lifted.length >= this.deepest.placed.length) {
      this.deepest = { placed: [...lifted], state };
    }
  }

  #isSpent(): boolean {
    const { maxConfigurations, endsAt } = this.#bounds;
    if (this.configurations > maxConfigurations) return true;
    const isTime = this.configurations % LOOK_AT_CLOCK_EVERY === 0;
    return isTime && performance.now() > endsAt;
  }

  #appendAt(index: number): Append {
    const operation = this.#operations[index]!;
    assert(operation.kind === 'append', 'only appends change the stream');
    return operation;
  }
}

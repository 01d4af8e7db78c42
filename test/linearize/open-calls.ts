/**
 * Calls and returns in the order of time, as a list that operations are lifted out of once they have
 * their place (Lowe): what may come next is what was called before the first return that is left.
 */
import { assert } from '../../src/lib/assert.ts';
import { NEVER, type Operation } from './history.ts';

interface Entry {
  readonly at: number;
  readonly operation: number;
  readonly isReturn: boolean;
  previous: Entry | undefined;
  next: Entry | undefined;
}

export class OpenCalls {
  readonly #head: Entry;
  readonly #calls: Entry[] = [];
  readonly #returns: (Entry | undefined)[] = [];
  /** Lifted operations, in the order of their places. */
  readonly #lifted: number[] = [];

  constructor(operations: readonly Operation[]) {
    const entries: Entry[] = [];
    const add = (at: number, operation: number, isReturn: boolean): Entry => {
      const entry = { at, operation, isReturn, previous: undefined, next: undefined };
      entries.push(entry);
      return entry;
    };
    this.#head = { at: -1, operation: -1, isReturn: false, previous: undefined, next: undefined };
    for (const [index, { call, end }] of operations.entries()) {
      this.#calls.push(add(call, index, false));
      this.#returns.push(end === NEVER ? undefined : add(end, index, true));
    }
    let last = this.#head;
    for (const entry of entries.sort((a, b) => a.at - b.at)) {
      entry.previous = last;
      last.next = entry;
      last = entry;
    }
  }

  get lifted(): readonly number[] {
    return this.#lifted;
  }

  /** Operations that were called before the first return, by the time of their calls. */
  *open(): Generator<number, void, undefined> {
    for (let entry = this.#head.next; entry?.isReturn === false;) {
      const { next } = entry;
      yield entry.operation;
      entry = next;
    }
  }

  lift(operation: number): void {
    unlink(this.#calls[operation]!);
    const end = this.#returns[operation];
    if (end !== undefined) unlink(end);
    this.#lifted.push(operation);
  }

  /** Puts the operation lifted last back to where it was. */
  unlift(): number {
    const operation = this.#lifted.pop();
    assert(operation !== undefined, 'something was lifted');
    const end = this.#returns[operation];
    if (end !== undefined) relink(end);
    relink(this.#calls[operation]!);
    return operation;
  }
}

function unlink(entry: Entry): void {
  if (entry.previous !== undefined) entry.previous.next = entry.next;
  if (entry.next !== undefined) entry.next.previous = entry.previous;
}

function relink(entry: Entry): void {
  if (entry.previous !== undefined) entry.previous.next = entry;
  if (entry.next !== undefined) entry.next.previous = entry;
}

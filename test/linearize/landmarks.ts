/**
 * What the answers of a history fix about the stream, wherever their operations find a place: tails
 * that existed, the content that reads found at them, the order of acknowledged appends. No append is
 * without records, so a stream has each of its tails once.
 */
import type { Append, Operation } from './history.ts';
import type { StreamState } from './model.ts';

export class Landmarks {
  /** Acknowledged appends (indexes of operations) by their numbers: this is their order. */
  readonly order: readonly number[];
  readonly #tails: readonly number[];
  /** What reads found at a tail; undefined when they contradict each other. */
  readonly #hashes = new Map<number, bigint | undefined>();

  constructor(operations: readonly Operation[]) {
    const tails = new Set<number>();
    const order: { readonly index: number; readonly start: number }[] = [];
    for (const [index, operation] of operations.entries()) {
      if (operation.tail === undefined) continue;
      tails.add(operation.tail);
      if (operation.kind === 'append') {
        const start = startOf(operation);
        tails.add(start);
        order.push({ index, start });
      } else if (operation.streamHash !== undefined) {
        const { tail, streamHash } = operation;
        const known = this.#hashes.has(tail) ? this.#hashes.get(tail) : streamHash;
        this.#hashes.set(tail, known === streamHash ? streamHash : undefined);
      }
    }
    this.order = order.sort((a, b) => a.start - b.start).map(({ index }) => index);
    this.#tails = [...tails].sort((a, b) => a - b);
  }

  /** Does the state hold what every read of its tail found? */
  agreesWith({ tail, hash }: StreamState): boolean {
    return !this.#hashes.has(tail) || this.#hashes.get(tail) === hash;
  }

  /** The lowest tail above this one that existed for certain. */
  tailAfter(tail: number): number | undefined {
    let low = 0;
    let high = this.#tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#tails[middle]! > tail) high = middle;
      else low = middle + 1;
    }
    return this.#tails[low];
  }
}

/** The number of the first record of an acknowledged append. */
export function startOf({ tail, append }: Append): number {
  return (tail ?? 0) - append.recordHashes.length;
}

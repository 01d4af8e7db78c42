/** Every state that the metastore ever had: what stale reads answer from and what checkers ask. */
import type { MetaEntry } from '../ports/metastore.ts';

export interface MetaChange {
  /** Position in the journal, from 1; position 0 is the empty metastore. */
  readonly index: number;
  readonly at: number;
  readonly key: string;
  /** Undefined when the key was deleted. */
  readonly entry: MetaEntry | undefined;
  /** Who sent the write. */
  readonly process: string;
}

export class MetaJournal {
  readonly #changes: MetaChange[] = [];
  readonly #byKey = new Map<string, MetaChange[]>();
  #sortedKeys: string[] | undefined;

  get length(): number {
    return this.#changes.length;
  }

  append(change: Omit<MetaChange, 'index'>): MetaChange {
    const recorded = { ...change, index: this.#changes.length + 1 };
    this.#changes.push(recorded);
    const ofKey = this.#byKey.get(change.key);
    if (ofKey === undefined) {
      this.#byKey.set(change.key, [recorded]);
      this.#sortedKeys = undefined;
    } else {
      ofKey.push(recorded);
    }
    return recorded;
  }

  /** All changes of one key, oldest first. */
  changesOf(key: string): readonly MetaChange[] {
    return this.#byKey.get(key) ?? [];
  }

  /** The position after the last change made at or before `at`. */
  indexAt(at: number): number {
    let low = 0;
    let high = this.#changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#changes[middle]!.at <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The entry of a key as of a position; of now by default. */
  get(key: string, index = this.#changes.length): MetaEntry | undefined {
    const ofKey = this.#byKey.get(key);
    if (ofKey === undefined) return undefined;
    for (let i = ofKey.length - 1; i >= 0; i--) {
      if (ofKey[i]!.index <= index) return ofKey[i]!.entry;
    }
    return undefined;
  }

  /** Keys that ever held an entry, in byte order, within `[from, to)`. */
  keys(from: string, to: string): readonly string[] {
    this.#sortedKeys ??= [...this.#byKey.keys()].sort((a, b) => (a < b ? -1 : 1));
    const keys = this.#sortedKeys;
    return keys.slice(lowerBound(keys, from), lowerBound(keys, to));
  }

  /** Entries within `[from, to)` as of a position, in byte order. */
  range(from: string, to: string, index = this.#changes.length): MetaEntry[] {
    return this.keys(from, to)
      .map((key) => this.get(key, index))
      .filter((entry) => entry !== undefined);
  }

  /** Entries whose key starts with `prefix`, as of a position. */
  children(prefix: string, index = this.#changes.length): MetaEntry[] {
    return this.range(prefix, afterPrefix(prefix), index);
  }
}

/** The first key after all that start with `prefix`; keys are ASCII. */
export function afterPrefix(prefix: string): string {
  return `${prefix}\u007f`;
}

function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keys[middle]! < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

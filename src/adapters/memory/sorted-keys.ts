/** Keys in order, in runs of bounded length, so that an insertion moves a thousand keys at most. */
const RUN_MAX = 1_024;

/** A sorted set of ASCII keys; for those, text order is byte order. */
export class SortedKeys {
  readonly #runs: string[][] = [];

  add(key: string): void {
    const runIndex = Math.max(0, this.#runAt(key));
    const run = this.#runs[runIndex];
    if (run === undefined) {
      this.#runs.push([key]);
      return;
    }
    const at = countUpTo(run, key);
    if (run[at - 1] === key) return;
    run.splice(at, 0, key);
    if (run.length > RUN_MAX) this.#runs.splice(runIndex + 1, 0, run.splice(run.length >> 1));
  }

  remove(key: string): void {
    const runIndex = this.#runAt(key);
    const run = this.#runs[runIndex];
    if (run === undefined) return;
    const at = countUpTo(run, key) - 1;
    if (run[at] !== key) return;
    run.splice(at, 1);
    if (run.length === 0) this.#runs.splice(runIndex, 1);
  }

  clear(): void {
    this.#runs.length = 0;
  }

  /** The greatest key that is not greater than `key`. */
  floor(key: string): string | undefined {
    const run = this.#runs[this.#runAt(key)];
    return run?.[countUpTo(run, key) - 1];
  }

  /** Keys from `start` (inclusive) on, in order. The set must not change meanwhile. */
  *from(start: string): Generator<string> {
    for (let r = Math.max(0, this.#runAt(start)); r < this.#runs.length; r++) {
      const run = this.#runs[r]!;
      for (let i = lowerBound(run, start); i < run.length; i++) yield run[i]!;
    }
  }

  /** The last run that begins at or before `key`; -1 when all begin after it. */
  #runAt(key: string): number {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#runs[middle]![0]! <= key) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** How many keys of the run are not greater than `key`. */
function countUpTo(run: readonly string[], key: string): number {
  let low = 0;
  let high = run.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run[middle]! <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the first key that is not less than `key`. */
function lowerBound(run: readonly string[], key: string): number {
  const at = countUpTo(run, key);
  return at > 0 && run[at - 1] === key ? at - 1 : at;
}

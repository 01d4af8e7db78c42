import type { CallLimit } from '../calls/calls.ts';

/**
 * How many calls a bucket gets at once: halved when it says that it has too many, grown by one with
 * every window of calls that succeed. A burst of refusals is one message: calls that began before the
 * last cut say nothing new.
 */
export class Window implements CallLimit {
  readonly #max: number;
  #size: number;
  /** Calls begun so far, and how many that were at the last cut. */
  #begun = 0;
  #cutAt = 0;

  constructor(max: number) {
    this.#max = max;
    this.#size = max;
  }

  get concurrent(): number {
    return Math.floor(this.#size);
  }

  /** It was cut and has not grown back yet. */
  get isNarrowed(): boolean {
    return this.#size < this.#max;
  }

  /** Answers what to say when the call ends. */
  begin(): number {
    return ++this.#begun;
  }

  succeeded(): void {
    if (this.#size < this.#max) this.#size = Math.min(this.#max, this.#size + 1 / this.#size);
  }

  throttled(begun: number): void {
    if (begun <= this.#cutAt) return;
    this.#cutAt = this.#begun;
    this.#size = Math.max(1, this.#size / 2);
  }
}

/** Servers count writes and reads apart: what is too much of the one says nothing about the other. */
export interface Windows {
  readonly creates: Window;
  /** Of reads, lists and deletions. */
  readonly others: Window;
}

export function windowOf(windows: Windows, method: string): Window {
  return method === 'PUT' ? windows.creates : windows.others;
}

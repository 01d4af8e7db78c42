/**
 * What became of a batch, and the calls that wait for it. Nobody waiting, and one call without a deadline
 * of its own, are the usual cases: neither costs a timer, and a failure that nobody awaits is no unhandled
 * rejection.
 */
import { assert } from '../src/lib/assert.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { Wait, type Deadlines } from './deadlines.ts';

interface Call<T> {
  resolve(value: T): void;
  reject(error: Error): void;
}

export class BatchOutcome<T extends object> {
  #answer: T | undefined;
  #error: Error | undefined;
  #calls: Call<T>[] | undefined;

  resolve(answer: T): void {
    assert(this.#answer === undefined && this.#error === undefined, 'A5 a batch has one outcome');
    this.#answer = answer;
    if (this.#calls === undefined) return;
    for (const call of this.#calls) call.resolve(answer);
    this.#calls = undefined;
  }

  reject(error: Error): void {
    assert(this.#answer === undefined && this.#error === undefined, 'A5 a batch has one outcome');
    this.#error = error;
    if (this.#calls === undefined) return;
    for (const call of this.#calls) call.reject(error);
    this.#calls = undefined;
  }

  wait(): Promise<T> {
    if (this.#answer !== undefined) return Promise.resolve(this.#answer);
    if (this.#error !== undefined) return Promise.reject(this.#error);
    return new Promise((resolve, reject) => this.#add({ resolve, reject }));
  }

  /** Rejects with the error of `onLate` at the deadline. */
  waitWithin(deadlines: Deadlines, onLate: () => EngineError): Promise<T> {
    if (this.#answer !== undefined || this.#error !== undefined) return this.wait();
    return new Promise((resolve, reject) => {
      this.#add(new LimitedCall(resolve, reject, deadlines, onLate));
    });
  }

  #add(call: Call<T>): void {
    if (this.#calls === undefined) this.#calls = [call];
    else this.#calls.push(call);
  }
}

/** After its deadline it is answered no more: the promise keeps the first answer. */
class LimitedCall<T> extends Wait implements Call<T> {
  readonly #resolve: (value: T) => void;
  readonly #reject: (error: Error) => void;
  readonly #deadlines: Deadlines;
  readonly #onLate: () => EngineError;

  constructor(
    resolve: (value: T) => void,
    reject: (error: Error) => void,
    deadlines: Deadlines,
    onLate: () => EngineError,
  ) {
    super();
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deadlines = deadlines;
    this.#onLate = onLate;
    deadlines.join(this);
  }

  resolve(value: T): void {
    this.#deadlines.leave(this);
    this.#resolve(value);
  }

  reject(error: Error): void {
    this.#deadlines.leave(this);
    this.#reject(error);
  }

  late(): void {
    this.#reject(this.#onLate());
  }
}

import type { EngineError } from '../../lib/errors.ts';
import type { Call } from '../calls/calls.ts';

/** One of the requests of a call, to be given up alone or with the call. */
export class Attempt implements Call {
  onAbandoned: (() => void) | undefined;
  readonly #call: Call;
  #givenUp: EngineError | undefined;
  #touching: Promise<unknown> | undefined;

  constructor(call: Call) {
    this.#call = call;
  }

  get abandoned(): EngineError | undefined {
    return this.#givenUp ?? this.#call.abandoned;
  }

  whileTouching<T>(work: () => Promise<T>): Promise<T> {
    const touching = this.#call.whileTouching(work);
    this.#touching = touching;
    return touching;
  }

  /** Resolves when nothing of its body is in use, nor will be. */
  async giveUp(reason: EngineError): Promise<void> {
    this.#givenUp ??= reason;
    this.onAbandoned?.();
    await this.#touching?.catch(() => undefined);
  }
}

/** A batch that a holder has accepted for this engine, until its outcome is heard of. */
import type { Clock } from '../../lib/clock.ts';
import { EngineError } from '../../lib/errors.ts';
import { checkWaitOptions, deferred, waitFor, type WaitOptions } from '../../lib/wait.ts';
import type { Ack, Ticket } from '../api.ts';

export class RemoteTicket implements Ticket {
  readonly startSeqNum: number;
  readonly endSeqNum: number;
  readonly #clock: Clock;
  readonly #defaultTimeoutMillis: number | undefined;
  readonly #done = deferred<Ack>();

  constructor(
    accepted: { readonly startSeqNum: number; readonly endSeqNum: number },
    waits: { readonly clock: Clock; readonly defaultTimeoutMillis: number | undefined },
  ) {
    this.startSeqNum = accepted.startSeqNum;
    this.endSeqNum = accepted.endSeqNum;
    this.#clock = waits.clock;
    this.#defaultTimeoutMillis = waits.defaultTimeoutMillis;
    // A ticket that nobody awaits is no unhandled rejection.
    this.#done.promise.catch(() => undefined);
  }

  resolve(ack: Ack): void {
    this.#done.resolve(ack);
  }

  reject(error: EngineError): void {
    this.#done.reject(error);
  }

  async ack(options: WaitOptions = {}): Promise<Ack> {
    checkWaitOptions(options);
    const timeoutMillis = options.timeoutMillis ?? this.#defaultTimeoutMillis;
    return waitFor(
      this.#clock,
      this.#done.promise,
      { ...options, timeoutMillis },
      'ack',
      () =>
        new EngineError('DEADLINE_EXCEEDED', 'the batch was not acknowledged before the deadline', {
          sideEffects: 'possible',
          details: { timeoutMillis },
        }),
    );
  }
}

/** Callers who wait until one stream's rows reach the cut (S3). */
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { deferred } from '../src/lib/wait.ts';
import type { Deferred } from '../src/lib/wait.ts';
import { chainEnd } from '../src/protocol/ref-rows.ts';
import type { StarPorts } from './ports.ts';
import { readLastRowFresh } from './ref-rows.ts';
import type { StreamOutcome } from './stream-coverage.ts';

export interface StreamEnd {
  /** Where the stream's rows end: at or above its last record below the cut. */
  readonly end: number;
}

export class CoverageWaiters {
  readonly #ports: Pick<StarPorts, 'metastore'>;
  readonly #waiters = new Map<string, Deferred<StreamEnd>>();

  constructor(ports: Pick<StarPorts, 'metastore'>) {
    this.#ports = ports;
  }

  /** One promise for all who wait for the stream now; it never becomes an unhandled rejection. */
  wait(streamId: string): Promise<StreamEnd> {
    const known = this.#waiters.get(streamId);
    if (known !== undefined) return known.promise;
    const waiter = deferred<StreamEnd>();
    waiter.promise.catch(() => undefined);
    this.#waiters.set(streamId, waiter);
    return waiter.promise;
  }

  streamIds(): readonly string[] {
    return [...this.#waiters.keys()];
  }

  answer(streamId: string, outcome: StreamOutcome): void {
    const waiter = this.#take(streamId);
    if (waiter === undefined) return;
    if (outcome.kind === 'covered') waiter.resolve({ end: outcome.end });
    else waiter.reject(outcome.kind === 'failed' ? outcome.error : gapError(streamId, outcome));
  }

  /** For a stream that is known to be covered: its rows say where they end. */
  answerFromRows(streamId: string): void {
    const waiter = this.#take(streamId);
    if (waiter === undefined) return;
    readLastRowFresh(this.#ports, streamId).then(
      (last) => waiter.resolve({ end: chainEnd(last?.row) }),
      (error: unknown) => waiter.reject(toEngineError(error)),
    );
  }

  rejectAll(error: EngineError): void {
    for (const streamId of this.streamIds()) this.#take(streamId)?.reject(error);
  }

  #take(streamId: string): Deferred<StreamEnd> | undefined {
    const waiter = this.#waiters.get(streamId);
    this.#waiters.delete(streamId);
    return waiter;
  }
}

function gapError(
  streamId: string,
  gap: { readonly end: number; readonly next: number },
): EngineError {
  return new EngineError('STREAM_UNSETTLED', 'an older epoch of the stream must be settled first', {
    details: { stream: streamId, end: gap.end, next: gap.next },
  });
}

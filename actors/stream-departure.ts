/** What operators see of a stream on its way out: since when, and what keeps it. DESIGN "Finish (N)". */
import type { EngineError } from '../src/lib/errors.ts';
import { deferred } from '../src/lib/wait.ts';
import type { StarPorts } from './ports.ts';

/** A Finish under way. */
export interface Departure {
  readonly state: 'finishing' | 'limbo';
  /** Wall-clock milliseconds: of the request, or of the first failure. */
  readonly sinceMillis: number;
  /** Tries that failed. */
  readonly failures: number;
  /** Why the last one failed. */
  readonly code?: string;
  readonly message?: string;
}

export class StreamDeparture {
  readonly #ports: Pick<StarPorts, 'clock' | 'log' | 'metrics'>;
  readonly #name: string;
  readonly #stuck = deferred<void>();
  #requestedAt: number | undefined;
  #parkedAt: number | undefined;
  #failures = 0;
  #failure: EngineError | undefined;

  constructor(ports: Pick<StarPorts, 'clock' | 'log' | 'metrics'>, name: string) {
    this.#ports = ports;
    this.#name = name;
  }

  /** Resolves when a Finish failed for the first time. */
  get stuck(): Promise<void> {
    return this.#stuck.promise;
  }

  get wasInLimbo(): boolean {
    return this.#parkedAt !== undefined;
  }

  get status(): Departure {
    const now = this.#ports.clock.now();
    const failure = this.#failure;
    return {
      state: this.wasInLimbo ? 'limbo' : 'finishing',
      sinceMillis: this.#parkedAt ?? this.#requestedAt ?? now,
      failures: this.#failures,
      ...(failure === undefined ? {} : { code: failure.code, message: failure.message }),
    };
  }

  requested(): void {
    this.#requestedAt ??= this.#ports.clock.now();
  }

  /** The lease is kept, the Finish is tried again, opens are told to come back. */
  parked(failure: EngineError): void {
    const { clock, log, metrics } = this.#ports;
    this.#failures++;
    this.#failure = failure;
    if (this.#parkedAt !== undefined) return;
    this.#parkedAt = clock.now();
    metrics.counter('stream.limbos').add();
    const { code, message } = failure;
    log.error({ stream: this.#name, code, message }, 'a stream could not be released: limbo');
    this.#stuck.resolve();
  }
}

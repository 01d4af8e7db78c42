/** What a star shows of itself between the loss of its lease and the next registration. */
import type { EngineError } from '../src/lib/errors.ts';
import type { LossReason } from './lease.actor.ts';
import type { StarPorts } from './ports.ts';
import { leaseLostError } from './star-errors.ts';

export interface HaltStatus {
  /** Why the lease was lost. */
  readonly reason: LossReason;
  /** Wall-clock time of the loss. */
  readonly sinceMillis: number;
  /** Registrations that failed since. */
  readonly attempts: number;
  /** Why the last one failed, for example `STAR_IN_USE`. */
  readonly code?: string;
  readonly message?: string;
}

export class StarHalt {
  readonly #ports: StarPorts;
  readonly #star: string;
  #halted: { readonly reason: LossReason; readonly wall: number; readonly at: number } | undefined;
  #attempts = 0;
  #failure: EngineError | undefined;

  constructor(ports: StarPorts, star: string) {
    this.#ports = ports;
    this.#star = star;
    ports.metrics.gauge('star.haltedMillis', () =>
      this.#halted === undefined ? 0 : ports.clock.monotonic() - this.#halted.at,
    );
  }

  get isHalted(): boolean {
    return this.#halted !== undefined;
  }

  get status(): HaltStatus | undefined {
    if (this.#halted === undefined) return undefined;
    const { reason, wall } = this.#halted;
    const failure =
      this.#failure === undefined
        ? {}
        : { code: this.#failure.code, message: this.#failure.message };
    return { reason, sinceMillis: wall, attempts: this.#attempts, ...failure };
  }

  /** What callers are told instead of being kept waiting: another process runs the star. */
  get refusal(): EngineError | undefined {
    return this.#failure?.code === 'STAR_IN_USE' ? this.#failure : undefined;
  }

  /** Why streams are lost when the star ends now. */
  get error(): EngineError | undefined {
    return this.#halted === undefined ? undefined : leaseLostError(this.#star, this.#halted.reason);
  }

  lost(reason: LossReason): void {
    const { clock, log, metrics } = this.#ports;
    metrics.counter('star.leaseLosses').add();
    log.error({ star: this.#star, reason }, 'the lease of this star was lost: it halts');
    this.#halted ??= { reason, wall: clock.now(), at: clock.monotonic() };
  }

  failed(error: EngineError): void {
    const { log, metrics } = this.#ports;
    const { code, message } = error;
    this.#attempts++;
    this.#failure = error;
    metrics.counter('star.registrationRetries').add();
    log.warn({ star: this.#star, code, message }, 'the star stays halted');
  }

  registered(incarnation: string): void {
    const { clock, log, metrics } = this.#ports;
    if (this.#halted === undefined) return;
    metrics.counter('star.revivals').add();
    metrics.histogram('star.haltMillis').record(clock.monotonic() - this.#halted.at);
    log.info({ star: this.#star, incarnation }, 'the star is registered again');
    this.#halted = undefined;
    this.#failure = undefined;
    this.#attempts = 0;
  }
}

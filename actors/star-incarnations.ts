/**
 * The incarnations of a star in this process, one after the other: each under a lease record of its
 * own, registered before it mints (M0). A lost one never comes back; the next one may begin.
 * Source: DESIGN "Mint (M)", "Sessions are lease records of our own".
 */
import { assert } from '../src/lib/assert.ts';
import { deferred, throwIfAborted, waitFor, type Deferred } from '../src/lib/wait.ts';
import { StarLease, type LeasePorts, type LossReason } from './lease.actor.ts';

export interface StarIncarnationsOptions {
  readonly star: string;
  readonly timeoutMillis: number;
  /** The first one may replace a live duplicate; no later one does, so that two cannot chase each other. */
  readonly supersede: boolean;
  /** Where peers reach this star. */
  readonly address?: string | undefined;
  /** A registered incarnation was lost. Must not throw. */
  readonly onLost: (reason: LossReason) => void;
}

export class StarIncarnations {
  readonly #ports: LeasePorts;
  readonly #options: StarIncarnationsOptions;
  #lease: StarLease | undefined;
  #incarnation: string | undefined;
  /** Incarnations of ours of which a record may still stand. */
  #replaces: readonly string[] = [];
  #registered: Deferred<void> = deferred();

  constructor(ports: LeasePorts, options: StarIncarnationsOptions) {
    this.#ports = ports;
    this.#options = options;
  }

  /** The one that was registered last; also after its loss. */
  get current(): string {
    assert(this.#incarnation !== undefined, 'M0 an incarnation is known once registered');
    return this.#incarnation;
  }

  /** Whether this incarnation is the registered one at this moment. */
  isHeld(incarnation: string): boolean {
    return incarnation === this.#incarnation && this.#lease?.isHeld === true;
  }

  /**
   * Registers a new incarnation: the first one, or the one that follows a loss.
   *
   * @throws EngineError STAR_IN_USE, METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
   */
  async register(signal: AbortSignal): Promise<string> {
    const { star, timeoutMillis, address } = this.#options;
    const onLost = (reason: LossReason): void => {
      this.#registered = deferred();
      this.#options.onLost(reason);
    };
    const lease = new StarLease(this.#ports, { star, timeoutMillis, address, onLost });
    this.#lease = lease;
    try {
      this.#incarnation = await lease.register({
        supersede: this.#options.supersede && this.#incarnation === undefined,
        replaces: this.#replaces,
        signal,
      });
      this.#replaces = [this.#incarnation];
    } catch (error) {
      this.#replaces = [...this.#replaces, ...lease.attempted];
      throw error;
    }
    this.#registered.resolve();
    return this.#incarnation;
  }

  /**
   * Resolves once an incarnation is registered whose record was just seen to be ours: a star that a
   * duplicate has replaced mints nothing, so that it does not supersede that one in turn.
   *
   * @throws EngineError ABORTED
   */
  async held(signal: AbortSignal): Promise<void> {
    while (!(await this.#lease!.verify())) {
      throwIfAborted(signal, 'registration');
      await waitFor(this.#ports.clock, this.#registered.promise, { signal }, 'registration');
    }
  }

  /** Loses the current one on purpose. */
  giveUp(): void {
    this.#lease?.giveUp();
  }

  /** Ends the record of the current one. Never rejects. Idempotent. */
  async end(): Promise<void> {
    await this.#lease?.end();
  }
}

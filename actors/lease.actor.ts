/**
 * The lease of one star: registers it, bumps its beat, notices its loss. Rules: src/protocol/lease.ts.
 */
import { assert } from '../src/lib/assert.ts';
import type { TimerHandle } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { linkedSignal } from '../src/lib/wait.ts';
import { starKey } from '../src/protocol/keys.ts';
import {
  bumped,
  ended,
  isLost,
  nextBeatAfterMillis,
  parseLease,
  type StarLease as LeaseRecord,
} from '../src/protocol/lease.ts';
import type { MetaEntry, MetaVersion, PutResult } from '../src/ports/metastore.ts';
import type { ConditionalContext } from './conditional-write.ts';
import {
  registerLease,
  writeLease,
  type HeldLease,
  type RegisterOptions,
  type RegistrationPorts,
} from './lease-registration.ts';
import type { StarPorts } from './ports.ts';

/** Why a lease ended without its holder's doing. */
export type LossReason =
  /** No bump was applied for a timeout. */
  | 'expired'
  /** Another incarnation took the record. */
  | 'replaced'
  /** An observer ended it. */
  | 'ended'
  /** The record is gone. */
  | 'removed'
  /** The holder itself gave it up: it cannot do what others wait for. */
  | 'given-up';

export interface StarLeaseOptions {
  readonly star: string;
  readonly timeoutMillis: number;
  /** Where peers reach this star. */
  readonly address?: string | undefined;
  /** Called once at most, and not after `end`. The loss is final. Must not throw. */
  readonly onLost: (reason: LossReason) => void;
}

/** How long `end` tries to tell the world; past it the record expires by itself. */
const END_MILLIS = 2_000;

export type LeasePorts = RegistrationPorts & Pick<StarPorts, 'log'>;

export class StarLease {
  readonly #ports: LeasePorts;
  readonly #options: StarLeaseOptions;
  readonly #key: string;
  readonly #beats = new AbortController();
  #state: 'new' | 'registering' | 'held' | 'lost' | 'ended' = 'new';
  #held: HeldLease | undefined;
  #incarnation: string | undefined;
  readonly #attempted: string[] = [];
  #collectorRound = 0;
  #beatTimer: TimerHandle | undefined;
  #lossTimer: TimerHandle | undefined;
  #beating: Promise<void> | undefined;
  #ending: Promise<void> | undefined;

  constructor(ports: LeasePorts, options: StarLeaseOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#key = starKey(options.star);
  }

  /** Every incarnation that a record may have been written for. */
  get attempted(): readonly string[] {
    return this.#attempted;
  }

  /** The registered incarnation; also after its loss. */
  get incarnation(): string {
    assert(this.#held !== undefined, 'M0 an incarnation is known once registered');
    return this.#held.lease.incarnation;
  }

  /** Whether the lease may still be counted on at this moment. */
  get isHeld(): boolean {
    if (this.#state !== 'held') return false;
    return !isLost(this.#held!.sentAt, this.#ports.clock.monotonic(), this.#options.timeoutMillis);
  }

  /**
   * Bumps now and answers whether the record is still ours: asked before a roll mints, so that a star
   * which a duplicate has replaced does not supersede that one in turn. Never rejects.
   */
  async verify(): Promise<boolean> {
    await this.#beating;
    if (this.#state !== 'held') return false;
    if (this.#beatTimer !== undefined) this.#ports.clock.clearTimeout(this.#beatTimer);
    this.#startBeat();
    await this.#beating;
    return this.isHeld;
  }

  /**
   * Registers a new incarnation and begins to bump it. Answers the incarnation.
   *
   * Refuses at once when the holder's process lives on this host or its beat is seen; a holder
   * elsewhere is watched for its timeout and replaced when nothing is heard of it.
   *
   * @throws EngineError STAR_IN_USE, METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
   */
  async register(options: RegisterOptions = {}): Promise<string> {
    assert(this.#state === 'new', 'a lease registers once');
    this.#state = 'registering';
    this.#held = await registerLease(this.#ports, this.#options, {
      ...options,
      onAttempt: (incarnation) => {
        this.#throwIfEnded();
        this.#incarnation = incarnation;
        this.#attempted.push(incarnation);
      },
    });
    this.#throwIfEnded();
    this.#state = 'held';
    this.#arm();
    return this.#held.lease.incarnation;
  }

  /** Carried by the next bump: reads begun before this round of the collector have ended. */
  acknowledgeRound(round: number): void {
    this.#collectorRound = Math.max(this.#collectorRound, round);
  }

  /** Loses the lease on purpose and tells the world, so that others need not wait for its expiry. */
  giveUp(): void {
    if (this.#isOver()) return;
    this.#lose('given-up');
    void this.end();
  }

  /**
   * Stops bumping and marks the record as ended, so that a successor need not wait. Also after a
   * loss, when the record is still ours. Never rejects; gives up after two seconds. Idempotent.
   */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  #write(
    lease: LeaseRecord,
    expected: MetaVersion,
    context: ConditionalContext,
  ): Promise<PutResult> {
    return writeLease(this.#ports.metastore, { key: this.#key, lease, expected }, context);
  }

  #arm(): void {
    const { clock } = this.#ports;
    this.#disarm();
    const age = clock.monotonic() - this.#held!.sentAt;
    const untilBeat = Math.max(0, nextBeatAfterMillis(this.#options.timeoutMillis) - age);
    this.#beatTimer = clock.setTimeout(() => this.#startBeat(), untilBeat);
    this.#armLoss();
  }

  #armLoss(): void {
    const { clock } = this.#ports;
    const age = clock.monotonic() - this.#held!.sentAt;
    // At least a millisecond: sums of fractions may fall a trifle short of the timeout.
    const untilLoss = Math.max(1, this.#options.timeoutMillis - age);
    this.#lossTimer = clock.setTimeout(() => {
      if (!this.#isOver()) this.#armLoss();
    }, untilLoss);
  }

  #disarm(): void {
    const { clock } = this.#ports;
    if (this.#beatTimer !== undefined) clock.clearTimeout(this.#beatTimer);
    if (this.#lossTimer !== undefined) clock.clearTimeout(this.#lossTimer);
    this.#beatTimer = this.#lossTimer = undefined;
  }

  #startBeat(): void {
    this.#beatTimer = undefined;
    this.#beating = this.#beat().finally(() => {
      this.#beating = undefined;
    });
  }

  /** One bump, retried until it is known to be applied, another's write is found, or time is up. */
  async #beat(): Promise<void> {
    if (this.#isOver()) return;
    const { clock, random, log } = this.#ports;
    const { star, timeoutMillis } = this.#options;
    const last = this.#held!;
    const sentAt = clock.monotonic();
    const next = bumped(last.lease, this.#collectorRound);
    try {
      const put = await this.#write(next, last.version, {
        clock,
        random,
        signal: this.#beats.signal,
        timeoutMillis: last.sentAt + timeoutMillis - sentAt,
        // However long the metastore is away, the lease outlives it if it comes back in time.
        retry: { firstMillis: 10, maxMillis: timeoutMillis / 50 },
        attemptMillis: nextBeatAfterMillis(timeoutMillis),
      });
      if (this.#isOver()) return;
      if (put.kind === 'applied') this.#held = { lease: next, version: put.version, sentAt };
      else this.#adopt(put.current);
      if (this.#state === 'held') this.#arm();
    } catch (cause) {
      if (this.#isOver()) return;
      const { code, message } = toEngineError(cause);
      log.warn({ star, code, message }, 'a lease could not be renewed');
      const again = nextBeatAfterMillis(timeoutMillis) / 2;
      this.#beatTimer = clock.setTimeout(() => this.#startBeat(), again);
    }
  }

  /** A conflict: an earlier bump of ours that came through late is taken over, all else is a loss. */
  #adopt(current: MetaEntry | undefined): void {
    if (current === undefined) {
      this.#lose('removed');
      return;
    }
    const lease = parseLease(this.#key, current.value);
    if (lease.incarnation !== this.#incarnation) this.#lose('replaced');
    else if (lease.state === 'ended') this.#lose('ended');
    else this.#held = { ...this.#held!, lease, version: current.version };
  }

  /** Notices by the way that the lease has run out. */
  #isOver(): boolean {
    if (this.#state === 'held' && !this.isHeld) this.#lose('expired');
    return this.#state !== 'held';
  }

  #lose(reason: LossReason): void {
    this.#state = 'lost';
    this.#disarm();
    this.#beats.abort();
    this.#options.onLost(reason);
  }

  async #end(): Promise<void> {
    this.#state = 'ended';
    this.#disarm();
    this.#beats.abort();
    await this.#beating;
    if (this.#incarnation === undefined) return;
    try {
      await this.#endRecord(this.#incarnation);
    } catch (cause) {
      const { code, message } = toEngineError(cause);
      const { star } = this.#options;
      this.#ports.log.warn({ star, code, message }, 'a lease was left to expire');
    }
  }

  async #endRecord(incarnation: string): Promise<void> {
    const { metastore, clock, random } = this.#ports;
    const limited = linkedSignal(clock, { timeoutMillis: END_MILLIS }, 'end of a lease');
    const { signal } = limited;
    try {
      let entry = await metastore.get(this.#key, { signal });
      for (;;) {
        if (entry === undefined) return;
        const lease = parseLease(this.#key, entry.value);
        if (lease.incarnation !== incarnation || lease.state === 'ended') return;
        // After a conflict: a bump that was still under way came first, or somebody else did.
        const put = await this.#write(ended(lease), entry.version, { clock, random, signal });
        if (put.kind === 'applied') return;
        entry = put.current;
      }
    } finally {
      limited.release();
    }
  }

  #throwIfEnded(): void {
    if (this.#state === 'ended') {
      throw new EngineError('CLOSED', 'the star was closed while it registered');
    }
  }
}

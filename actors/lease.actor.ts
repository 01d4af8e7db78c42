/**
 * The lease of one star: registers it, bumps its beat, notices its loss. Rules: src/protocol/lease.ts.
 */
import { assert } from '../src/lib/assert.ts';
import type { TimerHandle } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { sleep } from '../src/lib/wait.ts';
import { starKey } from '../src/protocol/keys.ts';
import {
  LOOK_EVERY_MILLIS,
  bumped,
  encodeLease,
  ended,
  firstLease,
  isLost,
  judgeRegistration,
  nextBeatAfterMillis,
  observe,
  parseLease,
  type LeaseObservation,
  type StarLease as LeaseRecord,
} from '../src/protocol/lease.ts';
import type { MetaEntry, MetaVersion } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';
import { StarObserver } from './star-observer.ts';

/** Why a lease ended without its holder's doing. */
export type LossReason =
  /** No bump was applied for a timeout. */
  | 'expired'
  /** Another incarnation took the record. */
  | 'replaced'
  /** An observer ended it. */
  | 'ended'
  /** The record is gone. */
  | 'removed';

export interface StarLeaseOptions {
  readonly star: string;
  readonly timeoutMillis: number;
  /** Where peers reach this star. */
  readonly address?: string | undefined;
  /** Called once at most, and never after `end`. The loss is final. Must not throw. */
  readonly onLost: (reason: LossReason) => void;
}

export interface RegisterOptions {
  /** Replace a live holder at once. At process start only, never after a loss. */
  readonly supersede?: boolean;
  /** An incarnation of this star that the caller itself has lost. */
  readonly replaces?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How long `end` tries to tell the world; past it the record expires by itself. */
const END_MILLIS = 2_000;

export type LeasePorts = Pick<StarPorts, 'metastore' | 'clock' | 'random' | 'processes' | 'log'>;

interface Held {
  readonly lease: LeaseRecord;
  readonly version: MetaVersion;
  /** When the bump (or registration) that is known to be applied was first sent. */
  readonly sentAt: number;
}

export class StarLease {
  readonly observer: StarObserver;
  readonly #ports: LeasePorts;
  readonly #options: StarLeaseOptions;
  readonly #key: string;
  readonly #beats = new AbortController();
  #state: 'new' | 'registering' | 'held' | 'lost' | 'ended' = 'new';
  #held: Held | undefined;
  #collectorRound = 0;
  #beatTimer: TimerHandle | undefined;
  #lossTimer: TimerHandle | undefined;
  #beating: Promise<void> | undefined;
  #ending: Promise<void> | undefined;

  constructor(ports: LeasePorts, options: StarLeaseOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#key = starKey(options.star);
    this.observer = new StarObserver(ports);
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
    try {
      this.#held = await this.#acquire(options);
    } catch (error) {
      if (!this.#isEnded()) this.#state = 'new';
      throw error;
    }
    if (this.#isEnded()) {
      // Closed while the answer was under way: nobody else knows of this record.
      await this.#endRecord();
      throw new EngineError('CLOSED', 'the star was closed while it registered');
    }
    this.#state = 'held';
    this.#arm();
    return this.incarnation;
  }

  /** Carried by the next bump: reads begun before this round of the collector have ended. */
  acknowledgeRound(round: number): void {
    this.#collectorRound = Math.max(this.#collectorRound, round);
  }

  /** Whether this incarnation of a star is registered; a lease found to be over is ended first. */
  isRegistered(star: string, incarnation: string, signal?: AbortSignal): Promise<boolean> {
    return this.observer.isRegistered(star, incarnation, signal);
  }

  /**
   * Stops bumping and marks the record as ended, so that a successor need not wait. Also after a
   * loss, when the record is still ours. Never rejects; gives up after two seconds. Idempotent.
   */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #acquire(options: RegisterOptions): Promise<Held> {
    const { metastore, clock, random, processes } = this.#ports;
    const { star, timeoutMillis, address } = this.#options;
    const { signal, supersede = false } = options;
    let { replaces } = options;
    let observation: LeaseObservation | undefined;
    for (;;) {
      const entry = await metastore.get(this.#key, { signal });
      const current = entry === undefined ? undefined : parseLease(this.#key, entry.value);
      const look =
        entry === undefined || current === undefined
          ? undefined
          : observe(observation, { version: entry.version, lease: current }, clock.monotonic());
      observation = look?.observation ?? observation;
      const decision = judgeRegistration(
        {
          current,
          process: current === undefined ? 'unknown' : processes.judge(current.process),
          standing: look?.standing ?? 'live',
          changed: (look?.observation.changes ?? 0) > 0,
        },
        { supersede, replaces },
      );
      if (decision === 'in-use') throw starInUse(star, current!);
      if (decision === 'watch') {
        await sleep(clock, LOOK_EVERY_MILLIS, signal);
        continue;
      }
      const incarnation = random.hex(16);
      const holder = { incarnation, address, timeoutMillis, process: processes.self() };
      const sentAt = clock.monotonic();
      const first = firstLease(holder, random.hex(8));
      const put = await conditionalPut(
        metastore,
        {
          key: this.#key,
          expected: entry?.version ?? 'absent',
          encode: (attempt) => encodeLease({ ...first, attempt }),
        },
        { clock, random, signal },
      );
      if (put.kind === 'conflict') continue;
      // An answer that took a timeout registered an incarnation that is lost already.
      if (!isLost(sentAt, clock.monotonic(), timeoutMillis)) {
        return { lease: first, version: put.version, sentAt };
      }
      replaces = incarnation;
    }
  }

  #arm(): void {
    const { clock } = this.#ports;
    const { timeoutMillis } = this.#options;
    const age = clock.monotonic() - this.#held!.sentAt;
    this.#disarm();
    const untilBeat = Math.max(0, nextBeatAfterMillis(timeoutMillis) - age);
    this.#beatTimer = clock.setTimeout(() => this.#startBeat(), untilBeat);
    this.#lossTimer = clock.setTimeout(() => this.#loseIfLate(), Math.max(0, timeoutMillis - age));
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
    const { metastore, clock, random, log } = this.#ports;
    const { timeoutMillis } = this.#options;
    const { lease, version, sentAt: lastSentAt } = this.#held!;
    const sentAt = clock.monotonic();
    if (this.#loseIfLate()) return;
    const next = bumped(lease, this.#collectorRound, lease.attempt);
    try {
      const put = await conditionalPut(
        metastore,
        {
          key: this.#key,
          expected: version,
          encode: (attempt) => encodeLease({ ...next, attempt }),
        },
        {
          clock,
          random,
          signal: this.#beats.signal,
          timeoutMillis: lastSentAt + timeoutMillis - sentAt,
        },
      );
      if (this.#state !== 'held' || this.#loseIfLate()) return;
      if (put.kind === 'applied') this.#held = { lease: next, version: put.version, sentAt };
      else if (!this.#adopt(put.current)) return;
    } catch (cause) {
      if (this.#state !== 'held' || this.#loseIfLate()) return;
      const { code, message } = toEngineError(cause);
      log.warn({ star: this.#options.star, code, message }, 'a lease could not be renewed');
      this.#beatTimer = clock.setTimeout(
        () => this.#startBeat(),
        nextBeatAfterMillis(timeoutMillis) / 2,
      );
      return;
    }
    this.#arm();
  }

  /** A conflict: an earlier bump of ours that came through late is taken over, all else is a loss. */
  #adopt(current: MetaEntry | undefined): boolean {
    if (current === undefined) return this.#lose('removed');
    const lease = parseLease(this.#key, current.value);
    if (lease.incarnation !== this.incarnation) return this.#lose('replaced');
    if (lease.state === 'ended') return this.#lose('ended');
    this.#held = { ...this.#held!, lease, version: current.version };
    return true;
  }

  #loseIfLate(): boolean {
    if (this.#state !== 'held' || this.isHeld) return this.#state !== 'held';
    this.#lose('expired');
    return true;
  }

  #lose(reason: LossReason): false {
    if (this.#state !== 'held') return false;
    this.#state = 'lost';
    this.#disarm();
    this.#beats.abort();
    this.#options.onLost(reason);
    return false;
  }

  async #end(): Promise<void> {
    const wasKnown = this.#state === 'held' || this.#state === 'lost';
    this.#state = 'ended';
    this.#disarm();
    this.#beats.abort();
    await this.#beating;
    if (wasKnown) await this.#endRecord();
  }

  #isEnded(): boolean {
    return this.#state === 'ended';
  }

  async #endRecord(): Promise<void> {
    const { metastore, clock, random, log } = this.#ports;
    const { lease: own } = this.#held!;
    let { version } = this.#held!;
    let lease = own;
    const deadline = clock.monotonic() + END_MILLIS;
    try {
      for (;;) {
        const last = lease;
        const put = await conditionalPut(
          metastore,
          {
            key: this.#key,
            expected: version,
            encode: (attempt) => encodeLease(ended(last, attempt)),
          },
          { clock, random, timeoutMillis: Math.max(0, deadline - clock.monotonic()) },
        );
        if (put.kind === 'applied' || put.current === undefined) return;
        // A bump that was still under way came first; anybody else's record stays as it is.
        lease = parseLease(this.#key, put.current.value);
        version = put.current.version;
        if (lease.incarnation !== own.incarnation || lease.state === 'ended') return;
      }
    } catch (cause) {
      const { code, message } = toEngineError(cause);
      log.warn({ star: this.#options.star, code, message }, 'a lease was left to expire');
    }
  }
}

function starInUse(star: string, holder: LeaseRecord): EngineError {
  const { process, address, incarnation } = holder;
  return new EngineError('STAR_IN_USE', 'another live process runs this star', {
    retryAfterMillis: holder.timeoutMillis,
    details: { star, hostName: process.hostName, pid: process.pid, address, incarnation },
  });
}

/**
 * Judges the leases of other stars and ends those that are over. A watch tells of changes at once;
 * reads are the backstop. What it sees is a reason to wait or to begin a fence, never evidence: the
 * CAS that acts on it decides. Rules: src/protocol/lease.ts.
 */
import { linkedSignal, throwIfAborted } from '../src/lib/wait.ts';
import { starKey, starsPrefix } from '../src/protocol/keys.ts';
import {
  LOOK_EVERY_MILLIS,
  READ_EVERY_MILLIS,
  ended,
  endsInMillis,
  isOlder,
  judgeHolder,
  observe,
  parseLease,
  type LeaseObservation,
  type StarLease,
} from '../src/protocol/lease.ts';
import type { MetaEntry, MetaWatch, MetaWatchEvent } from '../src/ports/metastore.ts';
import { writeLease } from './lease-registration.ts';
import type { StarPorts } from './ports.ts';
import { Progress } from './progress.ts';

export type ObserverPorts = Pick<StarPorts, 'metastore' | 'clock' | 'random' | 'processes' | 'log'>;

/** The log line of an observer that found a star to be over. */
export const LEASE_ENDED = 'the lease of a star was found to be over';

export type StarLook =
  | { readonly kind: 'absent' }
  | { readonly kind: 'held'; readonly lease: StarLease }
  | { readonly kind: 'ended'; readonly lease: StarLease };

export interface StarHolder {
  readonly lease: StarLease;
  /** When its lease ends at the earliest, if nothing more is heard of it; 0: now. */
  readonly endsInMillis: number;
}

interface Known {
  readonly lease: StarLease;
  readonly observation: LeaseObservation;
}

export class StarObserver {
  readonly #ports: ObserverPorts;
  /** Stars found held; a version that comes up again proves that nothing happened in between. */
  readonly #known = new Map<string, Known>();
  readonly #changes = new Progress();
  #changeCount = 0;
  #watch: MetaWatch | undefined;

  constructor(ports: ObserverPorts) {
    this.#ports = ports;
  }

  /**
   * Begins to watch: from now on it knows how long each star has been silent, so that the first look
   * after a death need not begin to wait then.
   */
  start(): void {
    this.#watch ??= this.#ports.metastore.watch(starsPrefix, (event) => this.#noticed(event));
  }

  close(): void {
    this.#watch?.close();
    this.#watch = undefined;
  }

  /**
   * One look at a star. A held record is ended, by CAS, when its process on this host is dead or
   * when this observer found it unchanged for its timeout and a margin.
   *
   * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
   */
  async look(star: string, signal?: AbortSignal): Promise<StarLook> {
    const silent = this.#known.get(star);
    // What the watch told may be old: the CAS notices.
    if (silent !== undefined && this.#isOver(silent)) return this.#end(star, silent, signal);
    const found = this.#asFound(star, await this.#ports.metastore.get(starKey(star), { signal }));
    const known = this.#known.get(star);
    if (found.kind !== 'held' || known === undefined || !this.#isOver(known)) return found;
    return this.#end(star, known, signal);
  }

  /** The lease of this incarnation of the star, if it is registered as far as one look tells. */
  async holder(
    star: string,
    incarnation: string,
    signal?: AbortSignal,
  ): Promise<StarHolder | undefined> {
    const found = await this.look(star, signal);
    if (found.kind !== 'held' || found.lease.incarnation !== incarnation) return undefined;
    const known = this.#known.get(star);
    const now = this.#ports.clock.monotonic();
    const left = known === undefined ? 0 : endsInMillis(known.observation, found.lease, now);
    return { lease: found.lease, endsInMillis: left };
  }

  async isRegistered(star: string, incarnation: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.holder(star, incarnation, signal)) !== undefined;
  }

  /**
   * Resolves once the incarnation is over: at once when its record says so, within half a second when
   * its process on this host dies, else when it has been silent for long enough.
   *
   * @throws EngineError as `look`
   */
  async untilOver(star: string, incarnation: string, signal?: AbortSignal): Promise<void> {
    for (;;) {
      const seen = this.#changeCount;
      if (!(await this.isRegistered(star, incarnation, signal))) return;
      await this.#untilDue(star, seen, signal);
    }
  }

  async #end(
    star: string,
    { lease, observation }: Known,
    signal: AbortSignal | undefined,
  ): Promise<StarLook> {
    const { metastore, clock, random } = this.#ports;
    const over = ended(lease);
    const put = await writeLease(
      metastore,
      { key: starKey(star), lease: over, expected: observation.version },
      { clock, random, signal },
    );
    if (put.kind === 'applied') this.#ports.log.info({ star }, LEASE_ENDED);
    // Whoever was faster: a holder that lives after all, its successor, or another observer.
    this.#known.delete(star);
    return put.kind === 'conflict'
      ? this.#asFound(star, put.current)
      : { kind: 'ended', lease: over };
  }

  /** Waits for a reason to look again. */
  async #untilDue(star: string, seen: number, signal: AbortSignal | undefined): Promise<void> {
    const { clock } = this.#ports;
    const readAt = clock.monotonic() + READ_EVERY_MILLIS;
    while (clock.monotonic() < readAt) {
      const known = this.#known.get(star);
      if (known === undefined || this.#isOver(known) || this.#changeCount !== seen) return;
      const pause = linkedSignal(clock, { signal, timeoutMillis: LOOK_EVERY_MILLIS }, 'look');
      await this.#changes.next(pause.signal).finally(pause.release);
      throwIfAborted(signal, 'wait for the end of a lease');
    }
  }

  #noticed(event: MetaWatchEvent): void {
    if (event.kind === 'ready' || event.kind === 'resync') void this.#readAll();
    else if (event.kind === 'put') {
      const star = starOf(event.entry.key);
      const before = this.#known.get(star);
      this.#noticedEntry(event.entry);
      if (isBump(before?.lease, this.#known.get(star)?.lease)) return;
    } else this.#known.delete(starOf(event.key));
    this.#changeCount++;
    this.#changes.tell();
  }

  /** What the watch does not tell of: the records as they are now. Whoever waits looks by itself. */
  async #readAll(): Promise<void> {
    try {
      const entries = await this.#ports.metastore.children(starsPrefix);
      for (const entry of entries) this.#noticedEntry(entry);
    } catch {
      return;
    }
  }

  /** Nobody asked for it: whoever looks at it is told that it does not parse. */
  #noticedEntry(entry: MetaEntry): void {
    try {
      this.#asFound(starOf(entry.key), entry);
    } catch {
      return;
    }
  }

  #isOver({ lease, observation }: Known): boolean {
    const { clock, processes } = this.#ports;
    const left = endsInMillis(observation, lease, clock.monotonic());
    return judgeHolder(processes.judge(lease.process), left > 0 ? 'live' : 'expired') === 'end';
  }

  #asFound(star: string, entry: MetaEntry | undefined): StarLook {
    const lease = entry === undefined ? undefined : parseLease(entry.key, entry.value);
    if (entry === undefined || lease?.state !== 'held') {
      this.#known.delete(star);
      return lease === undefined ? { kind: 'absent' } : { kind: 'ended', lease };
    }
    const before = this.#known.get(star);
    // An old read, or an event that came after a read: what is known already is newer.
    if (before !== undefined && isOlder(lease, before.lease)) {
      return { kind: 'held', lease: before.lease };
    }
    const now = this.#ports.clock.monotonic();
    const seen = { version: entry.version, lease };
    this.#known.set(star, {
      lease,
      observation: observe(before?.observation, seen, now).observation,
    });
    return { kind: 'held', lease };
  }
}

function starOf(key: string): string {
  return key.slice(starsPrefix.length);
}

/** The same incarnation lives on: nobody waits for that. */
function isBump(before: StarLease | undefined, after: StarLease | undefined): boolean {
  return before !== undefined && before.incarnation === after?.incarnation;
}

/**
 * Judges the leases of other stars and ends those that are over. What it sees is a reason to wait or
 * to begin a fence, never evidence: the CAS that acts on it decides. Rules: src/protocol/lease.ts.
 */
import { sleep } from '../src/lib/wait.ts';
import { starKey } from '../src/protocol/keys.ts';
import {
  LOOK_EVERY_MILLIS,
  ended,
  judgeHolder,
  observe,
  parseLease,
  type LeaseObservation,
  type StarLease,
} from '../src/protocol/lease.ts';
import type { MetaEntry } from '../src/ports/metastore.ts';
import { writeLease } from './lease-registration.ts';
import type { StarPorts } from './ports.ts';

export type ObserverPorts = Pick<StarPorts, 'metastore' | 'clock' | 'random' | 'processes'>;

export type StarLook =
  | { readonly kind: 'absent' }
  | { readonly kind: 'held'; readonly lease: StarLease }
  | { readonly kind: 'ended'; readonly lease: StarLease };

export class StarObserver {
  readonly #ports: ObserverPorts;
  /** Of stars found held; a version that comes up again proves that nothing happened in between. */
  readonly #observations = new Map<string, LeaseObservation>();

  constructor(ports: ObserverPorts) {
    this.#ports = ports;
  }

  /**
   * One look at a star. A held record is ended, by CAS, when its process on this host is dead or
   * when looks of this observer found it unchanged for its timeout and a margin.
   *
   * @throws EngineError METASTORE_UNAVAILABLE, METASTORE_CORRUPT, ABORTED
   */
  async look(star: string, signal?: AbortSignal): Promise<StarLook> {
    const { metastore, clock, random } = this.#ports;
    const key = starKey(star);
    const found = this.#judge(star, await metastore.get(key, { signal }));
    if (found.kind !== 'end') return found;
    const lease = ended(found.lease);
    const put = await writeLease(
      metastore,
      { key, lease, expected: found.version },
      { clock, random, signal },
    );
    // Whoever was faster: a holder that lives after all, its successor, or another observer.
    if (put.kind === 'conflict') return this.#asFound(star, put.current);
    this.#observations.delete(star);
    return { kind: 'ended', lease };
  }

  /** Whether this incarnation of the star is registered, as far as one look tells. */
  async isRegistered(star: string, incarnation: string, signal?: AbortSignal): Promise<boolean> {
    const found = await this.look(star, signal);
    return found.kind === 'held' && found.lease.incarnation === incarnation;
  }

  /** Resolves once the incarnation is over; a dead process on this host is noticed within half a second. */
  async untilOver(star: string, incarnation: string, signal?: AbortSignal): Promise<void> {
    while (await this.isRegistered(star, incarnation, signal)) {
      await sleep(this.#ports.clock, LOOK_EVERY_MILLIS, signal);
    }
  }

  #judge(
    star: string,
    entry: MetaEntry | undefined,
  ): StarLook | { readonly kind: 'end'; readonly lease: StarLease; version: MetaEntry['version'] } {
    const found = this.#asFound(star, entry);
    if (entry === undefined || found.kind !== 'held') return found;
    const { lease } = found;
    const now = this.#ports.clock.monotonic();
    const seen = { version: entry.version, lease };
    const { observation, standing } = observe(this.#observations.get(star), seen, now);
    this.#observations.set(star, observation);
    return judgeHolder(this.#ports.processes.judge(lease.process), standing) === 'end'
      ? { kind: 'end', lease, version: entry.version }
      : found;
  }

  #asFound(star: string, entry: MetaEntry | undefined): StarLook {
    if (entry !== undefined) {
      const lease = parseLease(entry.key, entry.value);
      if (lease.state === 'held') return { kind: 'held', lease };
      this.#observations.delete(star);
      return { kind: 'ended', lease };
    }
    this.#observations.delete(star);
    return { kind: 'absent' };
  }
}

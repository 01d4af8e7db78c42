/**
 * Judges the leases of other stars and ends those that are over. What it sees is a reason to wait or
 * to begin a fence, never evidence: the CAS that acts on it decides. Rules: src/protocol/lease.ts.
 */
import { sleep } from '../src/lib/wait.ts';
import { starKey } from '../src/protocol/keys.ts';
import {
  LOOK_EVERY_MILLIS,
  encodeLease,
  ended,
  judgeHolder,
  observe,
  parseLease,
  type LeaseObservation,
  type StarLease,
} from '../src/protocol/lease.ts';
import type { MetaEntry } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
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
    const { metastore, clock, random, processes } = this.#ports;
    const key = starKey(star);
    let entry = await metastore.get(key, { signal });
    for (;;) {
      const found = this.#judge(star, entry);
      if (found.kind !== 'end') return found;
      const { lease, version } = found;
      const put = await conditionalPut(
        metastore,
        { key, expected: version, encode: (attempt) => encodeLease({ ...ended(lease), attempt }) },
        { clock, random, signal },
      );
      if (put.kind === 'applied') {
        this.#observations.delete(star);
        return { kind: 'ended', lease: ended(lease) };
      }
      // Whoever was faster: a holder that lives after all, its successor, or another observer.
      entry = put.current;
      const stillDead = entry !== undefined && processes.judge(lease.process) === 'dead';
      if (!stillDead) return this.#asFound(star, entry);
    }
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

/**
 * Confirms that the epoch is not cut (L1): a flight whose first PUT began after the request was
 * acknowledged, or, with nothing unacknowledged, one read wave finds the next slot empty in W
 * buckets. One confirmation answers everyone who waits. Source: DESIGN "Serving (L)".
 */
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { EXISTS_HEAD_BYTES } from '../src/ports/bucket-store.ts';
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { deferred, sleep, type Deferred } from '../src/lib/wait.ts';
import {
  isConfirmed,
  voteOf,
  type ConfirmationEvidence,
  type ConfirmationRequest,
  type ConfirmationVote,
} from '../src/protocol/confirmation.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { SetBucket } from './bucket-set.ts';
import type { EpochWriter } from './epoch-writer.ts';
import type { StarPorts } from './ports.ts';

const RETRY = { firstMillis: 5, maxMillis: 500 };
/** A bucket that does not answer in time leaves its vote out; the wave is repeated. */
const WAVE_MILLIS = 1_000;

interface Waiter extends ConfirmationRequest {
  readonly done: Deferred<void>;
}

export class Confirmation {
  readonly #ports: StarPorts;
  readonly #writer: EpochWriter;
  readonly #buckets: readonly SetBucket[];
  readonly #controller = forManyListeners(new AbortController());
  #waiters: Waiter[] = [];
  #arrivals = 0;
  #waving = false;

  constructor(ports: StarPorts, writer: EpochWriter, buckets: readonly SetBucket[]) {
    this.#ports = ports;
    this.#writer = writer;
    this.#buckets = buckets;
    writer.progress.listen(() => this.#progressed());
  }

  /**
   * Resolves after a confirmation that began after this call.
   *
   * @throws EngineError FENCED when the epoch has ended. Waits as long as too few buckets answer.
   */
  confirm(): Promise<void> {
    if (this.#writer.lost !== undefined) return Promise.reject(this.#writer.fencedError());
    const waiter: Waiter = {
      firstSlot: this.#writer.next,
      arrived: this.#arrivals++,
      done: deferred(),
    };
    this.#waiters.push(waiter);
    this.#startWave();
    return waiter.done.promise;
  }

  /** Ends every wait with the error. */
  stop(error: EngineError): void {
    this.#controller.abort();
    for (const waiter of this.#waiters.splice(0)) waiter.done.reject(error);
  }

  #progressed(): void {
    if (this.#writer.lost !== undefined) {
      this.stop(this.#writer.fencedError());
      return;
    }
    if (this.#waiters.length === 0) return;
    this.#settle({ kind: 'released', released: this.#writer.released });
    this.#startWave();
  }

  #settle(evidence: ConfirmationEvidence): void {
    const { copyQuorum } = this.#writer.record;
    const left: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (isConfirmed(waiter, evidence, copyQuorum)) waiter.done.resolve();
      else left.push(waiter);
    }
    this.#waiters = left;
  }

  #startWave(): void {
    if (this.#waving || this.#waiters.length === 0 || !this.#writer.isIdle) return;
    this.#waving = true;
    void this.#waves().finally(() => {
      this.#waving = false;
      if (this.#writer.lost === undefined) this.#startWave();
    });
  }

  /** Waves until everyone is answered or flights take over. */
  async #waves(): Promise<void> {
    const { signal } = this.#controller;
    for (let attempt = 0; this.#waiters.length > 0 && this.#writer.isIdle; attempt++) {
      const slot = this.#writer.next;
      const begun = this.#arrivals;
      const votes = await this.#wave(slot);
      if (signal.aborted) return;
      this.#ports.metrics.counter('confirmation.waves').add();
      if (this.#writer.lost !== undefined) return;
      const clean = votes.filter((vote) => vote === 'clean').length;
      if (clean >= this.#writer.record.copyQuorum) {
        this.#settle({ kind: 'wave', begun, clean });
        attempt = -1;
        continue;
      }
      const wait = backoffMillis(this.#ports.random, attempt, RETRY);
      await sleep(this.#ports.clock, wait, signal).catch(() => undefined);
    }
  }

  async #wave(slot: number): Promise<readonly ConfirmationVote[]> {
    const controller = new AbortController();
    const timer = this.#ports.clock.setTimeout(() => controller.abort(), WAVE_MILLIS);
    const onStop = (): void => controller.abort();
    this.#controller.signal.addEventListener('abort', onStop, { once: true });
    try {
      return await Promise.all(this.#buckets.map((b) => this.#look(b, slot, controller.signal)));
    } finally {
      this.#ports.clock.clearTimeout(timer);
      this.#controller.signal.removeEventListener('abort', onStop);
    }
  }

  async #look(bucket: SetBucket, slot: number, signal: AbortSignal): Promise<ConfirmationVote> {
    const { star, epoch, nonce } = this.#writer.record;
    const key = slotKey(star, epoch, slot);
    const read = await bucket.store.readHead(key, EXISTS_HEAD_BYTES, { evidence: true, signal });
    if (read.kind === 'unknown') return voteOf('unknown', 'unknown');
    if (read.kind === 'found') {
      const object = inspectSlotObject(read.bytes, read.sizeBytes, { star, epoch, slot, nonce });
      const vote = voteOf(object.kind, 'unknown');
      // A3: at once, not when the slowest bucket has answered, or the slot is assigned meanwhile.
      if (object.kind !== 'flight') {
        this.#writer.halt({ slot, bucket: bucket.store.name, found: object.kind });
      }
      return vote;
    }
    // The absence counts only in the bucket it claims to be, by a read begun after it.
    return voteOf('absent', await bucket.confirm(signal));
  }
}

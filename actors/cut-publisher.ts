/** Reads and publishes the epoch record of a fence (P). Unavailability is waited out, never guessed. */
import { assertNever } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import type { MetaEntry, MetaVersion } from '../src/ports/metastore.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import { chainKey, epochKey } from '../src/protocol/keys.ts';
import { decidePublication, fencedRecord, type CutClaim } from '../src/protocol/publication.ts';
import {
  encodeRecordValue,
  epochRecord,
  parseRecordValue,
  type EpochRecord,
} from '../src/protocol/records.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';
import { untilAvailable } from './until-available.ts';

export type PublisherPorts = Pick<StarPorts, 'clock' | 'random' | 'metastore' | 'log' | 'metrics'>;

export interface VersionedRecord {
  readonly record: EpochRecord;
  readonly version: MetaVersion;
}

export type PublishedCut = VersionedRecord & {
  readonly kind: 'published' | 'adopted' | 'outdated';
};

export class CutPublisher {
  readonly #ports: PublisherPorts;
  readonly #star: string;
  readonly #epoch: number;
  readonly #key: string;
  readonly #by: { readonly star: string; readonly incarnation: string };

  constructor(
    ports: PublisherPorts,
    epoch: { readonly star: string; readonly epoch: number },
    by: { readonly star: string; readonly incarnation: string },
  ) {
    this.#ports = ports;
    this.#star = epoch.star;
    this.#epoch = epoch.epoch;
    this.#key = epochKey(epoch.star, epoch.epoch);
    this.#by = by;
  }

  /**
   * The record as some member of the metastore knows it; perhaps stale, which is safe wherever a
   * compare-and-set follows and the fenced state is final.
   *
   * @throws EngineError STAR_UNKNOWN, EPOCH_UNKNOWN, METASTORE_CORRUPT, ABORTED
   */
  async read(signal: AbortSignal): Promise<VersionedRecord> {
    const { metastore } = this.#ports;
    let entry = await untilAvailable(this.#ports, signal, () =>
      metastore.get(this.#key, { signal }),
    );
    if (entry === undefined) {
      // "Unknown" must not rest on a stale answer.
      await this.#barrier(signal);
      entry = await untilAvailable(this.#ports, signal, () => metastore.get(this.#key, { signal }));
    }
    return entry === undefined ? this.#refuseUnknown(signal) : this.#parse(entry);
  }

  /**
   * Records the cut, or says why the walk does not count. A cut below a slot that was acknowledged is
   * never recorded: the epoch stays as it is.
   *
   * @param known - the record as the walk read it: it serves as long as nobody changed it since.
   * @param poisoned - names of the buckets whose poison made the cut, for the report.
   * @throws EngineError ACKNOWLEDGED_SLOT_POISONED, INVARIANT (F3), and those of `read`.
   */
  async publish(
    claim: CutClaim,
    known: VersionedRecord,
    poisoned: readonly string[],
    signal: AbortSignal,
  ): Promise<PublishedCut> {
    const isWritable = decidePublication(known.record, claim).kind === 'publish';
    let current = isWritable ? known : await this.read(signal);
    // A verdict that accuses somebody must not rest on a stale answer.
    let isFresh = false;
    for (;;) {
      const decision = decidePublication(current.record, claim);
      switch (decision.kind) {
        case 'publish': {
          const outcome = await this.#write(current, claim.cut, signal);
          if (outcome.published !== undefined) return outcome.published;
          current =
            outcome.current === undefined ? await this.read(signal) : this.#parse(outcome.current);
          continue;
        }
        case 'recorded':
          return { kind: 'adopted', ...current };
        case 'adopt':
          this.#reportOutdated(claim, poisoned, current.record);
          return { kind: 'adopted', ...current };
        case 'restart':
          return { kind: 'outdated', ...current };
        case 'acknowledged-poisoned':
        case 'disagreement':
          if (isFresh) throw this.#accusation(claim, poisoned, current.record, decision);
          await this.#barrier(signal);
          isFresh = true;
          current = await this.read(signal);
          continue;
        default:
          assertNever(decision);
      }
    }
  }

  async #write(
    { record, version }: VersionedRecord,
    cut: number,
    signal: AbortSignal,
  ): Promise<{ published?: PublishedCut; current?: MetaEntry | undefined }> {
    const { clock, random, metastore } = this.#ports;
    const fencedBy = {
      star: this.#by.star,
      incarnation: this.#by.incarnation,
      atMillis: Math.max(0, Math.floor(clock.now())),
    };
    let written = fencedRecord(record, cut, fencedBy);
    const encode = (attempt: string): Uint8Array => {
      written = { ...written, attempt };
      return encodeRecordValue(written);
    };
    const result = await conditionalPut(
      metastore,
      { key: this.#key, expected: version, encode },
      { clock, random, signal },
    );
    if (result.kind === 'conflict') return { current: result.current };
    return { published: { kind: 'published', record: written, version: result.version } };
  }

  #accusation(
    claim: CutClaim,
    poisoned: readonly string[],
    record: EpochRecord,
    decision: { kind: 'acknowledged-poisoned'; provenTo: number } | { kind: 'disagreement' },
  ): EngineError {
    const details = {
      star: this.#star,
      epoch: this.#epoch,
      slot: claim.cut,
      checkpoint: record.checkpoint,
      state: record.state,
    };
    if (decision.kind === 'disagreement') {
      this.#ports.metrics.counter('fence.disagreements').add();
      return new EngineError('INVARIANT', 'F3 does not hold: two walks found different cuts', {
        details: { ...details, recorded: record.cut },
      });
    }
    this.#ports.metrics.counter('fence.acknowledgedPoisoned').add();
    return new EngineError(
      'ACKNOWLEDGED_SLOT_POISONED',
      'poison holds a slot that was acknowledged; the epoch is not shortened',
      { details: { ...details, provenTo: decision.provenTo, buckets: poisoned.join(',') } },
    );
  }

  #reportOutdated(claim: CutClaim, poisoned: readonly string[], record: EpochRecord): void {
    const { log } = this.#ports;
    const fields = { star: this.#star, epoch: this.#epoch, slot: claim.cut, cut: record.cut };
    if (claim.cut < record.trimmed) {
      log.info(fields, 'a fence walk met deleted slots; the recorded cut stands');
      return;
    }
    // Deletions stay below `trimmed`: this slot's copies are missing for another reason.
    this.#ports.metrics.counter('fence.acknowledgedPoisoned').add();
    log.error(
      { ...fields, buckets: poisoned.join(',') },
      'poison holds a slot below the recorded cut',
    );
  }

  #parse(entry: MetaEntry): VersionedRecord {
    const record = parseRecordValue(epochRecord, entry.key, entry.value);
    return { record, version: entry.version };
  }

  async #refuseUnknown(signal: AbortSignal): Promise<never> {
    const chain = await untilAvailable(this.#ports, signal, () =>
      this.#ports.metastore.get(chainKey(this.#star), { signal }),
    );
    const details = { star: this.#star, epoch: this.#epoch };
    throw chain === undefined
      ? new EngineError('STAR_UNKNOWN', 'no chain of this star is registered', { details })
      : new EngineError('EPOCH_UNKNOWN', 'the star has no such epoch', { details });
  }

  #barrier(signal: AbortSignal): Promise<void> {
    const { metastore } = this.#ports;
    return untilAvailable(this.#ports, signal, () =>
      metastore.barrier(partitionOf(this.#key), { signal }),
    );
  }
}

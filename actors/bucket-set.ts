/**
 * Sets of buckets and the identity that each bucket must show. An absence, or a poison seen or
 * created, counts only if the bucket's identity was confirmed by a read begun after it; a copy
 * counts only in a bucket confirmed within the last second. Source: DESIGN "Bucket identity".
 */
import { EngineError } from '../src/lib/errors.ts';
import { encodeIdentity, identityKey, parseIdentity } from '../src/format/identity.ts';
import { encodeRecordValue, parseRecordValue, setRecord } from '../src/protocol/records.ts';
import type { SetRecord } from '../src/protocol/records.ts';
import { setKey } from '../src/protocol/keys.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

export type IdentityVerdict = 'confirmed' | 'lost' | 'unknown';

/** How long a confirmation lets a writer count copies. */
export const IDENTITY_FRESH_MILLIS = 1_000;
const IDENTITY_READ_BYTES = 512;
const SETS = setKey('');

/** One bucket of a set together with the identity it must show. */
export class SetBucket {
  #confirmedBegunAt = Number.NEGATIVE_INFINITY;
  #pending: Promise<IdentityVerdict> | undefined;

  readonly store: BucketStore;
  readonly setId: string;
  readonly bucketId: string;
  readonly metastoreId: string;
  private readonly ports: Pick<StarPorts, 'clock' | 'log' | 'metrics'>;

  constructor(
    store: BucketStore,
    identity: { readonly setId: string; readonly bucketId: string; readonly metastoreId: string },
    ports: Pick<StarPorts, 'clock' | 'log' | 'metrics'>,
  ) {
    this.store = store;
    this.setId = identity.setId;
    this.bucketId = identity.bucketId;
    this.metastoreId = identity.metastoreId;
    this.ports = ports;
  }

  /** Reads the identity, by a read that begins now. Never rejects. */
  async confirm(signal?: AbortSignal): Promise<IdentityVerdict> {
    const begunAt = this.ports.clock.monotonic();
    const answer = await this.store.readRange(identityKey(this.setId), 0, IDENTITY_READ_BYTES, {
      evidence: true,
      signal,
    });
    if (answer.kind === 'unknown') return 'unknown';
    if (answer.kind === 'found') {
      const parsed = parseIdentity(answer.bytes);
      if (
        parsed.ok &&
        parsed.identity.setId === this.setId &&
        parsed.identity.bucketId === this.bucketId &&
        parsed.identity.metastoreId === this.metastoreId
      ) {
        this.#confirmedBegunAt = Math.max(this.#confirmedBegunAt, begunAt);
        return 'confirmed';
      }
    }
    this.#confirmedBegunAt = Number.NEGATIVE_INFINITY;
    this.ports.metrics.counter('bucket.identityLost').add();
    this.ports.log.error(
      { bucket: this.store.name, set: this.setId, found: answer.kind },
      'a bucket does not show the identity of its set',
    );
    return 'lost';
  }

  /** Whether a copy stored now counts: confirmed within the last second. */
  isFresh(): boolean {
    return this.ports.clock.monotonic() - this.#confirmedBegunAt <= IDENTITY_FRESH_MILLIS;
  }

  /** Begins one shared confirmation when the last one ages; callers need not wait for it. */
  refresh(): void {
    const age = this.ports.clock.monotonic() - this.#confirmedBegunAt;
    if (age > IDENTITY_FRESH_MILLIS / 2) void this.confirmShared();
  }

  /** A confirmation shared by all who ask while it is under way. */
  confirmShared(): Promise<IdentityVerdict> {
    this.#pending ??= this.confirm().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }
}

/** A registered set whose buckets are at hand; a bucket that is not configured any more is undefined. */
export interface BucketSet {
  readonly id: string;
  readonly buckets: readonly (SetBucket | undefined)[];
}

/** Finds, creates and resolves sets. One per star. */
export class BucketSets {
  readonly #known = new Map<string, BucketSet>();

  private readonly ports: StarPorts;
  private readonly metastoreId: string;

  constructor(ports: StarPorts, metastoreId: string) {
    this.ports = ports;
    this.metastoreId = metastoreId;
  }

  /**
   * The set of the configured buckets, created when no registered set has exactly these buckets in
   * this order. Refuses a bucket that lost or never had its identity, and fewer than `copyQuorum`
   * reachable ones.
   *
   * @throws EngineError BUCKET_IDENTITY, BUCKET_UNAVAILABLE, BUCKET_REFUSED
   */
  async establish(
    stores: readonly BucketStore[],
    copyQuorum: number,
    signal?: AbortSignal,
  ): Promise<BucketSet> {
    await probeAll(stores, copyQuorum, signal);
    let record = await this.#find(stores, signal);
    if (record === undefined) {
      // An old read misses a set; a new one around a bucket that was wiped would hide that.
      await this.ports.metastore.barrier(partitionOf(SETS), { signal });
      record = await this.#find(stores, signal);
    }
    if (record === undefined) return this.#create(stores, signal);
    const set = this.#build(record);
    await this.#verify(set, copyQuorum, signal);
    return set;
  }

  /** The registered set of exactly these buckets in this order. */
  async #find(
    stores: readonly BucketStore[],
    signal: AbortSignal | undefined,
  ): Promise<SetRecord | undefined> {
    const entries = await this.ports.metastore.children(SETS, { signal });
    return entries
      .map(({ key, value }) => parseRecordValue(setRecord, key, value))
      .find(
        ({ metastore, buckets }) =>
          metastore === this.metastoreId &&
          buckets.length === stores.length &&
          buckets.every(({ name }, index) => name === stores[index]!.name),
      );
  }

  /**
   * The set an epoch names.
   *
   * @throws EngineError METASTORE_CORRUPT when no such set is registered.
   */
  async resolve(setId: string, signal?: AbortSignal): Promise<BucketSet> {
    const known = this.#known.get(setId);
    if (known !== undefined) return known;
    const key = setKey(setId);
    let entry = await this.ports.metastore.get(key, { signal });
    if (entry === undefined) {
      // The epoch record may be newer than what this read saw of another partition.
      await this.ports.metastore.barrier(partitionOf(key), { signal });
      entry = await this.ports.metastore.get(key, { signal });
    }
    if (entry === undefined) {
      throw new EngineError('METASTORE_CORRUPT', 'an epoch names a set that is not registered', {
        details: { key },
      });
    }
    return this.#build(parseRecordValue(setRecord, key, entry.value));
  }

  #build(record: SetRecord): BucketSet {
    const known = this.#known.get(record.set);
    if (known !== undefined) return known;
    const set: BucketSet = {
      id: record.set,
      buckets: record.buckets.map(({ bucket, name }) => {
        const store = this.ports.bucketByName(name);
        return store === undefined
          ? undefined
          : new SetBucket(
              store,
              { setId: record.set, bucketId: bucket, metastoreId: record.metastore },
              this.ports,
            );
      }),
    };
    this.#known.set(record.set, set);
    return set;
  }

  async #verify(set: BucketSet, copyQuorum: number, signal?: AbortSignal): Promise<void> {
    const verdicts = await Promise.all(
      set.buckets.map(async (bucket) => (await bucket?.confirm(signal)) ?? 'unknown'),
    );
    const lost = verdicts.indexOf('lost');
    if (lost >= 0) {
      throw new EngineError(
        'BUCKET_IDENTITY',
        'a bucket does not show the identity of its set: it was wiped, replaced or belongs to another metastore; configure it under a new name to form a new set',
        { details: { bucket: set.buckets[lost]?.store.name, set: set.id } },
      );
    }
    const confirmed = verdicts.filter((verdict) => verdict === 'confirmed').length;
    if (confirmed < copyQuorum) {
      throw new EngineError('BUCKET_UNAVAILABLE', 'too few buckets show their identity', {
        details: { confirmed, copyQuorum },
      });
    }
  }

  /** Identities first, then the registration: a crash in between leaves objects that nobody names. */
  async #create(stores: readonly BucketStore[], signal?: AbortSignal): Promise<BucketSet> {
    const { random, clock, metastore } = this.ports;
    const setId = random.hex(16);
    const buckets = stores.map((store) => ({
      bucket: random.hex(16),
      name: store.name,
    }));
    await Promise.all(
      stores.map(async (store, bucketIndex) => {
        const bytes = encodeIdentity({
          bucketId: buckets[bucketIndex]!.bucket,
          bucketIndex,
          setId,
          metastoreId: this.metastoreId,
          createdAtMillis: clock.now(),
        });
        const outcome = await store.createOnly(identityKey(setId), bytes, { signal });
        // The id is new: an object of it is this one, sent twice.
        const isOwn = outcome.kind === 'exists' && Buffer.compare(outcome.head, bytes) === 0;
        if (outcome.kind === 'refused') throw outcome.cause;
        if (outcome.kind !== 'created' && !isOwn) {
          throw new EngineError('BUCKET_UNAVAILABLE', 'a new set could not write an identity', {
            cause: 'cause' in outcome ? outcome.cause : undefined,
            details: { bucket: store.name, outcome: outcome.kind },
          });
        }
      }),
    );
    const record = { set: setId, metastore: this.metastoreId, buckets };
    const key = setKey(setId);
    await conditionalPut(
      metastore,
      {
        key,
        expected: 'absent',
        encode: (attempt: string) => encodeRecordValue({ ...record, attempt }),
      },
      { clock, random, signal },
    );
    const set = this.#build({ ...record, attempt: '' });
    await Promise.all(set.buckets.map(async (bucket) => bucket?.confirm(signal)));
    return set;
  }
}

async function probeAll(
  stores: readonly BucketStore[],
  copyQuorum: number,
  signal?: AbortSignal,
): Promise<void> {
  const outcomes = await Promise.all(stores.map((b) => b.probe({ signal })));
  const refused = outcomes.find((outcome) => outcome.kind === 'refused');
  if (refused?.kind === 'refused') throw refused.cause;
  const unknown = outcomes.filter((outcome) => outcome.kind === 'unknown');
  if (outcomes.length - unknown.length < copyQuorum) {
    throw new EngineError('BUCKET_UNAVAILABLE', 'too few buckets answer to store a record', {
      cause: unknown[0]?.cause,
      details: { answering: outcomes.length - unknown.length, copyQuorum },
    });
  }
}

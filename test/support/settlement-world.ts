/**
 * Worlds with epochs in every condition that a settler or a reader may find, on virtual time. What
 * an epoch holds is planted; what settles and reads it is the product.
 */
import { expect } from 'vitest';
import { BucketSets } from '../../actors/bucket-set.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { SettlementActors, type SettlementOptions } from '../../actors/settlement.actor.ts';
import { MemoryBucketStore } from '../../src/adapters/memory/bucket-store.ts';
import { MemoryMetastore } from '../../src/adapters/memory/metastore.ts';
import { encodeIdentity, identityKey } from '../../src/format/identity.ts';
import { encodePoison } from '../../src/format/poison.ts';
import { toEngineError } from '../../src/lib/errors.ts';
import { epochKey, refsPrefix, setKey, slotKey, writerKey } from '../../src/protocol/keys.ts';
import {
  encodeRecordValue,
  epochRecord,
  parseRecordValue,
  refRow,
  type EpochRecord,
  type RefRow,
} from '../../src/protocol/records.ts';
import { rowFault } from '../../src/protocol/ref-rows.ts';
import { World, type WorldOptions } from '../../src/testing/world.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import { encodeFlight, type SampleBatch } from '../unit/format/samples.ts';
import { ATTEMPT, SET_ID } from './row-samples.ts';

const METASTORE_ID = 'e7'.repeat(16);
const ZERO_INCARNATION = '00'.repeat(16);

/** Ids of streams: 32 digits that repeat a letter from a to f. */
export function streamId(letter: string): string {
  return letter.repeat(32);
}

/** Records `[first, first + count)`, each with a body that says whose and which it is. */
export function batchOf(
  id: string,
  first: number,
  count: number,
  options: { readonly delta?: SampleBatch['delta']; readonly bodyBytes?: number } = {},
): SampleBatch {
  const records = Array.from({ length: count }, (_, index) => ({
    timestamp: (first + index) * 10,
    body: bodyOf(id, first + index).padEnd(options.bodyBytes ?? 0, '.'),
    headers: [],
  }));
  const { delta } = options;
  return { streamId: id, firstSeqNum: first, records, ...(delta === undefined ? {} : { delta }) };
}

export function bodyOf(id: string, seqNum: number): string {
  return `${id.slice(0, 1)}${seqNum}`;
}

export interface PlantedEpoch {
  readonly star: string;
  readonly epoch: number;
  /** Batches of each committed slot, from slot 0. */
  readonly flights: readonly (readonly SampleBatch[])[];
  /** Flights at and above the cut, by distance from it, in that many buckets. */
  readonly tail?: readonly { readonly distance: number; readonly copies: number }[];
  /** Buckets that hold a committed flight; every bucket by default, W at least. */
  readonly copies?: number;
  readonly record?: Partial<EpochRecord>;
}

export class SettlementWorld {
  readonly world: World;
  readonly admin: SimulatedProcess;
  readonly #bucketCount: number;
  readonly #epochs: PlantedEpoch[] = [];

  constructor(
    options: { readonly seed?: number; readonly buckets?: number } & Partial<WorldOptions> = {},
  ) {
    this.#bucketCount = options.buckets ?? 3;
    this.world = new World({
      seed: 1,
      bucketCount: this.#bucketCount,
      createBucket: (name) => new MemoryBucketStore({ name }),
      createMetastore: () => new MemoryMetastore(),
      ...options,
    });
    this.admin = this.world.spawn('admin');
  }

  /** Runs the body on virtual time until it has ended. */
  async run<T>(body: () => Promise<T>): Promise<T> {
    let outcome: { readonly value: T } | { readonly error: Error } | undefined;
    body().then(
      (value) => (outcome = { value }),
      (error: unknown) =>
        (outcome = { error: error instanceof Error ? error : toEngineError(error) }),
    );
    await this.world.scheduler.run(() => outcome !== undefined);
    if (outcome === undefined) throw new Error('the world came to rest before the test ended');
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  async plant(...epochs: readonly PlantedEpoch[]): Promise<void> {
    const { metastore } = this.admin.ports;
    const set = {
      set: SET_ID,
      metastore: METASTORE_ID,
      buckets: this.world.buckets.map(({ name }, index) => ({
        bucket: `${index}`.repeat(32),
        name,
      })),
      attempt: ATTEMPT,
    };
    await metastore.put(setKey(SET_ID), encodeRecordValue(set), 'absent');
    for (const [index, { bucket }] of set.buckets.entries()) {
      const identity = {
        bucketId: bucket,
        bucketIndex: index,
        setId: SET_ID,
        metastoreId: METASTORE_ID,
        createdAtMillis: 0,
      };
      const { store } = this.world.bucket(index);
      await store.createOnly(identityKey(SET_ID), encodeIdentity(identity));
    }
    for (const planted of epochs) await this.#plantEpoch(planted);
  }

  async #plantEpoch(planted: PlantedEpoch): Promise<void> {
    const { star, epoch, flights } = planted;
    this.#epochs.push(planted);
    const cut = flights.length;
    const record = this.recordFor(planted);
    const key = epochKey(star, epoch);
    await this.admin.ports.metastore.put(key, encodeRecordValue(record), 'absent');
    for (const [slot, batches] of flights.entries()) {
      await this.putFlight(record, slot, batches, planted.copies ?? this.#bucketCount);
    }
    const blocking = record.buckets - record.copyQuorum + 1;
    for (let index = 0; index < blocking; index++) await this.putPoison(record, cut, index);
    for (const { distance, copies } of planted.tail ?? []) {
      await this.putFlight(record, cut + distance, [batchOf(streamId('f'), 900, 1)], copies);
    }
  }

  recordFor({ star, epoch, flights, record }: PlantedEpoch): EpochRecord {
    return {
      star,
      epoch,
      class: 'express',
      set: SET_ID,
      buckets: this.#bucketCount,
      copyQuorum: Math.floor(this.#bucketCount / 2) + 1,
      window: 4,
      incarnation: ZERO_INCARNATION,
      nonce: epoch.toString(16).padStart(2, '0').repeat(16),
      state: 'fenced',
      checkpoint: 0,
      rewritten: 0,
      trimmed: 0,
      swept: 0,
      tailSwept: false,
      cut: flights.length,
      attempt: ATTEMPT,
      ...record,
    };
  }

  /** Copies of a flight in `copies` buckets, counted from the last: poison takes the first ones. */
  async putFlight(
    record: EpochRecord,
    slot: number,
    batches: readonly SampleBatch[],
    copies: number,
  ): Promise<void> {
    const { star, epoch, nonce } = record;
    const fields = { star, epoch, slot, nonce, released: 0 };
    const { object } = encodeFlight(fields, batches);
    for (let index = 0; index < copies; index++) {
      const { store } = this.world.bucket(this.#bucketCount - 1 - index);
      await store.createOnly(slotKey(star, epoch, slot), object);
    }
  }

  async putPoison(record: EpochRecord, slot: number, bucket: number): Promise<void> {
    const { star, epoch, nonce } = record;
    const fencedBy = { star: 'fencer', incarnation: 'x', epoch: 9 };
    const poison = encodePoison({ star, epoch, slot, nonce, fencedBy, atMillis: 0 });
    await this.world.bucket(bucket).store.createOnly(slotKey(star, epoch, slot), poison);
  }

  /** A process with settlement in it, as a star thread hosts it. */
  settler(
    name: string,
    options: SettlementOptions = {},
  ): { process: SimulatedProcess; actors: SettlementActors; sets: BucketSets } {
    const process = this.world.spawn(name);
    const sets = this.setsOf(process.ports);
    const by = { star: name, incarnation: process.ports.random.hex(16) };
    return { process, sets, actors: new SettlementActors(process.ports, sets, by, options) };
  }

  setsOf(ports: StarPorts): BucketSets {
    return new BucketSets(ports, METASTORE_ID);
  }

  async record(star: string, epoch: number): Promise<EpochRecord> {
    const key = epochKey(star, epoch);
    const entry = await this.world.metastore.inner.get(key);
    return parseRecordValue(epochRecord, key, entry!.value);
  }

  async changeRecord(star: string, epoch: number, change: Partial<EpochRecord>): Promise<void> {
    const key = epochKey(star, epoch);
    const entry = (await this.admin.ports.metastore.get(key))!;
    const record = { ...parseRecordValue(epochRecord, key, entry.value), ...change };
    await this.admin.ports.metastore.put(key, encodeRecordValue(record), entry.version);
  }

  async deleteWriter(id: string): Promise<void> {
    const value = encodeRecordValue({ kind: 'deleted', attempt: ATTEMPT });
    await this.admin.ports.metastore.put(writerKey(id), value, 'absent');
  }

  async rows(id: string): Promise<RefRow[]> {
    const entries = await this.world.metastore.inner.children(refsPrefix(id));
    return entries.map(({ key, value }) => parseRecordValue(refRow, key, value));
  }

  /**
   * Checks what S2 promises of the planted epochs: the rows of each stream tile its positions from
   * 0, and each span is the entry of the very flight that holds these records below a cut.
   */
  async checkRows(except: readonly string[] = []): Promise<void> {
    const expected = new Map<
      string,
      { star: string; epoch: number; slot: number; seq: number; count: number }[]
    >();
    for (const { star, epoch, flights } of this.#epochs) {
      flights.forEach((batches, slot) => {
        for (const { streamId: id, firstSeqNum: seq, records } of batches) {
          const list = expected.get(id) ?? [];
          list.push({ star, epoch, slot, seq, count: records.length });
          expected.set(id, list);
        }
      });
    }
    for (const [id, entries] of expected) {
      if (except.includes(id)) continue;
      const rows = await this.rows(id);
      let end = 0;
      for (const row of rows) {
        expect(rowFault(row, end)).toBeUndefined();
        end = row.end;
      }
      const spans = rows.flatMap(({ star, epoch, spans: list }) =>
        list.map(({ slot, seq, count }) => ({ star, epoch, slot, seq, count })),
      );
      expect(spans).toEqual(entries.sort((a, b) => a.seq - b.seq));
    }
  }

  /** Slots of the epoch that hold an object of the kind, by bucket. */
  async slots(star: string, epoch: number, bucket: number): Promise<number[]> {
    const prefix = slotKey(star, epoch, 0).slice(0, -16);
    const listed = await this.world.bucket(bucket).store.list(prefix);
    return listed.kind === 'listed' ? listed.keys.map((key) => Number(key.slice(-16))) : [];
  }
}

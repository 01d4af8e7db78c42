/**
 * Worlds with one open epoch in any condition, on virtual time: planted slots, an incumbent that
 * writes on, a trimmer that deletes under a walk. What fences is the product.
 */
import { expect } from 'vitest';
import { BucketSets } from '../../actors/bucket-set.ts';
import type { BucketSet } from '../../actors/bucket-set.ts';
import { FenceActors, type FenceResult } from '../../actors/fence.actor.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { MemoryBucketStore } from '../../src/adapters/memory/bucket-store.ts';
import { MemoryMetastore } from '../../src/adapters/memory/metastore.ts';
import { encodePoison } from '../../src/format/poison.ts';
import { toEngineError, type EngineError } from '../../src/lib/errors.ts';
import { sleep, type WaitOptions } from '../../src/lib/wait.ts';
import { chainKey, epochKey, slotKey } from '../../src/protocol/keys.ts';
import {
  encodeRecordValue,
  epochRecord,
  parseRecordValue,
  type EpochRecord,
} from '../../src/protocol/records.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import { World, type WorldOptions } from '../../src/testing/world.ts';
import { encodeFlight } from '../unit/format/samples.ts';
import { Incumbent, type IncumbentOptions } from './incumbent.ts';

export const STAR = 'star-a';
export const EPOCH = 7;
const METASTORE_ID = 'e7'.repeat(16);
const ATTEMPT = '00'.repeat(8);
const STREAM = '0a'.repeat(16);

export interface FenceWorldOptions extends Partial<WorldOptions> {
  readonly buckets?: number;
  readonly copies?: number;
  readonly window?: number;
}

export interface Fencer {
  readonly process: SimulatedProcess;
  readonly actors: FenceActors;
}

export class FenceWorld {
  readonly world: World;
  readonly admin: SimulatedProcess;
  readonly buckets: number;
  readonly copies: number;
  readonly window: number;
  readonly nonce = '5a'.repeat(16);
  #set: BucketSet | undefined;

  constructor(options: FenceWorldOptions = {}) {
    const { buckets = 3, copies = 2, window = 4, ...rest } = options;
    this.buckets = buckets;
    this.copies = copies;
    this.window = window;
    this.world = new World({
      seed: 1,
      bucketCount: buckets,
      createBucket: (name) => new MemoryBucketStore({ name }),
      createMetastore: () => new MemoryMetastore(),
      ...rest,
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

  sleep(millis: number): Promise<void> {
    return sleep(this.admin.ports.clock, millis);
  }

  /** Registers the set, the chain and an open epoch without flights. */
  async open(record: Partial<EpochRecord> = {}): Promise<EpochRecord> {
    const { metastore } = this.admin.ports;
    this.#set = await this.setsOf(this.admin.ports).establish(
      this.admin.ports.buckets,
      this.copies,
    );
    const chain = { nextEpoch: EPOCH + 1, heads: { express: EPOCH }, attempt: ATTEMPT };
    await metastore.put(chainKey(STAR), encodeRecordValue(chain), 'absent');
    const value: EpochRecord = {
      star: STAR,
      epoch: EPOCH,
      class: 'express',
      set: this.#set.id,
      buckets: this.buckets,
      copyQuorum: this.copies,
      window: this.window,
      incarnation: '11'.repeat(16),
      nonce: this.nonce,
      state: 'open',
      checkpoint: 0,
      rewritten: 0,
      trimmed: 0,
      swept: 0,
      tailSwept: false,
      attempt: ATTEMPT,
      ...record,
    };
    await metastore.put(epochKey(STAR, EPOCH), encodeRecordValue(value), 'absent');
    return value;
  }

  /** A writer of the epoch in a process of its own; it runs once `run` is called. */
  async incumbent(options: IncumbentOptions = {}): Promise<Incumbent> {
    const process = this.world.spawn('incumbent');
    const set = await this.setsOf(process.ports).resolve(this.#set!.id);
    return new Incumbent(this, process, set, options);
  }

  setsOf(ports: StarPorts): BucketSets {
    return new BucketSets(ports, METASTORE_ID);
  }

  fencer(name: string, identity: { readonly incarnation?: string } = {}): Fencer {
    const process = this.world.spawn(name);
    const by = { star: name, incarnation: process.ports.random.hex(16), ...identity };
    return { process, actors: new FenceActors(process.ports, this.setsOf(process.ports), by) };
  }

  fence(fencer: Fencer, options: WaitOptions = {}): Promise<FenceResult> {
    return fencer.actors.fence({ star: STAR, epoch: EPOCH }, options);
  }

  flightBytes(
    slot: number,
    options: { nonce?: string; released?: number; text?: string } = {},
  ): Uint8Array {
    const { nonce = this.nonce, released = Math.max(0, slot - this.window + 1) } = options;
    const records = [{ timestamp: 1, body: options.text ?? `slot ${slot}`, headers: [] }];
    const fields = { star: STAR, epoch: EPOCH, slot, nonce, released: Math.min(released, slot) };
    return encodeFlight(fields, [{ streamId: STREAM, firstSeqNum: slot, records }]).object;
  }

  poisonBytes(slot: number): Uint8Array {
    const fencedBy = { star: 'other', incarnation: 'x', epoch: 9 };
    return encodePoison({
      star: STAR,
      epoch: EPOCH,
      slot,
      nonce: this.nonce,
      fencedBy,
      atMillis: 0,
    });
  }

  /** Stores an object at the bucket itself, without faults and without time. */
  async plant(
    slot: number,
    buckets: readonly number[],
    bytes = this.flightBytes(slot),
  ): Promise<void> {
    for (const bucket of buckets) {
      await this.world.bucket(bucket).store.createOnly(slotKey(STAR, EPOCH, slot), bytes);
    }
  }

  async plantChain(slots: number): Promise<void> {
    const all = Array.from({ length: this.buckets }, (_, bucket) => bucket);
    for (let slot = 0; slot < slots; slot++) await this.plant(slot, all);
  }

  async remove(slot: number, buckets?: readonly number[]): Promise<void> {
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      if (buckets !== undefined && !buckets.includes(bucket)) continue;
      await this.world.bucket(bucket).store.delete(slotKey(STAR, EPOCH, slot));
    }
  }

  /** What each bucket holds in a slot: `f`light, `p`oison or `.`. */
  async cells(slot: number): Promise<string> {
    let text = '';
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      const { store } = this.world.bucket(bucket);
      const found = await store.readHead(slotKey(STAR, EPOCH, slot), 160);
      text += found.kind !== 'found' ? '.' : found.bytes[10] === 1 ? 'f' : 'p';
    }
    return text;
  }

  /** The whole object in one bucket, or undefined. */
  async bytes(slot: number, bucket: number): Promise<Uint8Array | undefined> {
    const key = slotKey(STAR, EPOCH, slot);
    const found = await this.world.bucket(bucket).store.readHead(key, Number.MAX_SAFE_INTEGER);
    return found.kind === 'found' ? found.bytes : undefined;
  }

  async record(): Promise<EpochRecord> {
    const key = epochKey(STAR, EPOCH);
    const entry = await this.world.metastore.inner.get(key);
    return parseRecordValue(epochRecord, key, entry!.value);
  }

  /** Changes the record at the metastore itself, without faults and without time. */
  async changeRecord(change: Partial<EpochRecord>): Promise<void> {
    const key = epochKey(STAR, EPOCH);
    const { inner } = this.world.metastore;
    const entry = (await inner.get(key))!;
    const record = { ...parseRecordValue(epochRecord, key, entry.value), ...change };
    await inner.put(key, encodeRecordValue(record), entry.version);
  }

  /** Absorbs, rewrites and deletes everything below `slot`, in the order the protocol demands. */
  async trim(slot: number): Promise<void> {
    const { trimmed } = await this.record();
    await this.changeRecord({ checkpoint: slot });
    await this.changeRecord({ rewritten: slot, trimmed: slot });
    for (let each = trimmed; each < slot; each++) await this.remove(each);
    await this.changeRecord({ swept: slot });
  }
}

/** Checks what a published cut means for the stored slots and for what a writer acknowledged. */
export async function checkCut(world: FenceWorld, cut: number, released: number): Promise<void> {
  const record = await world.record();
  expect(record).toMatchObject({ state: 'fenced', cut });
  expect(released, 'F1/F2').toBeLessThanOrEqual(cut);
  const dead = (await world.cells(cut)).split('p').length - 1;
  expect(dead, 'the cut is dead').toBeGreaterThan(world.buckets - world.copies);
  for (let slot = record.trimmed; slot < cut; slot++) {
    const flights = (await world.cells(slot)).split('f').length - 1;
    expect(flights, `F4 slot ${slot}`).toBeGreaterThanOrEqual(world.copies);
  }
}

export async function errorOf(promise: Promise<unknown>): Promise<EngineError> {
  try {
    await promise;
  } catch (error) {
    return toEngineError(error);
  }
  throw new Error('the call did not fail');
}

/**
 * Buckets over a sparse chain: heads of flights are written when they are asked for, so that a chain
 * of a million slots takes no memory. Answers after a fixed latency, as a store far away does.
 */
import { encodeIdentity, identityKey } from '../src/format/identity.ts';
import { encodePreamble, PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { EngineError } from '../src/lib/errors.ts';
import type {
  BucketStore,
  CreateOutcome,
  DeleteOutcome,
  ListOutcome,
  ProbeOutcome,
  ReadOutcome,
} from '../src/ports/bucket-store.ts';
import { EMPTY, FLIGHT, POISON } from '../src/protocol/slot.ts';
import type { SparseChain } from './_sparse-chain.ts';

export const STAR = 'bench';
export const EPOCH = 3;
export const NONCE = '5a'.repeat(16);
export const SET = '5e'.repeat(16);
export const METASTORE = 'e7'.repeat(16);

const HEADER_BYTES = 56;
const BODY_BYTES = 1_000;

export const bucketIdOf = (bucket: number): string => bucket.toString(16).repeat(32);

export class SparseStore implements BucketStore {
  readonly name: string;
  readonly #chain: SparseChain;
  readonly #bucket: number;
  readonly #latencyMillis: number;
  readonly #identity: Uint8Array;

  constructor(chain: SparseChain, bucket: number, latencyMillis: number) {
    this.name = `sparse-${bucket}`;
    this.#chain = chain;
    this.#bucket = bucket;
    this.#latencyMillis = latencyMillis;
    this.#identity = encodeIdentity({
      bucketId: bucketIdOf(bucket),
      bucketIndex: bucket,
      setId: SET,
      metastoreId: METASTORE,
      createdAtMillis: 0,
    });
  }

  async createOnly(key: string, bytes: Uint8Array): Promise<CreateOutcome> {
    await this.#wait();
    const slot = slotOf(key);
    const before = this.#chain.cell(slot, this.#bucket);
    this.#chain.create(slot, this.#bucket, bytes[10] === 2 ? POISON : FLIGHT);
    if (before === EMPTY) return { kind: 'created' };
    return { kind: 'exists', head: this.#head(slot, before), sizeBytes: sizeOf(before) };
  }

  readHead(key: string): Promise<ReadOutcome> {
    return this.readRange(key);
  }

  async readRange(key: string): Promise<ReadOutcome> {
    if (this.#latencyMillis > 0) await this.#wait();
    if (key === identityKey(SET)) {
      this.#chain.answered();
      return { kind: 'found', bytes: this.#identity, sizeBytes: this.#identity.length };
    }
    const slot = slotOf(key);
    const code = this.#chain.cell(slot, this.#bucket);
    this.#chain.answered();
    if (code === EMPTY) return { kind: 'absent' };
    return { kind: 'found', bytes: this.#head(slot, code), sizeBytes: sizeOf(code) };
  }

  delete(): Promise<DeleteOutcome> {
    return Promise.resolve({ kind: 'unknown', cause: unsupported() });
  }

  deleteMany(): Promise<readonly DeleteOutcome[]> {
    return Promise.resolve([]);
  }

  list(): Promise<ListOutcome> {
    return Promise.resolve({ kind: 'unknown', cause: unsupported() });
  }

  probe(): Promise<ProbeOutcome> {
    return Promise.resolve({ kind: 'accepted' });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #wait(): Promise<void> {
    if (this.#latencyMillis === 0) return Promise.resolve();
    return new Promise((resolve) => setTimeout(resolve, this.#latencyMillis));
  }

  #head(slot: number, code: number): Uint8Array {
    const bytes = new Uint8Array(PREAMBLE_BYTES);
    const isFlight = code === FLIGHT;
    encodePreamble(bytes, 0, {
      alignBytes: 0,
      kind: isFlight ? 'flight' : 'poison',
      star: STAR,
      epoch: EPOCH,
      slot,
      nonce: NONCE,
      released: isFlight ? this.#chain.releasedAt(slot) : 0,
      headerBytes: HEADER_BYTES,
      bodyBytes: isFlight ? BODY_BYTES : 0,
      entryCount: isFlight ? 1 : 0,
      headerChecksum: slot >>> 0,
      bodyChecksum: isFlight ? slot >>> 0 : 0,
    });
    return bytes;
  }
}

const sizeOf = (code: number): number =>
  PREAMBLE_BYTES + HEADER_BYTES + (code === FLIGHT ? BODY_BYTES : 0);

const slotOf = (key: string): number => Number(key.slice(-16));

const unsupported = (): EngineError => new EngineError('INTERNAL', 'not part of this benchmark');

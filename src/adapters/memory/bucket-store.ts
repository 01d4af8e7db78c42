/**
 * A bucket in memory: unit tests, simulation, demos. Deterministic: an effect takes place when the
 * call is made and its answer comes by a plain promise, never by a timer.
 */
import { assert } from '../../lib/assert.ts';
import { EngineError } from '../../lib/errors.ts';
import { checkObjectKey, checkObjectPrefix } from '../../lib/object-key.ts';
import { abortedError } from '../../lib/wait.ts';
import {
  EXISTS_HEAD_BYTES,
  type BucketStore,
  type CallOptions,
  type CreateOutcome,
  type DeleteOutcome,
  type ListOptions,
  type ListOutcome,
  type ProbeOutcome,
  type ReadOptions,
  type ReadOutcome,
} from '../../ports/bucket-store.ts';

export interface MemoryBucketOptions {
  /** `memory` by default. */
  readonly name?: string;
  /** Creates that would exceed it are refused with `BUCKET_FULL`. Unlimited by default. */
  readonly capacityBytes?: number;
  /** Makes one more client of that store's objects; name and capacity are taken from it. */
  readonly sharedWith?: MemoryBucketStore;
}

interface SharedState {
  readonly name: string;
  readonly capacityBytes: number;
  readonly objects: Map<string, Uint8Array>;
  storedBytes: number;
}

export class MemoryBucketStore implements BucketStore {
  readonly name: string;
  readonly #state: SharedState;
  #isClosed = false;

  constructor(options: MemoryBucketOptions = {}) {
    const { name = 'memory', capacityBytes = Infinity, sharedWith } = options;
    this.#state =
      sharedWith === undefined
        ? { name, capacityBytes, objects: new Map(), storedBytes: 0 }
        : sharedWith.#state;
    this.name = this.#state.name;
  }

  async createOnly(key: string, bytes: Uint8Array, options?: CallOptions): Promise<CreateOutcome> {
    checkObjectKey(key);
    const cause = this.#obstacle('create', options);
    if (cause !== undefined) return { kind: 'unknown', cause };
    const existing = this.#state.objects.get(key);
    if (existing !== undefined) {
      const head = existing.slice(0, EXISTS_HEAD_BYTES);
      return { kind: 'exists', head, sizeBytes: existing.byteLength };
    }
    if (this.#state.storedBytes + bytes.byteLength > this.#state.capacityBytes) {
      return { kind: 'refused', cause: this.#full(bytes.byteLength) };
    }
    this.plant(key, bytes);
    return { kind: 'created' };
  }

  readHead(key: string, lengthBytes: number, options?: ReadOptions): Promise<ReadOutcome> {
    return this.readRange(key, 0, lengthBytes, options);
  }

  async readRange(
    key: string,
    start: number,
    end: number,
    options?: ReadOptions,
  ): Promise<ReadOutcome> {
    checkObjectKey(key);
    assert(start >= 0 && start <= end, 'range is not within an object');
    const cause = this.#obstacle('read', options);
    if (cause !== undefined) return { kind: 'unknown', cause };
    const object = this.#state.objects.get(key);
    if (object === undefined) return { kind: 'absent' };
    return { kind: 'found', bytes: object.slice(start, end), sizeBytes: object.byteLength };
  }

  async delete(key: string, options?: CallOptions): Promise<DeleteOutcome> {
    checkObjectKey(key);
    const cause = this.#obstacle('delete', options);
    return cause === undefined ? this.#remove(key) : { kind: 'unknown', cause };
  }

  async deleteMany(
    keys: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DeleteOutcome[]> {
    for (const key of keys) checkObjectKey(key);
    const cause = this.#obstacle('delete', options);
    return keys.map((key) =>
      cause === undefined ? this.#remove(key) : { kind: 'unknown', cause },
    );
  }

  async list(prefix: string, options: ListOptions = {}): Promise<ListOutcome> {
    const { startAfter = '', limit = Infinity } = options;
    checkObjectPrefix(prefix);
    checkObjectPrefix(startAfter);
    const cause = this.#obstacle('list', options);
    if (cause !== undefined) return { kind: 'unknown', cause };
    const keys = [...this.#state.objects.keys()]
      .filter((key) => key.startsWith(prefix) && key > startAfter)
      .sort();
    return { kind: 'listed', keys: keys.slice(0, limit), more: keys.length > limit };
  }

  async probe(options?: CallOptions): Promise<ProbeOutcome> {
    const cause = this.#obstacle('probe', options);
    return cause === undefined ? { kind: 'accepted' } : { kind: 'unknown', cause };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  /** A live view of what is stored, in the order of creation. The bytes must not be changed. */
  objects(): ReadonlyMap<string, Uint8Array> {
    return this.#state.objects;
  }

  /** Bytes of all objects. */
  get storedBytes(): number {
    return this.#state.storedBytes;
  }

  /** Stores a copy of the bytes under the key, whatever is there: what no client of a bucket can do. */
  plant(key: string, bytes: Uint8Array): void {
    checkObjectKey(key);
    this.#remove(key);
    // Not `slice`: that of a Buffer is a view.
    this.#state.objects.set(key, new Uint8Array(bytes));
    this.#state.storedBytes += bytes.byteLength;
  }

  /** Flips bit `bitIndex` (counted from the start, round the end) of an object. False if absent or empty. */
  flipBit(key: string, bitIndex: number): boolean {
    const object = this.#state.objects.get(key);
    if (object === undefined || object.byteLength === 0) return false;
    // A new array: bytes read before the damage must stay what they were.
    const damaged = object.slice();
    const at = Math.floor(bitIndex / 8) % damaged.byteLength;
    damaged[at] = damaged[at]! ^ (1 << (bitIndex % 8));
    this.#state.objects.set(key, damaged);
    return true;
  }

  /** Cuts an object to its first `lengthBytes`. False if absent. */
  truncate(key: string, lengthBytes: number): boolean {
    const object = this.#state.objects.get(key);
    if (object === undefined) return false;
    const rest = object.slice(0, lengthBytes);
    this.#state.objects.set(key, rest);
    this.#state.storedBytes -= object.byteLength - rest.byteLength;
    return true;
  }

  /** Forgets every object, as if the bucket had been lost and made anew. */
  wipe(): void {
    this.#state.objects.clear();
    this.#state.storedBytes = 0;
  }

  #remove(key: string): DeleteOutcome {
    const object = this.#state.objects.get(key);
    if (object === undefined) return { kind: 'absent' };
    this.#state.objects.delete(key);
    this.#state.storedBytes -= object.byteLength;
    return { kind: 'deleted' };
  }

  #obstacle(what: string, options: CallOptions | undefined): EngineError | undefined {
    if (this.#isClosed) {
      return new EngineError('CLOSED', 'bucket store is closed', {
        details: { bucket: this.name },
      });
    }
    const signal = options?.signal;
    return signal?.aborted === true ? abortedError(signal, what) : undefined;
  }

  #full(sizeBytes: number): EngineError {
    return new EngineError('BUCKET_FULL', 'bucket has no room', {
      details: { bucket: this.name, sizeBytes, capacityBytes: this.#state.capacityBytes },
    });
  }
}

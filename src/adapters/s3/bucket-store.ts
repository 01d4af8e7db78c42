import { assert } from '../../lib/assert.ts';
import { EngineError } from '../../lib/errors.ts';
import { checkObjectKey, checkObjectPrefix } from '../../lib/object-key.ts';
import type {
  BucketStore,
  CallOptions,
  CreateOutcome,
  DeleteOutcome,
  ListOptions,
  ListOutcome,
  ProbeOutcome,
  ReadOptions,
  ReadOutcome,
} from '../../ports/bucket-store.ts';
import { Calls, type CallLimit } from '../calls/calls.ts';
import type { BucketContext } from './context.ts';
import { createObject, type Creation } from './create-object.ts';
import { deleteObject, deleteObjects } from './delete-objects.ts';
import { listObjects } from './list-objects.ts';
import { openBucket, type OpenBucket } from './open-bucket.ts';
import type { S3BucketOptions } from './options.ts';
import { probeBucket, type ProbedStore } from './probe.ts';
import { readObject } from './read-object.ts';
import { checkRules } from './rules.ts';

export type { S3BucketOptions } from './options.ts';

/**
 * A bucket of a server that speaks S3 and keeps the condition of a creation. Every call is one request, sent
 * once (a creation that finds an object reads its head besides): what an answer means, or that there
 * is none, is told, and the caller decides whether to try again.
 */
export class S3BucketStore implements BucketStore {
  readonly name: string;
  readonly #bucket: OpenBucket;
  readonly #context: BucketContext;
  readonly #readOnly: boolean;
  readonly #creates: Calls;
  readonly #others: Calls;
  #closing: Promise<void> | undefined;

  constructor(options: S3BucketOptions) {
    const bucket = openBucket(options);
    this.name = options.name;
    this.#bucket = bucket;
    this.#context = bucket.context;
    this.#readOnly = options.readOnly ?? false;
    const { windows, address } = bucket.context;
    const laneOf = (window: CallLimit): Calls =>
      new Calls(options.name, window, bucket.timeoutMillis, undefined, {
        setting: 'endpoint',
        endpoint: address.origin,
      });
    this.#creates = laneOf(windows.creates);
    this.#others = laneOf(windows.others);
  }

  createOnly(key: string, bytes: Uint8Array, options?: CallOptions): Promise<CreateOutcome> {
    return this.#create({ key, bytes, hedges: true }, options);
  }

  async #create(creation: Creation, options: CallOptions | undefined): Promise<CreateOutcome> {
    checkObjectKey(creation.key);
    if (this.#readOnly) return { kind: 'refused', cause: this.#readOnlyError() };
    return this.#creates.run<CreateOutcome>({
      what: 'create',
      signal: options?.signal,
      sizeBytes: creation.bytes.byteLength,
      work: (call) => createObject(this.#context, call, creation),
      unknown,
    });
  }

  readHead(key: string, lengthBytes: number, options?: ReadOptions): Promise<ReadOutcome> {
    return this.readRange(key, 0, lengthBytes, options);
  }

  /** Every answer is evidence: the stores that this is for read what was written, everywhere. */
  async readRange(
    key: string,
    start: number,
    end: number,
    options?: ReadOptions,
  ): Promise<ReadOutcome> {
    checkObjectKey(key);
    assert(start >= 0 && start <= end, 'range is not within an object');
    return this.#others.run<ReadOutcome>({
      what: 'read',
      signal: options?.signal,
      work: (call) => readObject(this.#context, call, { key, start, end }),
      unknown,
    });
  }

  async delete(key: string, options?: CallOptions): Promise<DeleteOutcome> {
    checkObjectKey(key);
    if (this.#readOnly) return unknown(this.#readOnlyError());
    return this.#others.run<DeleteOutcome>({
      what: 'delete',
      signal: options?.signal,
      work: (call) => deleteObject(this.#context, call, key),
      unknown,
    });
  }

  async deleteMany(
    keys: readonly string[],
    options?: CallOptions,
  ): Promise<readonly DeleteOutcome[]> {
    for (const key of keys) checkObjectKey(key);
    if (this.#readOnly) return keys.map(() => unknown(this.#readOnlyError()));
    return this.#others.run<readonly DeleteOutcome[]>({
      what: 'delete',
      signal: options?.signal,
      work: (call) => deleteObjects(this.#context, call, keys),
      unknown: (cause) => keys.map(() => unknown(cause)),
    });
  }

  /** Keys in the order of the server. */
  async list(prefix: string, options: ListOptions = {}): Promise<ListOutcome> {
    checkObjectPrefix(prefix);
    checkObjectPrefix(options.startAfter ?? '');
    return this.#others.run<ListOutcome>({
      what: 'list',
      signal: options.signal,
      work: (call) => listObjects(this.#context, call, prefix, options),
      unknown,
    });
  }

  async probe(options?: CallOptions): Promise<ProbeOutcome> {
    const rules = await this.#others.run<ProbeOutcome>({
      what: 'check',
      signal: options?.signal,
      work: (call) => checkRules(this.#bucket.rules, call),
      unknown,
    });
    if (rules.kind !== 'accepted') return rules;
    // Of racers that are sent twice, the winner may be told that there is an object already.
    const racing: ProbedStore = {
      name: this.name,
      endpoint: this.#context.address.origin,
      createOnly: (key, bytes, more) => this.#create({ key, bytes, hedges: false }, more),
      readRange: (...args) => this.readRange(...args),
      deleteMany: (...args) => this.deleteMany(...args),
    };
    return probeBucket(racing, options);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.all([this.#creates.close(), this.#others.close()]);
    await this.#bucket.close();
  }

  #readOnlyError(): EngineError {
    return new EngineError('BUCKET_REFUSED', 'bucket was opened to read only', {
      details: { bucket: this.name },
    });
  }
}

function unknown(cause: EngineError): { readonly kind: 'unknown'; readonly cause: EngineError } {
  return { kind: 'unknown', cause };
}

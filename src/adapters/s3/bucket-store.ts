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
import { Calls } from '../calls/calls.ts';
import { bucketAddress, type Addressing } from './address.ts';
import { Connections } from './connections.ts';
import type { BucketContext } from './context.ts';
import { createObject, type Creation } from './create-object.ts';
import { CredentialCache, type CredentialSource } from './credentials.ts';
import { deleteObject, deleteObjects } from './delete-objects.ts';
import { Hedges } from './hedges.ts';
import { listObjects } from './list-objects.ts';
import { probeBucket, type ProbedStore } from './probe.ts';
import { readObject } from './read-object.ts';
import { checkRules } from './rules.ts';
import { Signer } from './sigv4.ts';
import { Window } from './window.ts';

export interface S3BucketOptions {
  /** Names the bucket in errors, metrics and sets. */
  readonly name: string;
  readonly bucket: string;
  readonly region: string;
  /** URL of the service without a path, `https://s3.eu-west-1.amazonaws.com` for one. */
  readonly endpoint: string;
  readonly addressing: Addressing;
  /** In front of every key: empty, or with a slash at its end. Empty by default. */
  readonly prefix?: string;
  readonly credentials: CredentialSource;
  /** Certificates (PEM) that are trusted instead of those of the system. */
  readonly ca?: string | undefined;
  /**
   * Signs the hash of every object, so that the server refuses what the way there has changed. True
   * by default without TLS, and false with it, which finds such changes by itself.
   */
  readonly signsPayload?: boolean | undefined;
  /** Creations are refused with `BUCKET_REFUSED`, deletions `unknown`. False by default. */
  readonly readOnly?: boolean;
  /** Creations at work at once; more wait. 64 by default. */
  readonly concurrentCreates?: number;
  /** Other calls at work at once. 64 by default. */
  readonly concurrentReads?: number;
  /** Ends a call, queueing included, with `unknown` after this long. 30,000 by default. */
  readonly timeoutMillis?: number;
  /** 5,000 by default. */
  readonly connectTimeoutMillis?: number;
  /**
   * Of all creations at most so many are sent a second time, when they are later than the slowest
   * twentieth of the last ones. 5 by default, 0 for none.
   */
  readonly hedgePercent?: number | undefined;
}

const CONCURRENT_DEFAULT = 64;
const TIMEOUT_MILLIS_DEFAULT = 30_000;
const CONNECT_TIMEOUT_MILLIS_DEFAULT = 5_000;
const HEDGE_PERCENT_DEFAULT = 5;
/** Connections for second requests, besides those of the first ones. */
const CONCURRENT_HEDGES = 8;

/**
 * A bucket of a server that speaks S3 and keeps `If-None-Match: *`. Every call is one request, sent
 * once (a creation that finds an object reads its head besides): what an answer means, or that there
 * is none, is told, and the caller decides whether to try again.
 */
export class S3BucketStore implements BucketStore {
  readonly name: string;
  readonly #context: BucketContext;
  readonly #readOnly: boolean;
  readonly #creates: Calls;
  readonly #others: Calls;
  #closing: Promise<void> | undefined;

  constructor(options: S3BucketOptions) {
    const { name, region, prefix = '', readOnly = false } = options;
    const { timeoutMillis = TIMEOUT_MILLIS_DEFAULT } = options;
    const { concurrentCreates = CONCURRENT_DEFAULT, concurrentReads = CONCURRENT_DEFAULT } =
      options;
    const address = bucketAddress(options);
    const window = new Window(concurrentCreates);
    this.name = name;
    this.#readOnly = readOnly;
    this.#context = {
      name,
      region,
      address,
      prefix,
      connections: new Connections({
        address,
        connections: concurrentCreates + concurrentReads + CONCURRENT_HEDGES,
        connectTimeoutMillis: options.connectTimeoutMillis ?? CONNECT_TIMEOUT_MILLIS_DEFAULT,
        answerTimeoutMillis: timeoutMillis,
        ca: options.ca,
      }),
      credentials: new CredentialCache(options.credentials),
      signer: new Signer({ region, service: 's3' }),
      signsPayload: options.signsPayload ?? !address.isSecure,
      window,
      hedges: new Hedges({
        percent: options.hedgePercent ?? HEDGE_PERCENT_DEFAULT,
        concurrent: CONCURRENT_HEDGES,
      }),
    };
    this.#creates = new Calls(name, window, timeoutMillis);
    this.#others = new Calls(name, concurrentReads, timeoutMillis);
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
      work: (call) => checkRules(this.#context, call),
      unknown,
    });
    if (rules.kind !== 'accepted') return rules;
    // Of racers that are sent twice, the winner may be told that there is an object already.
    const racing: ProbedStore = {
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
    await this.#context.connections.close();
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

/**
 * What is asked of a server now and then and by people: whether a bucket is there, where, under which
 * rules; to make one, and to remove objects. Over the AWS SDK, which knows how buckets are made in every region. It is loaded when it
 * is first needed: engines that only store never load it.
 */
import type * as Sdk from '@aws-sdk/client-s3';
import { EngineError } from '../../lib/errors.ts';
import { givenUpError, linkedSignal } from '../../lib/wait.ts';
import type { CallOptions } from '../../ports/bucket-store.ts';
import { systemClock } from '../system/clock.ts';
import type { AddressOptions } from './address.ts';
import { errorOfSdk } from './control-failure.ts';
import { ControlObjects } from './control-objects.ts';
import { checkHeaderText, type CredentialSource } from './credentials.ts';
import type { FailureSite } from './failure.ts';
import type { LifecycleRule } from './rule-judges.ts';

export interface S3ControlOptions extends AddressOptions {
  /** Names the bucket in errors. */
  readonly name: string;
  readonly region: string;
  readonly credentials: CredentialSource;
  /** Certificates (PEM) that are trusted instead of those of the system. */
  readonly ca?: string | undefined;
  /** For one request. 30,000 by default. */
  readonly timeoutMillis?: number;
}

/** What the head of an answer says of a bucket. */
export interface BucketHead {
  /** Where the bucket is; undefined where the server does not say. */
  readonly region: string | undefined;
  /** How far the clock of this machine is ahead of the server's, to the second. */
  readonly clockAheadMillis: number | undefined;
}

const PACKAGE = '@aws-sdk/client-s3';
const CLOCK = systemClock();
const TIMEOUT_MILLIS_DEFAULT = 30_000;
const CONNECT_TIMEOUT_MILLIS = 5_000;

async function loadSdk(): Promise<typeof Sdk> {
  try {
    return await import('@aws-sdk/client-s3');
  } catch {
    throw new EngineError('BUCKET_REFUSED', 'looking after buckets needs a package', {
      details: { package: PACKAGE, install: `npm install ${PACKAGE}` },
    });
  }
}

export class S3Control {
  readonly objects: ControlObjects;
  readonly #options: S3ControlOptions;
  readonly #sdk: typeof Sdk;
  readonly #client: Sdk.S3Client;
  #head: BucketHead = { region: undefined, clockAheadMillis: undefined };

  private constructor(options: S3ControlOptions, sdk: typeof Sdk) {
    this.#options = options;
    this.#sdk = sdk;
    const { region, endpoint, addressing, credentials, ca } = options;
    this.#client = new sdk.S3Client({
      region,
      endpoint,
      forcePathStyle: addressing === 'path',
      credentials: async () => {
        const given = await credentials();
        checkHeaderText(given);
        const { expiresAtMillis, sessionToken, ...keys } = given;
        return {
          ...keys,
          ...(sessionToken === undefined ? {} : { sessionToken }),
          ...(expiresAtMillis === undefined ? {} : { expiration: new Date(expiresAtMillis) }),
        };
      },
      // Whoever asks decides whether to ask again.
      maxAttempts: 1,
      // Servers other than AWS do not know the checksums that the SDK sends otherwise.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: CONNECT_TIMEOUT_MILLIS,
        requestTimeout: options.timeoutMillis ?? TIMEOUT_MILLIS_DEFAULT,
        throwOnRequestTimeout: true,
        ...(ca === undefined ? {} : { httpsAgent: { ca } }),
      },
    });
    this.#readHeads();
    if (!isAws(endpoint)) this.#omitLocation();
    this.objects = new ControlObjects({
      sdk,
      client: this.#client,
      bucket: options.bucket,
      ask: (...args) => this.#ask(...args),
      siteOf: (call) => this.#siteOf(call),
    });
  }

  /** @throws EngineError BUCKET_REFUSED, without the package of the SDK. */
  static async open(options: S3ControlOptions): Promise<S3Control> {
    return new S3Control(options, await loadSdk());
  }

  /**
   * Creates the bucket, without versions and without rules.
   *
   * @returns False when it was there already and belongs to the same account.
   * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
   */
  async createBucket(options?: CallOptions): Promise<boolean> {
    const { CreateBucketCommand, BucketAlreadyOwnedByYou } = this.#sdk;
    const input = { Bucket: this.#options.bucket };
    return this.#ask('create-bucket', options, async (settings) => {
      try {
        await this.#client.send(new CreateBucketCommand(input), settings);
        return true;
      } catch (error) {
        if (error instanceof BucketAlreadyOwnedByYou) return false;
        throw error;
      }
    });
  }

  /** Whatever the server answers: also a refusal says where the bucket is. Never throws. */
  async head(options?: CallOptions): Promise<BucketHead> {
    const { HeadBucketCommand } = this.#sdk;
    const command = new HeadBucketCommand({ Bucket: this.#options.bucket });
    await this.#ask('list', options, (settings) => this.#client.send(command, settings)).catch(
      () => undefined,
    );
    return this.#head;
  }

  /** What the clock of the server shows now, by its last answer; ours before there is one. */
  get serverMillis(): number {
    return Date.now() - (this.#head.clockAheadMillis ?? 0);
  }

  /**
   * @returns Undefined: never turned on, or unknown to the server.
   * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE
   */
  async versioning(options?: CallOptions): Promise<string | undefined> {
    const { GetBucketVersioningCommand } = this.#sdk;
    const command = new GetBucketVersioningCommand({ Bucket: this.#options.bucket });
    const answer = await this.#ask('check-versioning', options, (settings) =>
      this.#client.send(command, settings).catch(unlessUnknown),
    );
    return answer?.Status;
  }

  /** @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE */
  async lifecycle(options?: CallOptions): Promise<readonly LifecycleRule[]> {
    const { GetBucketLifecycleConfigurationCommand } = this.#sdk;
    const command = new GetBucketLifecycleConfigurationCommand({ Bucket: this.#options.bucket });
    const answer = await this.#ask('check-lifecycle', options, (settings) =>
      this.#client.send(command, settings).catch(unlessUnknown),
    );
    return (answer?.Rules ?? []).map(ruleOf);
  }

  close(): void {
    this.#client.destroy();
  }

  async #ask<T>(
    call: FailureSite['call'],
    options: CallOptions | undefined,
    request: (settings: { abortSignal: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const { timeoutMillis = TIMEOUT_MILLIS_DEFAULT } = this.#options;
    // The SDK has a time for each step; this one is for all of them.
    const wait = { signal: options?.signal, timeoutMillis };
    const limited = linkedSignal(CLOCK, wait, call);
    try {
      return await request({ abortSignal: limited.signal });
    } catch (error) {
      const failure = limited.signal.aborted ? givenUpError(limited.signal, call) : error;
      throw errorOfSdk(failure, this.#siteOf(call));
    } finally {
      limited.release();
    }
  }

  #siteOf(call: FailureSite['call']): FailureSite {
    const { name: bucket, endpoint, region } = this.#options;
    return { bucket, endpoint: new URL(endpoint).origin, region, call };
  }

  /** The SDK does not tell the head of an answer, which is all that there is of some. */
  #readHeads(): void {
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        const { headers } = result.response as { headers?: Readonly<Record<string, string>> };
        const serverMillis = Date.parse(headers?.['date'] ?? '');
        this.#head = {
          region: headers?.['x-amz-bucket-region'],
          clockAheadMillis: Number.isNaN(serverMillis) ? undefined : Date.now() - serverMillis,
        };
        return result;
      },
      { step: 'deserialize', priority: 'low', name: 'asterlogReadHeads' },
    );
  }

  /** The SDK wants buckets in the region of the signature; other servers have no such place. */
  #omitLocation(): void {
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        delete (args.input as { CreateBucketConfiguration?: unknown }).CreateBucketConfiguration;
        return next(args);
      },
      { step: 'initialize', priority: 'low', name: 'asterlogOmitLocation' },
    );
  }
}

function isAws(endpoint: string): boolean {
  return /\.amazonaws\.com(?:\.cn)?$/.test(new URL(endpoint).hostname);
}

/** A server without the feature has it turned off; so has one without a configuration. */
function unlessUnknown(error: unknown): undefined {
  const { name, $metadata } = error as Partial<Sdk.S3ServiceException>;
  if (name === 'NoSuchLifecycleConfiguration' || name === 'NotImplemented') return undefined;
  if ($metadata?.httpStatusCode === 501) return undefined;
  throw error;
}

function ruleOf(rule: Sdk.LifecycleRule): LifecycleRule {
  const { Expiration: expiration, Transitions: transitions = [], Filter: filter } = rule;
  return {
    id: rule.ID ?? 'without ID',
    isEnabled: rule.Status === 'Enabled',
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- older rules have it here only
    prefix: filter?.Prefix ?? filter?.And?.Prefix ?? rule.Prefix ?? '',
    expires: expiration !== undefined && expiration.ExpiredObjectDeleteMarker === undefined,
    storageClasses: transitions.map((transition) => transition.StorageClass ?? ''),
  };
}

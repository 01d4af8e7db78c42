import type { Metrics } from '../../lib/metrics.ts';
import type { Addressing } from './address.ts';
import type { CredentialSource } from './credentials.ts';
import type { DialectName } from './dialects.ts';
import type { HashOf } from './payload-hash.ts';

export interface S3BucketOptions {
  /** Names the bucket in errors, metrics and sets. */
  readonly name: string;
  readonly bucket: string;
  readonly region: string;
  /** URL of the service without a path, `https://s3.eu-west-1.amazonaws.com` for one. */
  readonly endpoint: string;
  readonly addressing: Addressing;
  /** How the server differs from others that speak S3. `s3` by default. */
  readonly dialect?: DialectName | undefined;
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
  /** Hashes objects that are signed; in this thread by default. */
  readonly sha256?: HashOf | undefined;
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
   * twentieth of the last ones. 5 by default (0 for GCS and R2), 0 for none.
   */
  readonly hedgePercent?: number | undefined;
  /** Where second requests are counted: `bucket.hedges` and `bucket.hedgesDecided`. */
  readonly metrics?: Metrics | undefined;
}

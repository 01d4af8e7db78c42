/** Where servers that speak S3 differ, as far as creations, signatures and rules are concerned. */
import { AWS4, GOOG4, type SigningScheme } from './sigv4.ts';

export type DialectName = 's3' | 's3-express' | 'gcs' | 'r2';

export interface Dialect {
  readonly scheme: SigningScheme;
  /** As signatures name it. */
  readonly service: string;
  readonly headers: {
    readonly date: string;
    readonly contentHash: string;
    /** Of temporary credentials; undefined: there are none. */
    readonly sessionToken: string | undefined;
  };
  /** The header that makes a PUT a creation. */
  readonly onlyIfAbsent: readonly [name: string, value: string];
  /** Requests are signed with credentials of a session, which lasts minutes. */
  readonly hasSessions: boolean;
  /** Lists are in the order of keys, and may begin after one. */
  readonly listsInOrder: boolean;
  /** One request may delete many. */
  readonly deletesMany: boolean;
  /** What a bucket may be configured to that takes the create-only promise away. */
  readonly rules: readonly ('versioning' | 'lifecycle' | 'gcs-lifecycle')[];
  /** Of all creations, unless it is set otherwise. */
  readonly hedgePercent: number;
}

const S3: Dialect = {
  scheme: AWS4,
  service: 's3',
  headers: {
    date: 'x-amz-date',
    contentHash: 'x-amz-content-sha256',
    sessionToken: 'x-amz-security-token',
  },
  onlyIfAbsent: ['if-none-match', '*'],
  hasSessions: false,
  listsInOrder: true,
  deletesMany: true,
  rules: ['versioning', 'lifecycle'],
  hedgePercent: 5,
};

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  s3: S3,
  /** Directory buckets: no versions, lists in no order, rules by another endpoint. */
  's3-express': {
    ...S3,
    service: 's3express',
    headers: { ...S3.headers, sessionToken: 'x-amz-s3session-token' },
    hasSessions: true,
    listsInOrder: false,
    rules: [],
  },
  /** The XML interface with HMAC keys: `If-None-Match` is for reads there, and is not kept on writes. */
  gcs: {
    ...S3,
    scheme: GOOG4,
    service: 'storage',
    headers: {
      date: 'x-goog-date',
      contentHash: 'x-goog-content-sha256',
      sessionToken: undefined,
    },
    onlyIfAbsent: ['x-goog-if-generation-match', '0'],
    deletesMany: false,
    rules: ['versioning', 'gcs-lifecycle'],
    // One key takes one write a second: a second request would be turned away.
    hedgePercent: 0,
  },
  r2: { ...S3, hedgePercent: 0 },
};

/** How requests of Express are signed that ask for a session, or are about the bucket itself. */
export const EXPRESS_CONTROL: Dialect = { ...S3, service: 's3express', rules: ['lifecycle'] };

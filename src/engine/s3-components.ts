/** The descriptor of buckets on S3 servers. It names credentials and holds none. */
import { resolve } from 'node:path';
import * as v from 'valibot';
import { EngineError } from '../lib/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { s3Place } from './s3-place.ts';

const text = v.pipe(v.string(), v.minLength(1), v.maxLength(4_096));
/** Errors name variables, so what may be a key itself must not pass for the name of one. */
const variable = v.pipe(
  v.string(),
  v.maxLength(256),
  v.regex(
    /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$/,
    'the name of an environment variable, upper case with an underscore: no key goes here',
  ),
);
const bucketName = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, '3 to 63 of a-z, 0-9, dot and hyphen'),
);
const prefix = v.pipe(
  v.string(),
  v.maxLength(256),
  v.regex(/^([a-z0-9._-]+\/)*$/, 'segments of a-z, 0-9, dot, hyphen and underscore, each with a /'),
);
const region = v.pipe(v.string(), v.regex(/^[a-z0-9-]{1,64}$/, 'the name of a region'));
const endpoint = v.pipe(
  v.string(),
  v.check(isEndpoint, 'an http or https URL of a host, without a path, query or user'),
);
const addressing = v.picklist(['virtual', 'path']);

const dialect = v.picklist(['s3', 's3-express', 'gcs', 'r2']);
const hedgePercent = v.pipe(v.number(), v.minValue(0), v.maxValue(100));

const credentials = v.variant('from', [
  v.strictObject({
    from: v.literal('environment'),
    accessKeyId: v.optional(variable, 'AWS_ACCESS_KEY_ID'),
    secretAccessKey: v.optional(variable, 'AWS_SECRET_ACCESS_KEY'),
    sessionToken: v.optional(variable, 'AWS_SESSION_TOKEN'),
  }),
  v.strictObject({ from: v.literal('chain'), profile: v.optional(text) }),
]);

/** What buckets have in common, or one by one. */
const common = {
  region: v.optional(region),
  endpoint: v.optional(endpoint),
  addressing: v.optional(addressing),
  dialect: v.optional(dialect),
  caFile: v.optional(text),
  signsPayload: v.optional(v.boolean()),
  hedgePercent: v.optional(hedgePercent),
  credentials: v.optional(credentials),
};

export const s3Options = v.strictObject({
  ...common,
  buckets: v.pipe(
    v.array(
      v.strictObject({
        ...common,
        bucket: bucketName,
        prefix: v.optional(prefix),
        name: v.optional(text),
      }),
    ),
    v.minLength(1),
    v.maxLength(LIMITS.buckets),
  ),
  metastore: v.strictObject({ root: text }),
});

const s3Bucket = v.strictObject({
  name: text,
  bucket: bucketName,
  prefix,
  region,
  endpoint,
  addressing,
  dialect: v.optional(dialect),
  caFile: v.optional(text),
  signsPayload: v.optional(v.boolean()),
  hedgePercent: v.optional(hedgePercent),
  credentials,
});

export const s3Schema = v.strictObject({
  kind: v.literal('s3'),
  buckets: v.pipe(v.array(s3Bucket), v.minLength(1), v.maxLength(LIMITS.buckets)),
  metastore: v.strictObject({ root: text }),
});

/** Buckets on servers that speak S3, metastore in an LMDB file on this machine. */
export type S3Components = v.InferOutput<typeof s3Schema>;
export type S3BucketDescriptor = v.InferOutput<typeof s3Bucket>;

/** Fills in what the options leave out. */
export function resolveS3Options(options: v.InferOutput<typeof s3Options>): S3Components {
  const { buckets, metastore, ...shared } = options;
  const resolved = buckets.map((own): S3BucketDescriptor => {
    const given = { ...shared, ...own };
    const { bucket, prefix: within = '' } = given;
    const { dialect: spoken, caFile, signsPayload, hedgePercent: hedges } = given;
    return {
      name: given.name ?? `s3://${bucket}/${within}`,
      bucket,
      prefix: within,
      ...s3Place(given),
      ...(spoken === undefined ? {} : { dialect: spoken }),
      ...(caFile === undefined ? {} : { caFile: resolve(caFile) }),
      ...(signsPayload === undefined ? {} : { signsPayload }),
      ...(hedges === undefined ? {} : { hedgePercent: hedges }),
      credentials: given.credentials ?? v.parse(credentials, { from: 'environment' }),
    };
  });
  return { kind: 's3', buckets: resolved, metastore: { root: resolve(metastore.root) } };
}

/** Two buckets in one place would be one copy that counts twice. */
export function checkDistinctS3({ buckets }: S3Components): void {
  const placeOf = (bucket: S3BucketDescriptor): string =>
    `${new URL(bucket.endpoint).origin}/${bucket.bucket}/${bucket.prefix}`;
  const kinds = [
    ['name', (bucket: S3BucketDescriptor) => bucket.name],
    ['bucket', placeOf],
  ] as const;
  for (const [option, valueOf] of kinds) {
    const seen = new Set<string>();
    for (const bucket of buckets) {
      const value = valueOf(bucket);
      if (seen.has(value)) {
        throw new EngineError('INVALID_OPTION', 'each bucket has a place and a name of its own', {
          details: { option: `components.buckets.${option}`, value },
        });
      }
      seen.add(value);
    }
  }
}

function isEndpoint(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, pathname, search, hash, username, password } = new URL(value);
  const isPlain = pathname === '/' && `${search}${hash}${username}${password}` === '';
  return (protocol === 'http:' || protocol === 'https:') && isPlain;
}

/** The operations of S3 that the adapter uses, on buckets in memory. */
import { createHash } from 'node:crypto';
import { setTimeout as sleepReal } from 'node:timers/promises';
import type { SeenRequest } from './fault-rules.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export class TestBucket {
  readonly objects = new Map<string, Buffer>();
  /** When they were stored. */
  readonly modifiedMillis = new Map<string, number>();
  versioning: 'Enabled' | 'Suspended' | undefined;
  /** The inside of a lifecycle configuration. */
  lifecycle: string | undefined;
  /** Keeps the condition; ignores it; or checks it and stores later, as if nothing could come between. */
  creation: 'strict' | 'ignores' | 'races' = 'strict';
}

/** What the operations need of their server. */
interface World {
  readonly buckets: Map<string, TestBucket>;
  readonly denied: ReadonlySet<string>;
  readonly region: string;
}

const NOTHING = Buffer.alloc(0);

export async function answerOf(world: World, seen: SeenRequest, body: Buffer): Promise<Answer> {
  const bucket = world.buckets.get(seen.bucket);
  const operation = operationOf(seen);
  if (operation === undefined) return problem(501, 'NotImplemented');
  if (isDenied(world, operation, seen.key)) return problem(403, 'AccessDenied');
  if (operation === 's3:CreateBucket') {
    if (bucket !== undefined) return problem(409, 'BucketAlreadyOwnedByYou');
    world.buckets.set(seen.bucket, new TestBucket());
    return { status: 200, headers: {}, body: NOTHING };
  }
  if (bucket === undefined) return problem(404, 'NoSuchBucket');
  if (operation === 's3:HeadBucket') {
    return { status: 200, headers: { 'x-amz-bucket-region': world.region }, body: NOTHING };
  }
  return OPERATIONS[operation](bucket, seen, body, world);
}

/** An operation is denied for all keys, or for one. */
function isDenied({ denied }: World, operation: string, key: string): boolean {
  return denied.has(operation) || denied.has(`${operation} ${key}`);
}

type Operation = (
  bucket: TestBucket,
  seen: SeenRequest,
  body: Buffer,
  world: World,
) => Answer | Promise<Answer>;
type OperationName = keyof typeof OPERATIONS | 's3:CreateBucket' | 's3:HeadBucket';

function operationOf({ method, key, query }: SeenRequest): OperationName | undefined {
  if (key === '') {
    if (method === 'GET' && query.has('versioning')) return 's3:GetBucketVersioning';
    if (method === 'GET' && query.has('lifecycle')) return 's3:GetLifecycleConfiguration';
    if (method === 'GET' && query.get('list-type') === '2') return 's3:ListBucket';
    if (method === 'POST' && query.has('delete')) return 's3:DeleteObjects';
    if (method === 'HEAD') return 's3:HeadBucket';
    if (method === 'PUT' && query.size === 0) return 's3:CreateBucket';
    return undefined;
  }
  switch (method) {
    case 'PUT':
      return 's3:PutObject';
    case 'GET':
      return 's3:GetObject';
    case 'DELETE':
      return 's3:DeleteObject';
    default:
      return undefined;
  }
}

const OPERATIONS = {
  's3:PutObject': putObject,
  's3:GetObject': getObject,
  's3:DeleteObject': (bucket, { key }) => {
    bucket.objects.delete(key);
    return { status: 204, headers: {}, body: NOTHING };
  },
  's3:DeleteObjects': deleteObjects,
  's3:ListBucket': listObjects,
  's3:GetBucketVersioning': ({ versioning }) =>
    xml(
      'VersioningConfiguration',
      versioning === undefined ? '' : `<Status>${versioning}</Status>`,
    ),
  's3:GetLifecycleConfiguration': ({ lifecycle }) =>
    lifecycle === undefined
      ? problem(404, 'NoSuchLifecycleConfiguration')
      : xml('LifecycleConfiguration', lifecycle),
} satisfies Record<string, Operation>;

async function putObject(bucket: TestBucket, seen: SeenRequest, body: Buffer): Promise<Answer> {
  const generation = seen.headers['x-goog-if-generation-match'];
  if (generation !== undefined && generation !== '0') return problem(501, 'NotImplemented');
  const condition = generation === '0' ? '*' : seen.headers['if-none-match'];
  if (condition !== undefined && condition !== '*') return problem(501, 'NotImplemented');
  const isConditional = condition === '*' && bucket.creation !== 'ignores';
  if (isConditional && bucket.objects.has(seen.key)) return problem(412, 'PreconditionFailed');
  if (bucket.creation === 'races') await sleepReal(5);
  bucket.objects.set(seen.key, body);
  bucket.modifiedMillis.set(seen.key, Date.now());
  return { status: 200, headers: { etag: etagOf(body) }, body: NOTHING };
}

function getObject(bucket: TestBucket, { key, headers }: SeenRequest): Answer {
  const object = bucket.objects.get(key);
  if (object === undefined) return problem(404, 'NoSuchKey');
  const range = /^bytes=(\d+)-(\d+)$/.exec(String(headers['range'] ?? ''));
  const etag = etagOf(object);
  if (range === null) return { status: 200, headers: { etag }, body: object };
  const [start, last] = [Number(range[1]), Math.min(Number(range[2]), object.byteLength - 1)];
  if (start >= object.byteLength) {
    const size = object.byteLength;
    return problem(416, 'InvalidRange', `<ActualObjectSize>${size}</ActualObjectSize>`, {
      'content-range': `bytes */${size}`,
    });
  }
  const contentRange = `bytes ${start}-${last}/${object.byteLength}`;
  const body = object.subarray(start, last + 1);
  return { status: 206, headers: { etag, 'content-range': contentRange }, body };
}

/** Answers 200 also where some may not be deleted: each key has an entry of its own. */
function deleteObjects(
  bucket: TestBucket,
  { headers }: SeenRequest,
  body: Buffer,
  world: World,
): Answer {
  const digest = createHash('md5').update(body).digest('base64');
  if (headers['content-md5'] === undefined) return problem(400, 'InvalidRequest');
  if (headers['content-md5'] !== digest) return problem(400, 'BadDigest');
  const keys = [...body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)].map(([, key]) => key!);
  if (keys.length === 0 || keys.length > 1_000) return problem(400, 'MalformedXML');
  const entries = keys.map((key) => {
    if (isDenied(world, 's3:DeleteObject', key)) {
      return `<Error><Key>${key}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`;
    }
    bucket.objects.delete(key);
    return `<Deleted><Key>${key}</Key></Deleted>`;
  });
  return xml('DeleteResult', entries.join(''));
}

function listObjects(bucket: TestBucket, { query }: SeenRequest): Answer {
  const max = Math.min(Number(query.get('max-keys') ?? 1_000), 1_000);
  const prefix = query.get('prefix') ?? '';
  const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
  const encode = query.get('encoding-type') === 'url' ? encodeURIComponent : (key: string) => key;
  const delimiter = query.get('delimiter');
  const keys = [...bucket.objects.keys()].filter((key) => key.startsWith(prefix));
  const found =
    delimiter === null ? keys : new Set(keys.map((key) => folderOf(key, prefix, delimiter) ?? key));
  const names = [...found].filter((name) => name > after).sort();
  const page = names.slice(0, max);
  const entries = page.map((name) => {
    const object = bucket.objects.get(name);
    if (object === undefined) {
      return `<CommonPrefixes><Prefix>${encode(name)}</Prefix></CommonPrefixes>`;
    }
    const modified = new Date(bucket.modifiedMillis.get(name) ?? Date.now()).toISOString();
    const facts = `<Size>${object.byteLength}</Size><LastModified>${modified}</LastModified>`;
    return `<Contents><Key>${encode(name)}</Key>${facts}</Contents>`;
  });
  const more = names.length > max;
  const next = more ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
  const isTruncated = `<IsTruncated>${more}</IsTruncated>${next}`;
  return xml('ListBucketResult', isTruncated + entries.join(''));
}

/** What a list with a delimiter shows in place of all keys that begin the same. */
function folderOf(key: string, prefix: string, delimiter: string): string | undefined {
  const end = key.indexOf(delimiter, prefix.length);
  return end < 0 ? undefined : key.slice(0, end + 1);
}

function etagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

export function xml(root: string, inside: string): Answer {
  const text = `<?xml version="1.0" encoding="UTF-8"?>\n<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inside}</${root}>`;
  return { status: 200, headers: { 'content-type': 'application/xml' }, body: Buffer.from(text) };
}

export function problem(
  status: number,
  code: string,
  more = '',
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const text = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>no</Message>${more}</Error>`;
  return {
    status,
    headers: { 'content-type': 'application/xml', ...headers },
    body: Buffer.from(text),
  };
}

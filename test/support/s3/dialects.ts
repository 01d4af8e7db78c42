/** What servers of other dialects than plain S3 want, as strictly as the documentation says it. */
import { createHash, randomBytes } from 'node:crypto';
import type { SeenRequest } from './fault-rules.ts';
import { problem, xml, type Answer, type TestBucket } from './operations.ts';
import type { Complaint, SignatureRules, TestCredentials } from './signature-check.ts';

export type TestDialect = 's3' | 's3-express' | 'gcs';

interface Session extends TestCredentials {
  readonly mode: string;
  endsAt: number;
}

type Expected = Pick<SignatureRules, 'credentials' | 'scheme' | 'service' | 'tokenHeader'>;

/** Sessions of directory buckets. */
export class Sessions {
  readonly given: Session[] = [];
  lastsMillis = 5 * 60_000;

  open(mode: string): Answer {
    const session: Session = {
      accessKeyId: `SESSION${this.given.length}`,
      secretAccessKey: randomBytes(12).toString('hex'),
      sessionToken: randomBytes(12).toString('hex'),
      mode,
      endsAt: Date.now() + this.lastsMillis,
    };
    this.given.push(session);
    const { accessKeyId, secretAccessKey, sessionToken, endsAt } = session;
    const inside = `<AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey><SessionToken>${sessionToken}</SessionToken><Expiration>${new Date(endsAt).toISOString()}</Expiration>`;
    return xml('CreateSessionResult', `<Credentials>${inside}</Credentials>`);
  }

  of(seen: SeenRequest): Session | undefined {
    return this.given.find(
      ({ sessionToken }) => sessionToken === seen.headers['x-amz-s3session-token'],
    );
  }
}

/** By whose key and in which way the request has to be signed. */
export function expectedSigner(
  dialect: TestDialect,
  seen: SeenRequest,
  credentials: TestCredentials,
  sessions: Sessions,
): Expected | Complaint {
  if (dialect === 'gcs') {
    return { credentials, scheme: 'GOOG4', service: 'storage', tokenHeader: undefined };
  }
  const plain = { credentials, scheme: 'AWS4', tokenHeader: 'x-amz-security-token' } as const;
  if (dialect === 's3') return { ...plain, service: 's3' };
  const isAboutBucket = seen.query.has('session') || seen.query.has('lifecycle');
  if (isAboutBucket) return { ...plain, service: 's3express' };
  const session = sessions.of(seen);
  if (session === undefined) return { status: 403, code: 'AccessDenied' };
  if (session.endsAt <= Date.now()) return { status: 400, code: 'ExpiredToken' };
  if (session.mode !== 'ReadWrite' && seen.method !== 'GET') {
    return { status: 403, code: 'AccessDenied' };
  }
  const tokenHeader = 'x-amz-s3session-token';
  return { credentials: session, scheme: 'AWS4', service: 's3express', tokenHeader };
}

/** An answer that only this dialect gives; undefined: it is as everywhere. */
export function ownAnswer(
  dialect: TestDialect,
  seen: SeenRequest,
  bucket: TestBucket | undefined,
  sessions: Sessions,
): Answer | undefined {
  switch (dialect) {
    case 's3':
      return undefined;
    case 'gcs':
      return gcsAnswer(seen, bucket);
    case 's3-express':
      return expressAnswer(seen, bucket, sessions);
  }
}

function gcsAnswer(seen: SeenRequest, bucket: TestBucket | undefined): Answer | undefined {
  const { method, query, headers } = seen;
  const names = Object.keys(headers);
  if (names.some((name) => name.startsWith('x-amz-'))) return problem(400, 'ExcessHeaderValues');
  if (method === 'POST') return problem(501, 'NotImplemented');
  if (method === 'PUT' && headers['if-none-match'] !== undefined) {
    return problem(400, 'InvalidArgument');
  }
  const isUnset = query.has('lifecycle') && bucket !== undefined && bucket.lifecycle === undefined;
  return isUnset ? xml('LifecycleConfiguration', '') : undefined;
}

function expressAnswer(
  seen: SeenRequest,
  bucket: TestBucket | undefined,
  sessions: Sessions,
): Answer | undefined {
  const { method, key, query, headers } = seen;
  if (bucket === undefined) return undefined;
  if (query.has('session')) return sessions.open(String(headers['x-amz-create-session-mode']));
  if (query.has('versioning')) return problem(405, 'MethodNotAllowed');
  const isList = method === 'GET' && key === '' && query.get('list-type') === '2';
  return isList ? listInNoOrder(bucket, query) : undefined;
}

const PAGE_KEYS = 7;

/** Small pages, in the order of hashes. */
function listInNoOrder(bucket: TestBucket, query: URLSearchParams): Answer {
  const prefix = query.get('prefix') ?? '';
  if (query.has('start-after')) return problem(501, 'NotImplemented');
  if (prefix !== '' && !prefix.endsWith('/')) return problem(400, 'InvalidArgument');
  const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');
  const after = query.get('continuation-token') ?? '';
  const entries = [...bucket.objects.keys()]
    .filter((key) => key.startsWith(prefix))
    .map((key) => ({ key, hash: hashOf(key) }))
    .filter(({ hash }) => hash > after)
    .sort((left, right) => (left.hash < right.hash ? -1 : 1));
  const page = entries.slice(0, Math.min(PAGE_KEYS, Number(query.get('max-keys'))));
  const isTruncated = entries.length > page.length;
  const next = isTruncated
    ? `<NextContinuationToken>${page.at(-1)!.hash}</NextContinuationToken>`
    : '';
  const contents = page.map(
    ({ key }) => `<Contents><Key>${encodeURIComponent(key)}</Key></Contents>`,
  );
  return xml(
    'ListBucketResult',
    `<IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}`,
  );
}

/** What an answer that is no success, or no answer at all, means for the outcome of a call. */
import { EngineError, type ErrorCode, type ErrorDetails } from '../../lib/errors.ts';
import { BrokenExchange, type Reply } from './exchange.ts';
import { xmlText } from './xml.ts';

export type Failure =
  /** It was not done and will not be until somebody changes something. */
  | { readonly kind: 'refused'; readonly cause: EngineError }
  /** Nobody can tell. */
  | { readonly kind: 'unknown'; readonly cause: EngineError };

/** Which call failed, where. */
export interface FailureSite {
  readonly bucket: string;
  readonly endpoint: string;
  readonly region: string;
  readonly call:
    | 'create'
    | 'read'
    | 'delete'
    | 'list'
    | 'check-versioning'
    | 'check-lifecycle'
    | 'open-session'
    | 'create-bucket';
}

interface Refusal {
  readonly summary: string;
  /** What somebody has to look at. */
  readonly setting: string;
  readonly code?: ErrorCode;
}

const OTHER_REGION: Refusal = { summary: 'bucket is in another region', setting: 'region' };
const REFUSALS: Readonly<Record<string, Refusal>> = {
  AccessDenied: { summary: 'credentials lack a permission', setting: 'permission' },
  AllAccessDisabled: { summary: 'bucket is disabled', setting: 'bucket' },
  AccountProblem: { summary: 'account has a problem', setting: 'credentials' },
  InvalidAccessKeyId: { summary: 'access key is not known', setting: 'accessKeyId' },
  SignatureDoesNotMatch: {
    summary: 'signature does not match: another secret key, or a proxy that changes requests',
    setting: 'secretAccessKey',
  },
  InvalidToken: { summary: 'session token is not accepted', setting: 'sessionToken' },
  RequestTimeTooSkewed: { summary: 'clock of this machine is off', setting: 'clock' },
  NoSuchBucket: { summary: 'there is no such bucket', setting: 'bucket' },
  BucketAlreadyExists: { summary: 'bucket belongs to somebody else', setting: 'bucket' },
  TooManyBuckets: { summary: 'account has as many buckets as it may', setting: 'quota' },
  InvalidLocationConstraint: OTHER_REGION,
  InvalidBucketName: { summary: 'bucket name is not acceptable', setting: 'bucket' },
  AuthorizationHeaderMalformed: OTHER_REGION,
  IllegalLocationConstraintException: OTHER_REGION,
  PermanentRedirect: OTHER_REGION,
  TemporaryRedirect: OTHER_REGION,
  Redirect: OTHER_REGION,
  NotImplemented: { summary: 'server does not know the request', setting: 'endpoint' },
  QuotaExceeded: { summary: 'bucket is over its quota', setting: 'quota', code: 'BUCKET_FULL' },
  XMinioStorageFull: { summary: 'store has no room', setting: 'quota', code: 'BUCKET_FULL' },
};

/** Client errors, by their status, that the same request may not meet again. */
const PASSING_CODES: ReadonlySet<string> = new Set([
  'RequestTimeout',
  'IncompleteBody',
  'BadDigest',
  'XAmzContentSHA256Mismatch',
  'ExpiredToken',
  'TokenRefreshRequired',
  'OperationAborted',
  'ConditionalRequestConflict',
  'SlowDown',
]);

const EXPIRED_CODES: ReadonlySet<string> = new Set(['ExpiredToken', 'TokenRefreshRequired']);

/** The code in the XML of an error; undefined for answers that no S3 server gives. */
export function s3CodeOf(reply: Reply): string | undefined {
  const code = xmlText(textOf(reply), 'Code');
  return code !== undefined && /^[A-Za-z0-9.]{1,64}$/.test(code) ? code : undefined;
}

export function textOf(reply: Reply): string {
  return Buffer.from(reply.body.buffer, reply.body.byteOffset, reply.body.byteLength).toString();
}

/** The server says that the credentials have ended. */
export function saysExpired(reply: Reply): boolean {
  if (reply.status !== 400 && reply.status !== 401 && reply.status !== 403) return false;
  return EXPIRED_CODES.has(s3CodeOf(reply) ?? '');
}

/** The server has too much to do. */
export function saysThrottled({ status }: Reply): boolean {
  return status === 503 || status === 429;
}

/** An answer of which the caller has no better reading. */
export function replyFailure(reply: Reply, site: FailureSite): Failure {
  const { status } = reply;
  const s3Code = s3CodeOf(reply);
  const details = { ...detailsOf(site), status, s3Code, requestId: requestIdOf(reply) };
  if (s3Code !== undefined && EXPIRED_CODES.has(s3Code)) {
    const more = { ...details, setting: 'credentials' };
    return unknown('credentials have expired', site, more, reply);
  }
  const refusal = refusalOf(status, s3Code);
  if (refusal !== undefined) {
    const { summary, setting, code = 'BUCKET_REFUSED' } = refusal;
    const more = { ...details, setting, ...hintsOf(setting, reply, site) };
    return { kind: 'refused', cause: new EngineError(code, summary, { details: more }) };
  }
  if (saysThrottled(reply)) return unknown('bucket asks for fewer requests', site, details, reply);
  if (s3Code !== undefined || status >= 500) return unknown('bucket failed', site, details, reply);
  const more = { ...details, setting: 'endpoint' };
  return unknown('answer is not one of an S3 server', site, more, reply);
}

function refusalOf(status: number, s3Code: string | undefined): Refusal | undefined {
  if (status === 507)
    return { summary: 'store has no room', setting: 'quota', code: 'BUCKET_FULL' };
  if (s3Code !== undefined && PASSING_CODES.has(s3Code)) return undefined;
  const known = s3Code === undefined ? undefined : REFUSALS[s3Code];
  if (known !== undefined && status < 500) return known;
  if (status === 501) return REFUSALS['NotImplemented'];
  if (status >= 300 && status < 400 && status !== 304) {
    return { summary: 'server sends requests elsewhere', setting: 'endpoint' };
  }
  // Without a code it is a proxy's or a portal's, which says nothing about the bucket.
  if (s3Code === undefined || status < 400 || status >= 500) return undefined;
  if ([404, 408, 409, 412, 425, 429].includes(status)) return undefined;
  return { summary: 'server refuses the request', setting: 'endpoint' };
}

function hintsOf(setting: string, reply: Reply, site: FailureSite): ErrorDetails {
  switch (setting) {
    case 'permission':
      return {
        permission: PERMISSIONS[site.call],
        ...(site.call === 'read' ? { alsoNeeded: PERMISSIONS.list } : {}),
      };
    case 'region': {
      const told = reply.header('x-amz-bucket-region') ?? xmlText(textOf(reply), 'Region');
      return { region: site.region, expected: plain(told) };
    }
    case 'clock': {
      const serverMillis = Date.parse(reply.header('date') ?? '');
      if (Number.isNaN(serverMillis)) return {};
      return { offByMillis: Date.now() - serverMillis };
    }
    default:
      return {};
  }
}

/** Reading what is absent needs the permission to list, too, or the answer is not to be told from a refusal. */
const PERMISSIONS: Readonly<Record<FailureSite['call'], string>> = {
  create: 's3:PutObject',
  read: 's3:GetObject',
  delete: 's3:DeleteObject',
  list: 's3:ListBucket',
  'check-versioning': 's3:GetBucketVersioning',
  'check-lifecycle': 's3:GetLifecycleConfiguration',
  'open-session': 's3express:CreateSession',
  'create-bucket': 's3:CreateBucket',
};

function unknown(
  summary: string,
  site: FailureSite,
  details: ErrorDetails,
  reply?: Reply,
  cause?: unknown,
): Failure {
  const seconds = Number(reply?.header('retry-after') ?? NaN);
  const error = new EngineError('BUCKET_UNAVAILABLE', summary, {
    details,
    sideEffects: mayHaveChanged(site) ? 'possible' : 'none',
    ...(seconds > 0 && seconds <= 3_600 ? { retryAfterMillis: seconds * 1_000 } : {}),
    cause,
  });
  return { kind: 'unknown', cause: error };
}

/** An answer with a good status whose content is not what that status promises. */
export function oddReply(reply: Reply, site: FailureSite): Failure {
  const { status } = reply;
  const details = {
    ...detailsOf(site),
    status,
    requestId: requestIdOf(reply),
    setting: 'endpoint',
  };
  return unknown('answer is not one of an S3 server', site, details);
}

/** What ends a handshake, most special first. */
const HANDSHAKES: readonly (readonly [RegExp, Refusal])[] = [
  [
    /^ERR_SSL_|^EPROTO$/,
    { summary: 'server speaks no TLS that is known here', setting: 'endpoint' },
  ],
  [/ALTNAME/, { summary: 'certificate of the server is for another name', setting: 'endpoint' }],
  [/NOT_YET_VALID/, { summary: 'certificate of the server is not valid yet', setting: 'clock' }],
  [/EXPIRED/, { summary: 'certificate of the server has expired', setting: 'endpoint' }],
  [
    /CERT|SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/,
    { summary: 'certificate of the server is not trusted', setting: 'caFile' },
  ],
];
/** What is known before anything was sent, whoever tells it. */
const UNSENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/**
 * A request without an answer, or with a part of one. How far it came decides, where that is known: the
 * codes of a failed handshake are also those of a connection that breaks later.
 */
export function networkFailure(error: unknown, site: FailureSite): Failure {
  if (EngineError.is(error)) {
    return { kind: error.code === 'BUCKET_REFUSED' ? 'refused' : 'unknown', cause: error };
  }
  const [stage, cause] =
    error instanceof BrokenExchange ? [error.stage, error.cause] : [undefined, error];
  const systemCode = systemCodeOf(cause);
  const details = { ...detailsOf(site), systemCode };
  const handshake = HANDSHAKES.find(([code]) => code.test(systemCode))?.[1];
  if (handshake !== undefined && (stage ?? 'unsent') === 'unsent') {
    const { summary, setting } = handshake;
    const more = { ...details, setting };
    return {
      kind: 'refused',
      cause: new EngineError('BUCKET_REFUSED', summary, { details: more, cause }),
    };
  }
  if (UNSENT.has(systemCode) || stage === 'unsent') {
    const summary = 'server cannot be reached';
    const more = { ...details, setting: 'endpoint' };
    return {
      kind: 'unknown',
      cause: new EngineError('BUCKET_UNAVAILABLE', summary, { details: more, cause }),
    };
  }
  const summary = 'connection to the bucket broke';
  // Once something answered as a server does, the address is not what is wrong.
  const more = stage === 'answered' ? details : { ...details, setting: 'endpoint' };
  return unknown(summary, site, more, undefined, cause);
}

function systemCodeOf(error: unknown): string {
  const { code, errors } = (error ?? {}) as { code?: unknown; errors?: readonly unknown[] };
  if (typeof code === 'string') return code;
  // One error an address that was tried.
  return errors?.[0] === undefined ? 'UNKNOWN' : systemCodeOf(errors[0]);
}

function mayHaveChanged({ call }: FailureSite): boolean {
  return call === 'create' || call === 'delete' || call === 'create-bucket';
}

function detailsOf({ bucket, endpoint, call }: FailureSite): ErrorDetails {
  return { bucket, endpoint, call };
}

function requestIdOf(reply: Reply): string | undefined {
  return plain(reply.header('x-amz-request-id'));
}

/** Text of a server, where it is short and harmless. */
function plain(text: string | undefined): string | undefined {
  return text !== undefined && /^[\w.:/+=-]{1,128}$/.test(text) ? text : undefined;
}

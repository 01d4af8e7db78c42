import type { Call } from '../calls/calls.ts';
import type { BucketAddress } from './address.ts';
import type { Connections } from './connections.ts';
import type { CredentialCache } from './credentials.ts';
import type { Dialect } from './dialects.ts';
import type { Reply, RequestOptions } from './exchange.ts';
import { saysExpired, saysThrottled, type FailureSite } from './failure.ts';
import type { Hedges } from './hedges.ts';
import type { HashOf } from './payload-hash.ts';
import { amzDate, EMPTY_PAYLOAD_HASH, type Signer } from './sigv4.ts';
import { windowOf, type Windows } from './window.ts';

/** What the calls of one open bucket share. */
export interface BucketContext {
  readonly name: string;
  readonly region: string;
  readonly dialect: Dialect;
  readonly address: BucketAddress;
  /** In front of every key; empty, or with a slash at its end. */
  readonly prefix: string;
  readonly connections: Connections;
  readonly credentials: CredentialCache;
  readonly signer: Signer;
  /** Bodies are signed with their hash; else as unsigned, where TLS keeps them. */
  readonly signsPayload: boolean;
  readonly sha256: HashOf;
  readonly windows: Windows;
  readonly hedges: Hedges;
}

export interface SignedRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** Without the prefix; undefined: the bucket itself. */
  readonly key?: string | undefined;
  /** In canonical form. */
  readonly query?: string;
  /** Lower-case names; all of them are signed, so that what is on the way cannot drop a condition. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer | undefined;
  readonly payloadHash?: string;
  readonly answerBytesMax: number;
}

/** Errors are short; what is longer is no answer of an S3 server. */
export const ERROR_BYTES_MAX = 65_536;

export function siteOf(context: BucketContext, call: FailureSite['call']): FailureSite {
  const { name: bucket, region, address } = context;
  return { bucket, endpoint: address.origin, region, call };
}

/**
 * Signs and sends one request of a call and ends it when the caller gives up.
 *
 * @throws what the network said, or why there is no signature.
 */
export async function send(
  context: BucketContext,
  call: Call,
  request: SignedRequest,
): Promise<Reply> {
  const pending = context.credentials.get();
  const credentials = pending instanceof Promise ? await pending : pending;
  if (call.abandoned !== undefined) throw call.abandoned;
  const window = windowOf(context.windows, request.method);
  const begun = window.begin();
  const { method, key, query = '', payloadHash = EMPTY_PAYLOAD_HASH } = request;
  const at = amzDate(Date.now());
  const names = context.dialect.headers;
  const signed: (readonly [string, string])[] = [
    ['host', context.address.host],
    [names.contentHash, payloadHash],
    [names.date, at],
    ...(request.headers ?? []),
  ];
  const { sessionToken } = credentials;
  if (sessionToken !== undefined && names.sessionToken !== undefined) {
    signed.push([names.sessionToken, sessionToken]);
  }
  signed.sort(([left], [right]) => (left < right ? -1 : 1));
  const { rootPath } = context.address;
  const path = key === undefined ? rootPath : `${rootPath}${context.prefix}${key}`;
  const canonical = { method, path, query, headers: signed, payloadHash };
  const headers = ['authorization', context.signer.authorization(canonical, credentials, at)];
  for (const [name, value] of signed) if (name !== 'host') headers.push(name, value);
  const options: RequestOptions = {
    method,
    path: query === '' ? path : `${path}?${query}`,
    headers,
    body: request.body,
    answerBytesMax: request.answerBytesMax,
  };
  const reply = await call.whileTouching(() =>
    context.connections.send(options, (exchange) => {
      call.onAbandoned = () => exchange.abort(call.abandoned!);
    }),
  );
  if (saysThrottled(reply)) window.throttled(begun);
  else if (reply.status < 500) window.succeeded();
  if (saysExpired(reply)) context.credentials.expired(credentials);
  return reply;
}

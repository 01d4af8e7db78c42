/** What a strict server checks of a signature: written apart from the signer, from the specification. */
import { createHash, createHmac } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

export interface TestCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface SignatureRules {
  readonly credentials: TestCredentials;
  readonly region: string;
  readonly nowMillis: number;
  readonly scheme: 'AWS4' | 'GOOG4';
  readonly service: string;
  /** Of temporary credentials; undefined: there are none. */
  readonly tokenHeader: string | undefined;
}

export interface Complaint {
  readonly status: number;
  readonly code: string;
  readonly more?: string;
}

const SKEW_MILLIS_MAX = 15 * 60_000;
const PATTERN =
  /^(AWS4|GOOG4)-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([a-z0-9]+)\/([a-z0-9]+)_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string): Buffer =>
  createHmac('sha256', key).update(data).digest();

export function checkSignature(
  request: IncomingMessage,
  body: Buffer,
  rules: SignatureRules,
): Complaint | undefined {
  const header = (name: string): string => String(request.headers[name] ?? '');
  const match = PATTERN.exec(header('authorization'));
  if (match === null) return { status: 403, code: 'AccessDenied' };
  const [, kind, accessKeyId, day, region, ...rest] = match as unknown as string[];
  const [service, end, names, signature] = rest as [string, string, string, string];
  const { credentials, scheme, tokenHeader } = rules;
  const own = scheme === 'AWS4' ? 'x-amz-' : 'x-goog-';
  const isOfKind = kind === scheme && end === scheme.toLowerCase() && service === rules.service;
  if (!isOfKind) return { status: 403, code: 'AccessDenied' };
  if (accessKeyId !== credentials.accessKeyId) return { status: 403, code: 'InvalidAccessKeyId' };
  if (region !== rules.region) {
    const more = `<Region>${rules.region}</Region>`;
    return { status: 400, code: 'AuthorizationHeaderMalformed', more };
  }
  const tokens = ['x-amz-security-token', 'x-amz-s3session-token'].filter((n) => header(n) !== '');
  const token = tokenHeader === undefined ? '' : header(tokenHeader);
  const isToken = token === (credentials.sessionToken ?? '');
  if (!isToken || tokens.some((name) => name !== tokenHeader)) {
    return { status: 400, code: 'InvalidToken' };
  }
  const date = header(`${own}date`);
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date)?.slice(1).map(Number);
  if (parts === undefined || !date.startsWith(day!)) return { status: 403, code: 'AccessDenied' };
  const at = Date.UTC(parts[0]!, parts[1]! - 1, parts[2], parts[3], parts[4], parts[5]);
  if (Math.abs(at - rules.nowMillis) > SKEW_MILLIS_MAX) {
    return { status: 403, code: 'RequestTimeTooSkewed' };
  }
  const signed = names.split(';');
  // What decides about the request must be signed, or somebody on the way could change it.
  const must = ['host', 'if-none-match', 'range', 'content-md5'].filter((n) => header(n) !== '');
  must.push(...Object.keys(request.headers).filter((name) => name.startsWith(own)));
  const isComplete = must.every((name) => signed.includes(name));
  if (!isComplete || signed.join() !== [...signed].sort().join()) {
    return { status: 403, code: 'AccessDenied' };
  }
  const [path, query = ''] = request.url!.split('?');
  const canonical = [
    request.method,
    path,
    query.split('&').sort().join('&'),
    ...signed.map((name) => `${name}:${header(name).trim()}`),
    '',
    names,
    header(`${own}content-sha256`),
  ].join('\n');
  const scope = `${day}/${region}/${service}/${end}_request`;
  const toSign = [`${scheme}-HMAC-SHA256`, date, scope, sha256(canonical)].join('\n');
  const key = [day!, region, service, `${end}_request`].reduce<string | Buffer>(
    (secret, part) => hmac(secret, part),
    `${scheme}${credentials.secretAccessKey}`,
  );
  if (hmac(key, toSign).toString('hex') !== signature) {
    return {
      status: 403,
      code: 'SignatureDoesNotMatch',
      more: `<StringToSign>${toSign}</StringToSign>`,
    };
  }
  const payload = header(`${own}content-sha256`);
  if (payload !== 'UNSIGNED-PAYLOAD' && payload !== sha256(body)) {
    return { status: 400, code: 'XAmzContentSHA256Mismatch' };
  }
  return undefined;
}

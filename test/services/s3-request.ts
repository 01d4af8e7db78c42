/** Signed requests of a test to a real server, for what the store itself has no call for. */
import { createHash } from 'node:crypto';
import { amzDate, canonicalQuery, sha256Hex, Signer } from '../../src/adapters/s3/sigv4.ts';
import type { CephZone } from './ceph-zone.ts';

export async function s3Request(
  { endpoint, credentials }: Pick<CephZone, 'endpoint' | 'credentials'>,
  method: string,
  path: string,
  query: Readonly<Record<string, string>> = {},
  body = '',
): Promise<void> {
  const at = amzDate(Date.now());
  const payloadHash = sha256Hex(body);
  const md5 = createHash('md5').update(body).digest('base64');
  const headers = [
    ['content-md5', md5],
    ['host', new URL(endpoint).host],
    ['x-amz-content-sha256', payloadHash],
    ['x-amz-date', at],
  ] as const;
  const canonical = canonicalQuery(query);
  const request = { method, path, query: canonical, headers, payloadHash };
  const signer = new Signer({ region: 'us-east-1', service: 's3' });
  const authorization = signer.authorization(request, credentials, at);
  const url = `${endpoint}${path}${canonical === '' ? '' : `?${canonical}`}`;
  const sent = Object.fromEntries(headers.filter(([name]) => name !== 'host'));
  const answer = await fetch(url, {
    method,
    headers: { ...sent, authorization },
    ...(body === '' ? {} : { body }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
}

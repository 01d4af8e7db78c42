/**
 * Signatures of Google Cloud Storage. Google has published vectors of URLs that are signed with RSA only
 * (conformance tests of its storage clients, v4_signatures.json): of these the canonical request and the
 * string to sign are checked here, which headers and HMAC keys have in common with them. What HMAC makes of such a
 * string is checked against vectors of another implementation (tests of lua-resty-gcs-signature).
 */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  canonicalQuery,
  GOOG4,
  Signer,
  UNSIGNED_PAYLOAD,
  type CanonicalRequest,
} from '../../../../src/adapters/s3/sigv4.ts';

const SECRET = 'any secret';
const ALGORITHM = 'GOOG4-RSA-SHA256';
const ACCOUNT = 'test-iam-credentials@dummy-project-id.iam.gserviceaccount.com';

interface Vector {
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  readonly day?: string;
  readonly expires?: string;
  /** Besides `host`, in order. */
  readonly headers?: readonly (readonly [string, string])[];
  readonly parameters?: Readonly<Record<string, string>>;
  readonly payloadHash?: string;
  /** The published hash of the canonical request. */
  readonly hash: string;
}

const HELLO = '2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b982';
const VECTORS: readonly (readonly [string, Vector])[] = [
  ['GET', { hash: '00e2fb794ea93d7adb703edaebdd509821fcc7d4f1a79ac5c8d2b394df109320' }],
  [
    'PUT',
    {
      method: 'PUT',
      hash: '78742860705da91404222d5d66ff89850292471199c3c2808d116ad12e6177b4',
    },
  ],
  [
    'POST with a header',
    {
      method: 'POST',
      headers: [['x-goog-resumable', 'start']],
      hash: '877f8b40179d2753296f2fd6de815ab40503c7a3c446a7b44aa4e74422ff4daf',
    },
  ],
  [
    'another time',
    {
      day: '20190301',
      expires: '20',
      hash: '779f19fdb6fd381390e2d5af04947cf21750277ee3c20e0c97b7e46a1dff8907',
    },
  ],
  [
    'another bucket and object',
    {
      path: '/test-bucket2/test-object2',
      hash: 'a139afbf35ac30e9864f63197f79609731ab1b0ca166e2a456dba156fcd3f9ce',
    },
  ],
  [
    'several slashes',
    {
      path: '/test-bucket//path/with/slashes/under_score/amper%26sand/file.ext',
      hash: '63c601ecd6ccfec84f1113fc906609cbdf7651395f4300cecd96ddd2c35164f8',
    },
  ],
  [
    'headers with colons, in order',
    {
      headers: [
        ['bar', '2023-02-10T03:'],
        ['foo', '2023-02-10T02:00:00Z'],
      ],
      hash: 'a2a6df7e6bd818894e1f60ac3c393901b512ca1cf1061ba602dace3fb38c19a6',
    },
  ],
  [
    'a list',
    {
      path: '/test-bucket',
      hash: '51a7426c2a6c6ab80f336855fc629461ff182fb1d2cb552ac68e5ce8e25db487',
    },
  ],
  [
    'parameters that have to be escaped',
    {
      parameters: { 'aA0é/=%-_.~': '~ ._-%=/é0Aa' },
      hash: '448f96c23dafa8210900554e138b2b5fd55bc53ef53b8637cecc3edec45a8fcf',
    },
  ],
  [
    'parameters in order',
    {
      parameters: { prefix: '/foo', 'X-Goog-Meta-Foo': 'bar' },
      hash: '4dafe74ad142f32b7c25fc4e6b38fd3b8a6339d7f112247573fb0066f637db6c',
    },
  ],
  [
    'the date as a header',
    {
      headers: [['x-goog-date', '20190201T090000Z']],
      hash: '4052143280d90d5f4a8c878ff7418be6fee5d34e50b1da28d8081a094b88fa61',
    },
  ],
  [
    'a signed payload',
    {
      method: 'PUT',
      headers: [
        ['x-goog-content-sha256', HELLO],
        ['x-testcasemetadata-payload-value', 'hello'],
      ],
      payloadHash: HELLO,
      hash: 'be21a0841a897930ff5cf72e6e74ec5274efd76c3fe4cde6678f24a0a3d6dbec',
    },
  ],
  [
    'the bucket in the host',
    {
      path: '/test-object',
      host: 'test-bucket.storage.googleapis.com',
      hash: '89eeae48258eccdcb1f592fb908008e3f5d36a949c002c1e614c94356dc18fc6',
    },
  ],
];

/** What was to be signed for the vector. */
function requestOf(vector: Vector, at: string, scope: string): CanonicalRequest {
  const { method = 'GET', path = '/test-bucket/test-object', payloadHash } = vector;
  const { host = 'storage.googleapis.com', expires = '10', parameters = {} } = vector;
  const headers = [['host', host] as const, ...(vector.headers ?? [])];
  headers.sort(([left], [right]) => (left < right ? -1 : 1));
  const query = canonicalQuery({
    'X-Goog-Algorithm': ALGORITHM,
    'X-Goog-Credential': `${ACCOUNT}/${scope}`,
    'X-Goog-Date': at,
    'X-Goog-Expires': expires,
    'X-Goog-SignedHeaders': headers.map(([name]) => name).join(';'),
    ...parameters,
  });
  return { method, path, query, headers, payloadHash: payloadHash ?? UNSIGNED_PAYLOAD };
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

describe('published vectors: conformance tests of Google Cloud Storage', () => {
  it.each(VECTORS)('%s', (_, vector) => {
    const { day = '20190201', hash } = vector;
    const at = `${day}T090000Z`;
    const scope = `${day}/auto/storage/goog4_request`;
    const scheme = { ...GOOG4, algorithm: ALGORITHM };
    const signer = new Signer({ region: 'auto', service: 'storage', scheme });
    const credentials = { accessKeyId: ACCOUNT, secretAccessKey: SECRET };
    const signed = signer.authorization(requestOf(vector, at, scope), credentials, at);
    const key = ['auto', 'storage', 'goog4_request'].reduce(hmac, hmac(`GOOG4${SECRET}`, day));
    // Only the published string to sign gives this.
    const published = `${ALGORITHM}\n${at}\n${scope}\n${hash}`;
    expect(signed).toContain(`Signature=${hmac(key, published).toString('hex')}`);
  });
});

describe('vectors of another implementation: headers signed with HMAC keys', () => {
  const at = '20241121T023539Z';
  it.each([
    [UNSIGNED_PAYLOAD, '528346f587a0b46433f92d583f3148b88a5117bf26131f328553789feb433028'],
    [
      'b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c',
      'c5de427ece20baa9c60a3dca384aec3468a136e97a8adb2b75c7686dc9e4d589',
    ],
  ])('payload %s', (payloadHash, signature) => {
    const signer = new Signer({ region: 'auto', service: 'storage', scheme: GOOG4 });
    const headers = [
      ['host', 'example.com'],
      ['x-goog-content-sha256', payloadHash],
      ['x-goog-date', at],
    ] as const;
    const request = { method: 'GET', path: '/foo/bar', query: '', headers, payloadHash };
    const credentials = { accessKeyId: 'XXXXX', secretAccessKey: 'YYYYY' };
    expect(signer.authorization(request, credentials, at)).toBe(
      'GOOG4-HMAC-SHA256 Credential=XXXXX/20241121/auto/storage/goog4_request, ' +
        `SignedHeaders=host;x-goog-content-sha256;x-goog-date, Signature=${signature}`,
    );
  });
});

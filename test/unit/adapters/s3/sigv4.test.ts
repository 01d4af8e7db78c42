/** The signer against vectors that AWS has published, and against the signer of its SDK. */
import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { SignatureV4 } from '@smithy/signature-v4';
import { describe, expect, it } from 'vitest';
import {
  amzDate,
  canonicalQuery,
  EMPTY_PAYLOAD_HASH,
  sha256Hex,
  Signer,
  UNSIGNED_PAYLOAD,
} from '../../../../src/adapters/s3/sigv4.ts';

const EXAMPLE = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const SUITE = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
};

function signatureOf(authorization: string): string {
  return authorization.slice(authorization.indexOf('Signature=') + 'Signature='.length);
}

describe('published vectors: the test suite of the algorithm', () => {
  const at = '20150830T123600Z';
  const signer = new Signer({ region: 'us-east-1', service: 'service' });
  const plain = [
    ['host', 'example.amazonaws.com'],
    ['x-amz-date', at],
  ] as const;
  it.each([
    [
      'get-vanilla',
      'GET',
      '',
      plain,
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    ],
    [
      'get-vanilla-query-order-key-case',
      'GET',
      canonicalQuery({ Param2: 'value2', Param1: 'value1' }),
      plain,
      'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
    ],
    [
      'post-vanilla',
      'POST',
      '',
      plain,
      '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
    ],
  ])('%s', (_, method, query, headers, signature) => {
    const request = { method, path: '/', query, headers, payloadHash: EMPTY_PAYLOAD_HASH };
    expect(signer.authorization(request, SUITE, at)).toBe(
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ' +
        `SignedHeaders=host;x-amz-date, Signature=${signature}`,
    );
  });
});

describe('published vectors: the examples of S3', () => {
  const at = '20130524T000000Z';
  const signer = new Signer({ region: 'us-east-1', service: 's3' });
  const host = ['host', 'examplebucket.s3.amazonaws.com'] as const;
  const date = ['x-amz-date', at] as const;
  const empty = ['x-amz-content-sha256', EMPTY_PAYLOAD_HASH] as const;
  const welcome = sha256Hex('Welcome to Amazon S3.');

  it.each([
    [
      'of a range',
      {
        method: 'GET',
        path: '/test.txt',
        query: '',
        headers: [host, ['range', 'bytes=0-9'], empty, date] as const,
        payloadHash: EMPTY_PAYLOAD_HASH,
      },
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      'of a PUT',
      {
        method: 'PUT',
        path: '/test%24file.text',
        query: '',
        headers: [
          ['date', 'Fri, 24 May 2013 00:00:00 GMT'],
          host,
          ['x-amz-content-sha256', welcome],
          date,
          ['x-amz-storage-class', 'REDUCED_REDUNDANCY'],
        ] as const,
        payloadHash: welcome,
      },
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    ],
    [
      'of a parameter without a value',
      {
        method: 'GET',
        path: '/',
        query: canonicalQuery({ lifecycle: '' }),
        headers: [host, empty, date] as const,
        payloadHash: EMPTY_PAYLOAD_HASH,
      },
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      'of a list',
      {
        method: 'GET',
        path: '/',
        query: canonicalQuery({ 'max-keys': '2', prefix: 'J' }),
        headers: [host, empty, date] as const,
        payloadHash: EMPTY_PAYLOAD_HASH,
      },
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ])('%s', (_, request, signature) => {
    expect(signatureOf(signer.authorization(request, EXAMPLE, at))).toBe(signature);
  });
});

/** The hash that the SDK's signer is to use. */
class Sha256 {
  readonly #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', keyOf(secret));
  }
  update(data: string | Uint8Array): void {
    this.#hash.update(data);
  }
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }
  reset(): void {}
}

function keyOf(secret: string | ArrayBuffer | ArrayBufferView): string | Uint8Array {
  if (typeof secret === 'string') return secret;
  return ArrayBuffer.isView(secret) ? (secret as Uint8Array) : new Uint8Array(secret);
}

const keyText = fc.stringMatching(/^[a-z0-9._-]{1,20}(\/[a-z0-9._-]{1,20}){0,4}$/);

describe('the signer of the SDK', () => {
  it('signs the same', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          key: keyText,
          method: fc.constantFrom('GET', 'PUT', 'DELETE', 'POST'),
          region: fc.constantFrom('eu-west-1', 'us-east-1', 'auto'),
          range: fc.option(fc.nat(), { nil: undefined }),
          sessionToken: fc.option(fc.stringMatching(/^[A-Za-z0-9/+=]{1,40}$/), { nil: undefined }),
          query: fc.dictionary(
            fc.stringMatching(/^[a-z-]{1,8}$/),
            fc.string({ unit: 'grapheme', maxLength: 12 }),
            { maxKeys: 4 },
          ),
          body: fc.uint8Array({ maxLength: 200 }),
          unsigned: fc.boolean(),
          millis: fc.integer({ min: 946_684_800_000, max: 4_102_444_800_000 }),
        }),
        async ({ key, method, region, range, sessionToken, query, body, unsigned, millis }) => {
          const host = 'bucket.store.example:8443';
          const at = amzDate(millis);
          const payloadHash = unsigned ? UNSIGNED_PAYLOAD : sha256Hex(body);
          const given: Record<string, string> = { host, 'x-amz-content-sha256': payloadHash };
          if (range !== undefined) given['range'] = `bytes=0-${range}`;
          if (method === 'PUT') given['if-none-match'] = '*';
          const theirs = new SignatureV4({
            service: 's3',
            region,
            credentials: { ...EXAMPLE, ...(sessionToken === undefined ? {} : { sessionToken }) },
            sha256: Sha256,
            uriEscapePath: false,
          });
          const signed = await theirs.sign(
            {
              method,
              protocol: 'https:',
              hostname: 'bucket.store.example',
              port: 8443,
              path: `/${key}`,
              query,
              headers: given,
              body,
            },
            { signingDate: new Date(Math.floor(millis / 1_000) * 1_000) },
          );
          const headers: (readonly [string, string])[] = Object.entries(given);
          headers.push(['x-amz-date', at]);
          if (sessionToken !== undefined) headers.push(['x-amz-security-token', sessionToken]);
          headers.sort(([left], [right]) => (left < right ? -1 : 1));
          const ours = new Signer({ region, service: 's3' }).authorization(
            { method, path: `/${key}`, query: canonicalQuery(query), headers, payloadHash },
            EXAMPLE,
            at,
          );
          expect(ours).toBe(signed.headers['authorization']);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('keeps its key for the day and the secret only', () => {
    const signer = new Signer({ region: 'r', service: 's3' });
    const request = { method: 'GET', path: '/', query: '', headers: [], payloadHash: '' };
    const sign = (at: string, secretAccessKey: string): string =>
      signer.authorization(request, { accessKeyId: 'a', secretAccessKey }, at);
    const first = sign('20200101T000000Z', 'one');
    expect(sign('20200102T000000Z', 'one')).not.toBe(first);
    expect(sign('20200101T000000Z', 'two')).not.toBe(first);
    expect(sign('20200101T000000Z', 'one')).toBe(first);
  });
});

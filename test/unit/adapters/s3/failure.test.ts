import { expect, test } from 'vitest';
import { networkFailure, type FailureSite } from '../../../../src/adapters/s3/failure.ts';

const SITE: FailureSite = { bucket: 'b', endpoint: 'https://h', region: 'r', call: 'create' };
const failed = (code: string) =>
  networkFailure(Object.assign(new Error('of node'), { code }), SITE);

test.each([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'EPROTO',
])('a certificate that is wrong (%s) is refused', (code) => {
  expect(failed(code)).toMatchObject({
    kind: 'refused',
    cause: { code: 'BUCKET_REFUSED', details: { setting: 'endpoint or ca', systemCode: code } },
  });
});

test.each(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])(
  'what never reached the server (%s) did nothing',
  (code) => {
    expect(failed(code)).toMatchObject({
      kind: 'unknown',
      cause: { sideEffects: 'none', retryable: true, details: { setting: 'endpoint' } },
    });
  },
);

test.each([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])('what may have reached it (%s) may have been done', (code) => {
  expect(failed(code)).toMatchObject({
    kind: 'unknown',
    cause: { code: 'BUCKET_UNAVAILABLE', sideEffects: 'possible', retryable: true },
  });
});

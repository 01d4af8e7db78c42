import { expect, test } from 'vitest';
import { BrokenExchange, type ExchangeStage } from '../../../../src/adapters/s3/exchange.ts';
import { networkFailure, type FailureSite } from '../../../../src/adapters/s3/failure.ts';

const SITE: FailureSite = { bucket: 'b', endpoint: 'https://h', region: 'r', call: 'create' };
const failed = (code: string) =>
  networkFailure(Object.assign(new Error('of node'), { code }), SITE);
const broken = (stage: ExchangeStage, code: string) =>
  networkFailure(new BrokenExchange(stage, Object.assign(new Error('of node'), { code })), SITE);

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'caFile'],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'caFile'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'caFile'],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'caFile'],
  ['CERT_HAS_EXPIRED', 'endpoint'],
  ['CERT_NOT_YET_VALID', 'clock'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'endpoint'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'endpoint'],
  ['EPROTO', 'endpoint'],
])('a certificate that is wrong (%s) is refused, and names %s', (code, setting) => {
  expect(failed(code)).toMatchObject({
    kind: 'refused',
    cause: { code: 'BUCKET_REFUSED', details: { setting, systemCode: code } },
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

test('a broken TLS record is a refused certificate only before anything was sent', () => {
  for (const code of ['EPROTO', 'ERR_SSL_BAD_RECORD_TYPE']) {
    expect(broken('unsent', code)).toMatchObject({ kind: 'refused' });
    for (const stage of ['sent', 'answered'] as const) {
      const cause = { sideEffects: 'possible', retryable: true, details: { systemCode: code } };
      expect(broken(stage, code)).toMatchObject({ kind: 'unknown', cause });
    }
  }
});

test('a connection that breaks before anything was sent did nothing', () => {
  expect(broken('unsent', 'ECONNRESET')).toMatchObject({
    kind: 'unknown',
    cause: { sideEffects: 'none', retryable: true, details: { setting: 'endpoint' } },
  });
});

test('one that breaks without any answer names the endpoint, as what is there may be no server', () => {
  expect(broken('sent', 'UND_ERR_SOCKET').cause.details).toMatchObject({
    setting: 'endpoint',
    endpoint: SITE.endpoint,
  });
  expect(broken('answered', 'UND_ERR_SOCKET').cause.details['setting']).toBeUndefined();
});

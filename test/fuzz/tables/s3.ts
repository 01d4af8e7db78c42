/** Decoders of what servers of objects answer. */
import { Buffer } from 'node:buffer';
import type { Reply } from '../../../src/adapters/s3/exchange.ts';
import { checkHeaderText } from '../../../src/adapters/s3/credentials.ts';
import { replyFailure, s3CodeOf, type FailureSite } from '../../../src/adapters/s3/failure.ts';
import { pageIn } from '../../../src/adapters/s3/list-objects.ts';
import {
  judgeGcsLifecycle,
  judgeLifecycle,
  judgeVersioning,
} from '../../../src/adapters/s3/rule-judges.ts';
import { sessionIn } from '../../../src/adapters/s3/sessions.ts';
import { escapeXml, unescapeXml, xmlElements, xmlText } from '../../../src/adapters/s3/xml.ts';
import type { EngineError } from '../../../src/lib/errors.ts';
import type { BytesDecoder } from '../decoder.ts';

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
const SITE: FailureSite = { bucket: 'b', endpoint: 'http://h', region: 'r', call: 'create' };
const covered = { by: 'nothing: TLS, or the network; what is odd is no evidence of anything' };

function replyOf(status: number, body: Uint8Array): Reply {
  return { status, header: () => undefined, body, isCut: false };
}

/** Without the stack, and with everything that may be shown. */
function shown(outcome: { readonly kind: string; readonly cause?: EngineError } | undefined) {
  return outcome === undefined ? 'nothing' : [outcome.kind, outcome.cause?.toJSON()];
}

function decoder(
  name: string,
  file: string,
  decode: (bytes: Uint8Array) => unknown,
  seeds: readonly string[],
): BytesDecoder {
  return {
    kind: 'bytes',
    name,
    file: `src/adapters/s3/${file}.ts`,
    seeds: seeds.map((seed) => Buffer.from(seed)),
    decode,
    codes: [],
    covered,
  };
}

const ERROR =
  '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no &amp; no</Message><Region>eu-1</Region></Error>';
const ERRORS = [
  ERROR,
  '<Error><Code>RequestTimeTooSkewed</Code></Error>',
  '<Error><Code>PermanentRedirect</Code><Region>eu-1</Region></Error>',
  '<Error><Code>ExpiredToken</Code></Error>',
  '<html><body>Log in</body></html>',
];
const STATUSES = [301, 400, 403, 404, 408, 409, 412, 429, 500, 501, 503, 507];
const LIFECYCLE =
  '<LifecycleConfiguration><Rule><ID>r1</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule><Rule><Status>Enabled</Status><Transition><StorageClass>GLACIER</StorageClass></Transition></Rule></LifecycleConfiguration>';
const GCS_LIFECYCLE =
  '<LifecycleConfiguration><Rule><Action><Delete/></Action><Condition><Age>3</Age><MatchesPrefix>logs/</MatchesPrefix></Condition></Rule></LifecycleConfiguration>';
const VERSIONING =
  '<VersioningConfiguration xmlns="x"><Status>Enabled</Status></VersioningConfiguration>';
const LIST =
  '<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>a%2F1</Key></Contents><Contents><Key>a+2</Key></Contents></ListBucketResult>';
const SESSION =
  '<CreateSessionResult><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></CreateSessionResult>';

export const S3_DECODERS: readonly BytesDecoder[] = [
  decoder(
    'xmlElements',
    'xml',
    (bytes) => ['Rule', 'Contents', 'Key'].map((name) => xmlElements(textOf(bytes), name)),
    [LIFECYCLE, LIST],
  ),
  decoder('xmlText', 'xml', (bytes) => xmlText(textOf(bytes), 'Code'), ERRORS),
  {
    ...decoder('unescapeXml', 'xml', (bytes) => unescapeXml(textOf(bytes)), [
      'a&amp;b&#38;&#x26;&none;',
      '&#x110000;',
    ]),
    reencode: (text: string) => Buffer.from(escapeXml(text)),
  },
  decoder('s3CodeOf', 'failure', (bytes) => s3CodeOf(replyOf(400, bytes)), ERRORS),
  decoder(
    'replyFailure',
    'failure',
    (bytes) => shown(replyFailure(replyOf(STATUSES[bytes.length % STATUSES.length]!, bytes), SITE)),
    ERRORS,
  ),
  decoder(
    'judgeVersioning',
    'rule-judges',
    (bytes) => shown(judgeVersioning(replyOf(200, bytes), SITE)),
    [VERSIONING, '<VersioningConfiguration/>'],
  ),
  decoder(
    'judgeLifecycle',
    'rule-judges',
    (bytes) => shown(judgeLifecycle(replyOf(200, bytes), SITE, 'logs/')),
    [LIFECYCLE, '<LifecycleConfiguration/>'],
  ),
  decoder(
    'judgeGcsLifecycle',
    'rule-judges',
    (bytes) => shown(judgeGcsLifecycle(replyOf(200, bytes), SITE, 'logs/')),
    [GCS_LIFECYCLE, '<LifecycleConfiguration/>'],
  ),
  decoder('pageIn', 'list-objects', (bytes) => pageIn(textOf(bytes)), [LIST]),
  decoder('sessionIn', 'sessions', (bytes) => sessionIn(textOf(bytes)), [SESSION]),
  {
    ...decoder(
      'checkHeaderText',
      'credentials',
      (bytes) => {
        const sessionToken = textOf(bytes);
        return checkHeaderText({ accessKeyId: 'a', secretAccessKey: 's', sessionToken });
      },
      ['IQoJb3JpZ2luX2VjEBIaCXVzLWVhc3QtMSJHMEU='],
    ),
    codes: ['BUCKET_REFUSED'],
  },
];

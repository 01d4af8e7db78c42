/** What the calls of one bucket share, made from its options. */
import { bucketAddress, expressControlEndpoint } from './address.ts';
import { Connections } from './connections.ts';
import type { BucketContext } from './context.ts';
import { CredentialCache } from './credentials.ts';
import { DIALECTS, EXPRESS_CONTROL } from './dialects.ts';
import { Hedges } from './hedges.ts';
import type { S3BucketOptions } from './options.ts';
import { SESSION_REFRESH_BEFORE_MILLIS, sessionSource } from './sessions.ts';
import { sha256Hex, Signer } from './sigv4.ts';
import { Window } from './window.ts';

const CONCURRENT_DEFAULT = 64;
const TIMEOUT_MILLIS_DEFAULT = 30_000;
const CONNECT_TIMEOUT_MILLIS_DEFAULT = 5_000;
/** Connections for second requests, besides those of the first ones. */
const CONCURRENT_HEDGES = 8;

/** For the one request about the bucket itself. */
const CONTROL_CONNECTIONS = 2;

export interface OpenBucket {
  readonly context: BucketContext;
  /** Through which the rules of the bucket are asked for. */
  readonly rules: BucketContext;
  readonly timeoutMillis: number;
  close(): Promise<void>;
}

/** Nothing is asked of the server yet. */
export function openBucket(options: S3BucketOptions): OpenBucket {
  const { name, region, prefix = '', timeoutMillis = TIMEOUT_MILLIS_DEFAULT } = options;
  const { concurrentCreates = CONCURRENT_DEFAULT, concurrentReads = CONCURRENT_DEFAULT } = options;
  const dialect = DIALECTS[options.dialect ?? 's3'];
  const address = bucketAddress(options);
  const connectionsTo = (to: BucketContext['address'], connections: number): Connections =>
    new Connections({
      address: to,
      connections,
      connectTimeoutMillis: options.connectTimeoutMillis ?? CONNECT_TIMEOUT_MILLIS_DEFAULT,
      answerTimeoutMillis: timeoutMillis,
      ca: options.ca,
    });
  const { service, scheme } = dialect;
  const plain: BucketContext = {
    name,
    region,
    dialect,
    address,
    prefix,
    connections: connectionsTo(address, concurrentCreates + concurrentReads + CONCURRENT_HEDGES),
    credentials: new CredentialCache(options.credentials),
    signer: new Signer({ region, service, scheme }),
    signsPayload: options.signsPayload ?? !address.isSecure,
    sha256: options.sha256 ?? sha256Hex,
    windows: { creates: new Window(concurrentCreates), others: new Window(concurrentReads) },
    hedges: new Hedges({
      percent: options.hedgePercent ?? dialect.hedgePercent,
      concurrent: CONCURRENT_HEDGES,
      counts: options.metrics && {
        sent: options.metrics.counter('bucket.hedges'),
        decided: options.metrics.counter('bucket.hedgesDecided'),
      },
    }),
  };
  const { context, rules } = dialect.hasSessions
    ? expressContexts(plain, options, connectionsTo)
    : { context: plain, rules: plain };
  return {
    context,
    rules,
    timeoutMillis,
    close: async () => {
      const all = new Set([context.connections, rules.connections]);
      await Promise.all([...all].map((connections) => connections.close()));
    },
  };
}

/** Objects by credentials of a session; sessions by those of the user, and rules too, elsewhere. */
function expressContexts(
  plain: BucketContext,
  { endpoint, bucket, readOnly = false }: S3BucketOptions,
  connectionsTo: (to: BucketContext['address'], connections: number) => Connections,
): Pick<OpenBucket, 'context' | 'rules'> {
  const asking: BucketContext = {
    ...plain,
    dialect: EXPRESS_CONTROL,
    signer: new Signer({ region: plain.region, service: EXPRESS_CONTROL.service }),
  };
  const source = sessionSource(asking, readOnly ? 'ReadOnly' : 'ReadWrite');
  const credentials = new CredentialCache(source, Date.now, SESSION_REFRESH_BEFORE_MILLIS);
  const control = bucketAddress({
    endpoint: expressControlEndpoint(endpoint),
    bucket,
    addressing: 'path',
  });
  return {
    context: { ...plain, credentials },
    rules: {
      ...asking,
      address: control,
      connections: connectionsTo(control, CONTROL_CONNECTIONS),
    },
  };
}

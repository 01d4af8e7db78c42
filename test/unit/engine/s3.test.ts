/** A whole engine over three buckets on strict S3 servers, one server a bucket. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  createEngine,
  EngineError,
  openReader,
  s3Components,
  type S3Components,
} from '../../../src/index.ts';
import { spawnTypeScript } from '../../support/child-process.ts';
import { S3Server, TEST_REGION } from '../../support/s3/server.ts';

let root: string;
let servers: S3Server[];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'asterlog-s3-'));
  servers = await Promise.all([0, 1, 2].map(() => S3Server.start()));
  const [{ credentials }] = servers as [S3Server];
  vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
  vi.stubEnv('AWS_SESSION_TOKEN', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(servers.map((server) => server.close()));
  await rm(root, { recursive: true, force: true });
});

function components(): S3Components {
  return s3Components({
    region: TEST_REGION,
    buckets: servers.map(({ endpoint }, index) => ({
      name: `zone-${index}`,
      bucket: 'bucket',
      prefix: 'db/',
      endpoint,
    })),
    metastore: { root },
  });
}

async function errorOf(run: () => unknown): Promise<EngineError> {
  const error: unknown = await Promise.resolve()
    .then(run)
    .then(() => undefined)
    .catch((e: unknown) => e);
  if (!EngineError.is(error)) throw new Error('no coded error', { cause: error });
  return error;
}

describe('an engine on S3', () => {
  it('appends, and reads back after its process was killed, with a bucket down', async () => {
    const child = spawnTypeScript(new URL('s3-writer.process.ts', import.meta.url), [
      JSON.stringify(components()),
    ]);
    const printed = (): number => child.output().split('\n').length - 1;
    await expect
      .poll(() => `${printed() >= 30 ? 'enough' : ''}${child.errors()}`, { timeout: 25_000 })
      .toBe('enough');
    child.process.kill('SIGKILL');
    await child.ended;
    const acknowledged = printed();
    // Two of three are a quorum, whichever they are.
    servers[1]!.faults.add({ fault: { kind: 'drop' } });
    await using engine = await createEngine({
      components: components(),
      settings: { copyQuorum: 2 },
    });
    const stream = await engine.open('orders', { timeoutMillis: 20_000 });
    const bodies: string[] = [];
    for await (const { body } of stream.read()) bodies.push(Buffer.from(body).toString());
    expect(bodies.length).toBeGreaterThanOrEqual(acknowledged);
    expect(bodies).toEqual(bodies.map((_, index) => `record ${index}`));
    const { start } = await stream.append([{ body: 'afterwards' }]);
    expect(start.seqNum).toBe(bodies.length);
    const { secretAccessKey } = servers[0]!.credentials;
    expect(inspect(await engine.status(), { depth: 20 })).not.toContain(secretAccessKey);
    // Its copies are made up for once it is back.
    servers[1]!.faults.clear();
    await engine.close();
    for (const server of servers) {
      expect([...server.bucket().objects.keys()].every((key) => key.startsWith('db/'))).toBe(true);
    }
  });

  it('goes on when permissions are given back, while a reader is told at once', async () => {
    await using engine = await createEngine({ components: components() });
    const stream = await engine.open('orders');
    await stream.append([{ body: 'before' }]);
    for (const { denied } of servers)
      for (const name of ['Get', 'Put']) denied.add(`s3:${name}Object`);
    const refusals = (): number =>
      Math.min(...servers.map(({ log }) => log.filter(({ status }) => status === 403).length));
    const waiting = stream.append([{ body: 'meanwhile' }], { timeoutMillis: 60_000 });
    await expect.poll(refusals).toBeGreaterThan(3);
    await using reader = await openReader({ components: components() });
    const read = async (): Promise<void> => {
      for await (const record of reader.read('orders')) expect(record).toBeUndefined();
    };
    expect(await errorOf(read)).toMatchObject({
      code: 'BUCKET_REFUSED',
      details: { setting: 'permission', permission: 's3:GetObject' },
    });
    for (const { denied } of servers) denied.clear();
    expect((await waiting).start.seqNum).toBe(1);
    const bodies: string[] = [];
    for await (const { body } of stream.read()) bodies.push(Buffer.from(body).toString());
    expect(bodies).toEqual(['before', 'meanwhile']);
    expect((await engine.status()).epoch).toBe(0);
  });

  it('is looked at without a request that changes anything', async () => {
    {
      await using engine = await createEngine({ components: components() });
      const stream = await engine.open('orders');
      await stream.append([{ body: 'one' }]);
      const { counters } = engine.metrics();
      expect(counters).toMatchObject({ 'bucket.hedges': 0, 'bucket.hedgesDecided': 0 });
    }
    for (const server of servers) server.log.length = 0;
    await using reader = await openReader({ components: components() });
    const bodies: string[] = [];
    for await (const { body } of reader.read('orders')) bodies.push(Buffer.from(body).toString());
    expect(bodies).toEqual(['one']);
    for (const server of servers) {
      expect(server.log.every(({ method }) => method === 'GET')).toBe(true);
    }
  });

  it.each<[string, (server: S3Server) => void, object]>([
    [
      'keeps versions',
      (server) => (server.bucket().versioning = 'Enabled'),
      { setting: 'versioning' },
    ],
    ['ignores the condition', (server) => (server.bucket().creation = 'ignores'), {}],
    [
      'knows another secret',
      (server) => (server.credentials = { ...server.credentials, secretAccessKey: 'x' }),
      { setting: 'secretAccessKey' },
    ],
    [
      'is of another region',
      (server) => (server.region = 'elsewhere-1'),
      { setting: 'region', expected: 'elsewhere-1' },
    ],
  ])('does not open where a bucket %s', async (_, spoil, details) => {
    spoil(servers[2]!);
    const error = await errorOf(() => createEngine({ components: components() }));
    expect(error).toMatchObject({ code: 'BUCKET_REFUSED', details });
  });

  it('does not open without credentials', async () => {
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', '');
    const error = await errorOf(() => createEngine({ components: components() }));
    expect(error).toMatchObject({
      code: 'BUCKET_REFUSED',
      details: { setting: 'credentials', variable: 'AWS_SECRET_ACCESS_KEY' },
    });
  });
});

describe('the descriptor', () => {
  const metastore = { root: './data' };
  it('has the defaults of AWS, and names credentials without holding any', () => {
    const { buckets } = s3Components({
      region: 'eu-west-1',
      buckets: [{ bucket: 'logs-a' }, { bucket: 'logs-b', endpoint: 'http://localhost:9000' }],
      metastore,
    });
    const credentials = {
      from: 'environment',
      accessKeyId: 'AWS_ACCESS_KEY_ID',
      secretAccessKey: 'AWS_SECRET_ACCESS_KEY',
      sessionToken: 'AWS_SESSION_TOKEN',
    };
    const common = { prefix: '', region: 'eu-west-1', credentials };
    expect(buckets).toEqual([
      {
        ...common,
        name: 's3://logs-a/',
        bucket: 'logs-a',
        endpoint: 'https://s3.eu-west-1.amazonaws.com',
        addressing: 'virtual',
      },
      {
        ...common,
        name: 's3://logs-b/',
        bucket: 'logs-b',
        endpoint: 'http://localhost:9000',
        addressing: 'path',
      },
    ]);
  });

  it('takes what buckets have in common, and what one of them has otherwise', () => {
    const { buckets } = s3Components({
      buckets: [{ bucket: 'logs-a' }, { bucket: 'logs-b', hedgePercent: 0 }],
      hedgePercent: 2,
      metastore,
    });
    expect(buckets.map(({ hedgePercent }) => hedgePercent)).toEqual([2, 0]);
  });

  it('knows where buckets of other services are', () => {
    const placeOf = (bucket: object): object => {
      const { buckets } = s3Components({ buckets: [bucket as never], metastore });
      const [{ region, endpoint, addressing, dialect }] = buckets as [S3Components['buckets'][0]];
      return { region, endpoint, addressing, dialect };
    };
    expect(placeOf({ bucket: 'logs--use1-az4--x-s3', dialect: 's3-express' })).toEqual({
      region: 'us-east-1',
      endpoint: 'https://s3express-use1-az4.us-east-1.amazonaws.com',
      addressing: 'virtual',
      dialect: 's3-express',
    });
    expect(placeOf({ bucket: 'logs', dialect: 'gcs' })).toEqual({
      region: 'auto',
      endpoint: 'https://storage.googleapis.com',
      addressing: 'path',
      dialect: 'gcs',
    });
    const endpoint = 'https://account.r2.cloudflarestorage.com';
    expect(placeOf({ bucket: 'logs', dialect: 'r2', endpoint })).toEqual({
      region: 'auto',
      endpoint,
      addressing: 'path',
      dialect: 'r2',
    });
  });

  const one = { bucket: 'logs' };
  it.each<[string, object, string]>([
    ['no bucket', { buckets: [] }, 'components.buckets'],
    ['a bucket name', { buckets: [{ bucket: 'No' }] }, 'components.buckets.0.bucket'],
    ['a prefix', { buckets: [{ ...one, prefix: 'a' }] }, 'components.buckets.0.prefix'],
    ['an endpoint with a path', { buckets: [one], endpoint: 'http://h/x' }, 'components.endpoint'],
    [
      'an endpoint with a user',
      { buckets: [one], endpoint: 'http://u:p@h' },
      'components.endpoint',
    ],
    [
      'an endpoint of another scheme',
      { buckets: [one], endpoint: 'ftp://h' },
      'components.endpoint',
    ],
    ['a share that is none', { buckets: [one], hedgePercent: 101 }, 'components.hedgePercent'],
    [
      'a directory bucket without a zone',
      { buckets: [{ ...one, dialect: 's3-express' }] },
      'components.buckets.bucket',
    ],
    ['R2 without an endpoint', { buckets: [one], dialect: 'r2' }, 'components.buckets.endpoint'],
    ['a dialect', { buckets: [one], dialect: 'swift' }, 'components.dialect'],
    ['a secret', { buckets: [one], secretAccessKey: 'x' }, 'components.secretAccessKey'],
    ['one place twice', { buckets: [one, { ...one, name: 'other' }] }, 'components.buckets.bucket'],
    [
      'one name twice',
      { buckets: [one, { bucket: 'logs-b', name: 's3://logs/' }] },
      'components.buckets.name',
    ],
  ])('refuses %s', async (_, options, option) => {
    const error = await errorOf(() => s3Components({ metastore, ...options } as never));
    expect(error).toMatchObject({ code: 'INVALID_OPTION', details: { option } });
  });

  it('refuses certificates that are not there', async () => {
    const caFile = join(root, 'none.pem');
    const error = await errorOf(() =>
      createEngine({ components: s3Components({ buckets: [one], metastore: { root }, caFile }) }),
    );
    expect(error.details).toMatchObject({ option: 'components.buckets.caFile', value: caFile });
  });
});

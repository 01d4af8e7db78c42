/** Buckets that are made and checked, on strict S3 servers and in directories. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { adviceFor } from '../../../src/cli/buckets/advice.ts';
import type { BucketCheck } from '../../../src/engine/bucket-report.ts';
import { checkBuckets, initBuckets } from '../../../src/engine/buckets.ts';
import {
  createEngine,
  directoryComponents,
  s3Components,
  type S3Components,
} from '../../../src/index.ts';
import { S3Server, TEST_REGION } from '../../support/s3/server.ts';

let root: string;
let server: S3Server;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'asterlog-buckets-'));
  server = await S3Server.start({ buckets: ['bucket-a'] });
  const { accessKeyId, secretAccessKey } = server.credentials;
  vi.stubEnv('AWS_ACCESS_KEY_ID', accessKeyId);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', secretAccessKey);
  vi.stubEnv('AWS_SESSION_TOKEN', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
  await rm(root, { recursive: true, force: true });
});

function components(names = ['bucket-a'], more: object = {}): S3Components {
  return s3Components({
    region: TEST_REGION,
    endpoint: server.endpoint,
    buckets: names.map((bucket) => ({ bucket, prefix: 'db/' })),
    metastore: { root },
    ...more,
  });
}

async function checksOf(where = components()): Promise<Record<string, BucketCheck>> {
  const [report] = await checkBuckets(where);
  const { secretAccessKey } = server.credentials;
  expect(inspect(report, { depth: 20, showHidden: true })).not.toContain(secretAccessKey);
  return Object.fromEntries(report!.checks.map((check) => [check.check, check]));
}

const verdictsOf = (checks: Record<string, BucketCheck>): Record<string, string> =>
  Object.fromEntries(Object.entries(checks).map(([name, { verdict }]) => [name, verdict]));

const ALL_OK = {
  reach: 'ok',
  region: 'ok',
  clock: 'ok',
  versioning: 'ok',
  lifecycle: 'ok',
  create: 'ok',
  read: 'ok',
  delete: 'ok',
  condition: 'ok',
  identity: 'ok',
};

describe('a check of a bucket on S3', () => {
  it('finds a good one in order, and leaves nothing there', async () => {
    const checks = await checksOf();
    expect(verdictsOf(checks)).toEqual(ALL_OK);
    expect(checks['region']!.found).toBe(TEST_REGION);
    expect(server.bucket('bucket-a').objects.size).toBe(0);
  });

  it('knows the identity of a set, its loss, and one of another metastore', async () => {
    const engine = await createEngine({ components: components() });
    await engine.close();
    expect((await checksOf())['identity']).toMatchObject({
      verdict: 'ok',
      found: 'member of 1 set',
    });
    const elsewhere = { metastore: { root: join(root, 'other') } };
    expect((await checksOf(components(['bucket-a'], elsewhere)))['identity']).toMatchObject({
      verdict: 'warning',
      error: { code: 'BUCKET_IDENTITY', details: { setting: 'metastore' } },
    });
    server.bucket('bucket-a').objects.clear();
    const lost = await checksOf();
    expect(lost['identity']).toMatchObject({
      verdict: 'refused',
      error: { code: 'BUCKET_IDENTITY' },
    });
    expect(verdictsOf(lost)).toEqual({ ...ALL_OK, identity: 'refused' });
  });

  const expiring =
    '<Rule><ID>r1</ID><Filter><Prefix>db/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule>';
  const harmless =
    '<Rule><ID>r2</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>';

  it.each<[string, (server: S3Server) => void, string, object]>([
    [
      'versions that are suspended',
      (s) => (s.bucket('bucket-a').versioning = 'Suspended'),
      'versioning',
      { details: { setting: 'versioning', value: 'Suspended' } },
    ],
    [
      'a rule that removes objects',
      (s) => (s.bucket('bucket-a').lifecycle = harmless + expiring),
      'lifecycle',
      { details: { setting: 'lifecycle', value: 'r1' } },
    ],
    [
      'no permission to write',
      (s) => s.denied.add('s3:PutObject'),
      'create',
      { details: { setting: 'permission', permission: 's3:PutObject' } },
    ],
    [
      'no permission to read',
      (s) => s.denied.add('s3:GetObject'),
      'read',
      { details: { permission: 's3:GetObject', alsoNeeded: 's3:ListBucket' } },
    ],
    [
      'no permission to delete',
      (s) => s.denied.add('s3:DeleteObjects'),
      'delete',
      { details: { setting: 'permission', permission: 's3:DeleteObject' } },
    ],
    [
      'no permission to see versions',
      (s) => s.denied.add('s3:GetBucketVersioning'),
      'versioning',
      { details: { setting: 'permission', permission: 's3:GetBucketVersioning' } },
    ],
    [
      'no permission to see rules',
      (s) => s.denied.add('s3:GetLifecycleConfiguration'),
      'lifecycle',
      { details: { setting: 'permission', permission: 's3:GetLifecycleConfiguration' } },
    ],
  ])('finds %s, and that alone', async (_, spoil, name, error) => {
    spoil(server);
    const checks = await checksOf();
    // Races are not run where they would fail for what is told already.
    expect(verdictsOf(checks)).toEqual({ ...ALL_OK, [name]: 'refused', condition: 'skipped' });
    expect(checks[name]!.error).toMatchObject({ code: 'BUCKET_REFUSED', ...error });
  });

  it.each([
    ['ignores', 'ignores the condition'],
    ['races', 'several racing creations'],
  ] as const)('finds a server that %s', async (creation, reason) => {
    server.bucket('bucket-a').creation = creation;
    const checks = await checksOf();
    expect(verdictsOf(checks)).toEqual({ ...ALL_OK, condition: 'refused' });
    expect(checks['condition']!.found).toContain(reason);
    expect(server.bucket('bucket-a').objects.size).toBe(0);
  });

  it('takes rules that remove nothing, and a server that knows neither versions nor rules', async () => {
    server.bucket('bucket-a').lifecycle = harmless;
    const some = await checksOf();
    expect(verdictsOf(some)).toEqual(ALL_OK);
    expect(some['lifecycle']!.found).toBe('1 rules, none removes objects here');
    server.faults.add({
      when: ({ query }) => query.has('versioning') || query.has('lifecycle'),
      fault: { kind: 'answer', status: 501, code: 'NotImplemented' },
    });
    expect(verdictsOf(await checksOf())).toEqual(ALL_OK);
  });

  const rest = ['versioning', 'lifecycle', 'create', 'read', 'delete', 'condition', 'identity'];
  const skippedRest = Object.fromEntries(rest.map((name) => [name, 'skipped']));

  it.each<[string, (server: S3Server) => object, object, object]>([
    [
      'another region',
      () => ({ region: 'eu-west-9' }),
      { verdict: 'refused', error: { details: { setting: 'region', expected: TEST_REGION } } },
      {},
    ],
    [
      'another secret',
      (s) => {
        s.credentials = { ...s.credentials, secretAccessKey: 'another-secret' };
        return {};
      },
      { verdict: 'refused', error: { details: { setting: 'secretAccessKey' } } },
      {},
    ],
    [
      'a clock that is off',
      (s) => {
        s.clockOffMillis = 3_600_000;
        return {};
      },
      { verdict: 'refused', error: { details: { setting: 'clock' } } },
      { verdict: 'refused', found: expect.stringMatching(/^3[56]\d\d s behind$/) },
    ],
    [
      'no credentials',
      () => ({
        credentials: {
          from: 'environment',
          accessKeyId: 'NOT_SET_HERE',
        },
      }),
      {
        verdict: 'refused',
        error: { details: { setting: 'credentials', variable: 'NOT_SET_HERE' } },
      },
      { verdict: 'skipped' },
    ],
    [
      'nobody at the endpoint',
      () => ({ endpoint: 'http://127.0.0.1:1' }),
      { verdict: 'unknown', error: { code: 'BUCKET_UNAVAILABLE' } },
      { verdict: 'skipped' },
    ],
  ])('tells %s once', async (_, spoil, reach, clock) => {
    const checks = await checksOf(components(['bucket-a'], spoil(server)));
    expect(checks['reach']).toMatchObject(reach);
    expect(checks['clock']).toMatchObject(clock);
    expect(verdictsOf(checks)).toMatchObject(skippedRest);
  });

  it('says of a missing bucket that it is missing', async () => {
    expect(await checksOf(components(['bucket-x']))).toMatchObject({
      reach: { verdict: 'refused', error: { details: { setting: 'bucket' } } },
    });
  });

  it('does not take a bucket that cannot be listed for one without an identity', async () => {
    server.faults.add({
      when: ({ query }) => query.get('prefix')?.startsWith('db/identity/') === true,
      fault: { kind: 'answer', status: 500, code: 'InternalError' },
    });
    expect(verdictsOf(await checksOf())).toEqual({ ...ALL_OK, identity: 'unknown' });
  });

  it('ends when its time is over', async () => {
    server.faults.add({ fault: { kind: 'stall' } });
    const [report] = await checkBuckets(components(), { timeoutMillis: 300 });
    expect(report!.checks[0]).toMatchObject({ check: 'reach', verdict: 'unknown' });
  });
});

describe('a check of buckets of other dialects', () => {
  it.each(['gcs', 's3-express'] as const)('tries what it can of %s', async (dialect) => {
    const bucket = 'one--usw2-az1--x-s3';
    const other = await S3Server.start({ buckets: [bucket], dialect });
    try {
      const { endpoint } = other;
      const more = { endpoint, dialect, addressing: 'path' };
      const where = components([bucket], more);
      const untold = { region: 'skipped', clock: 'skipped' };
      const unasked = { versioning: 'skipped', lifecycle: 'skipped' };
      expect(verdictsOf(await checksOf(where))).toEqual({ ...ALL_OK, ...untold, ...unasked });
      other.bucket(bucket).creation = 'ignores';
      expect(verdictsOf(await checksOf(where))).toMatchObject({ condition: 'refused' });
      const [made] = await initBuckets(components(['two--usw2-az1--x-s3'], more));
      expect(made).toMatchObject({ outcome: 'failed', error: { code: 'BUCKET_REFUSED' } });
    } finally {
      await other.close();
    }
  });
});

describe('making buckets on S3', () => {
  it('creates what is missing, without versions, and says so only when asked to look', async () => {
    const where = components(['bucket-a', 'bucket-b', 'bucket-c']);
    const outcomes = async (dryRun: boolean) =>
      (await initBuckets(where, { dryRun })).map(({ outcome }) => outcome);
    expect(await outcomes(true)).toEqual(['exists', 'missing', 'missing']);
    expect([...server.buckets.keys()]).toEqual(['bucket-a']);
    expect(await outcomes(false)).toEqual(['exists', 'created', 'created']);
    expect(await outcomes(false)).toEqual(['exists', 'exists', 'exists']);
    expect([...server.buckets.keys()]).toEqual(['bucket-a', 'bucket-b', 'bucket-c']);
    for (const [, bucket] of server.buckets) expect(bucket.objects.size).toBe(0);
    const created = server.log.filter(({ method, key }) => method === 'PUT' && key === '');
    expect(created).toHaveLength(2);
    // A server that is not AWS has no place of that name.
    expect(created.every(({ headers }) => (headers['content-length'] ?? '0') === '0')).toBe(true);
    const reports = await checkBuckets(where);
    for (const { checks } of reports) {
      expect(verdictsOf(Object.fromEntries(checks.map((row) => [row.check, row])))).toEqual(ALL_OK);
    }
  });

  it.each<[string, (server: S3Server) => void, object]>([
    [
      'without the permission',
      (s) => s.denied.add('s3:CreateBucket'),
      { setting: 'permission', permission: 's3:CreateBucket' },
    ],
    [
      'under a name of somebody else',
      (s) =>
        s.faults.add({
          when: ({ method }) => method === 'PUT',
          fault: { kind: 'answer', status: 409, code: 'BucketAlreadyExists' },
        }),
      { setting: 'bucket', s3Code: 'BucketAlreadyExists' },
    ],
  ])('fails %s, with the reason', async (_, spoil, details) => {
    spoil(server);
    const [made] = await initBuckets(components(['bucket-x']));
    expect(made).toMatchObject({ outcome: 'failed', error: { code: 'BUCKET_REFUSED', details } });
  });
});

describe('a bucket of a set that is gone for ever', () => {
  const NAMES = ['bucket-a', 'bucket-b', 'bucket-c'];

  it('is not made anew, and one under another name takes its place', async () => {
    await initBuckets(components(NAMES));
    const before = await createEngine({ components: components(NAMES) });
    const stream = await before.open('s');
    await (await stream.submit([{ body: 'one' }])).ack();
    await before.close();
    server.buckets.delete('bucket-c');
    const gone = {
      error: { code: 'BUCKET_REFUSED', details: { setting: 'bucket', memberOf: 1 } },
    };
    const [, , report] = await checkBuckets(components(NAMES));
    expect(report!.checks[0]).toMatchObject(gone);
    expect(adviceFor(report!.checks[0]!.error!)).toContain('under another name');
    const made = await initBuckets(components(NAMES));
    expect(made.map(({ outcome }) => outcome)).toEqual(['exists', 'exists', 'failed']);
    expect(made[2]).toMatchObject(gone);
    expect(server.buckets.has('bucket-c')).toBe(false);

    const others = components(['bucket-a', 'bucket-b', 'bucket-d']);
    expect((await initBuckets(others)).at(-1)).toMatchObject({ outcome: 'created' });
    await using engine = await createEngine({ components: others });
    const again = await engine.open('s');
    await (await again.submit([{ body: 'two' }])).ack();
    const bodies: string[] = [];
    for await (const { body } of again.read({ from: 0 })) bodies.push(Buffer.from(body).toString());
    expect(bodies).toEqual(['one', 'two']);
  });

  it('is not made anew in directories either', async () => {
    const where = directoryComponents({ root: join(root, 'data'), buckets: 2 });
    await (await createEngine({ components: where })).close();
    await rm(where.buckets[1]!.path, { recursive: true });
    const gone = { details: { setting: 'bucket', memberOf: 1 } };
    expect((await initBuckets(where))[1]).toMatchObject({ outcome: 'failed', error: gone });
    expect((await checkBuckets(where))[1]!.checks[0]).toMatchObject({ error: gone });
  });
});

describe('making buckets on a server that is silent', () => {
  it('ends with the deadline, not as if somebody had given it up', async () => {
    server.faults.add({ fault: { kind: 'stall' } });
    const [made] = await initBuckets(components(), { timeoutMillis: 300 });
    expect(made).toMatchObject({ outcome: 'failed', error: { code: 'DEADLINE_EXCEEDED' } });
  });
});

describe('buckets in directories', () => {
  it('are made and checked as well', async () => {
    const where = directoryComponents({ root: join(root, 'data'), buckets: 2 });
    const missing = await checkBuckets(where);
    expect(missing[0]!.checks[0]).toMatchObject({ check: 'reach', verdict: 'refused' });
    expect((await initBuckets(where, { dryRun: true })).map(({ outcome }) => outcome)).toEqual([
      'missing',
      'missing',
    ]);
    expect((await initBuckets(where)).map(({ outcome }) => outcome)).toEqual([
      'created',
      'created',
    ]);
    const engine = await createEngine({ components: where });
    await engine.close();
    for (const { checks } of await checkBuckets(where)) {
      expect(checks.map(({ verdict }) => verdict)).toEqual(checks.map(() => 'ok'));
      expect(checks.at(-1)).toMatchObject({ check: 'identity', found: 'member of 1 set' });
    }
  });
});

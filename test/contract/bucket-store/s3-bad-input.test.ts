/** Settings that are wrong: one coded error, in time, that says which. */
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { S3BucketOptions } from '../../../src/adapters/s3/bucket-store.ts';
import { probeBucket, type ProbedStore } from '../../../src/adapters/s3/probe.ts';
import type { EngineError } from '../../../src/lib/errors.ts';
import { S3Server } from '../../support/s3/server.ts';
import { pattern } from './contract.ts';
import { s3Fixture, type S3Fixture } from './s3-fixture.ts';

const OTHER_SECRET = 'another-secret-of-the-test';
const OTHER_TOKEN = 'another-token-of-the-test';
const DEADLINE_MILLIS = 10_000;
const pem = (name: string): string =>
  readFileSync(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');

let fixture: S3Fixture;
let server: S3Server;

beforeEach(async () => {
  fixture = await s3Fixture({ timeoutMillis: DEADLINE_MILLIS, connectTimeoutMillis: 1_000 });
  server = fixture.server;
});
afterEach(() => fixture.dispose());

async function outcomesOf(
  options: Partial<S3BucketOptions>,
): Promise<readonly { readonly kind: string }[]> {
  const store = await fixture.open(options);
  const begunAt = performance.now();
  const outcomes = await Promise.all([store.createOnly('a/1', pattern(1, 10)), store.probe()]);
  expect(performance.now() - begunAt).toBeLessThan(2 * DEADLINE_MILLIS);
  return outcomes;
}

const credentials = (accessKeyId: string, secretAccessKey: string) => async () => ({
  accessKeyId,
  secretAccessKey,
});
const SETTINGS: readonly [string, (server: S3Server) => Partial<S3BucketOptions>, object][] = [
  [
    'access key',
    () => ({ credentials: credentials('AKOTHER', OTHER_SECRET) }),
    { setting: 'accessKeyId' },
  ],
  [
    'secret',
    () => ({ credentials: credentials('AKTEST', OTHER_SECRET) }),
    { setting: 'secretAccessKey' },
  ],
  [
    'session token',
    ({ credentials }) => ({
      credentials: async () => ({ ...credentials, sessionToken: OTHER_TOKEN }),
    }),
    { setting: 'sessionToken' },
  ],
  [
    'access key with a line break',
    () => ({ credentials: credentials('AKTEST\n', OTHER_SECRET) }),
    { setting: 'accessKeyId' },
  ],
  [
    'session token with other letters',
    ({ credentials }) => ({
      credentials: async () => ({ ...credentials, sessionToken: `${OTHER_TOKEN}\u2713` }),
    }),
    { setting: 'sessionToken' },
  ],
  [
    'source of credentials',
    () => ({ credentials: () => Promise.reject(new Error(OTHER_SECRET)) }),
    { setting: 'credentials' },
  ],
  ['bucket', () => ({ bucket: 'nowhere' }), { setting: 'bucket', s3Code: 'NoSuchBucket' }],
  [
    'region',
    () => ({ region: 'eu-west-9' }),
    { setting: 'region', region: 'eu-west-9', expected: 'test-region-1' },
  ],
];

const leftOpen = (endpoint: string): object => ({
  kind: 'unknown',
  cause: {
    code: 'BUCKET_UNAVAILABLE',
    details: { bucket: 'bucket', setting: 'endpoint', endpoint },
  },
});

describe('a wrong setting', () => {
  it.each(SETTINGS)('%s is refused', async (_, options, details) => {
    await expectRefused(await outcomesOf(options(server)), details);
  });

  it.each(SETTINGS)('%s is refused over TLS', async (_, options, details) => {
    await fixture.dispose();
    const tls = { key: pem('key'), cert: pem('cert') };
    fixture = await s3Fixture({ timeoutMillis: DEADLINE_MILLIS, ca: tls.cert }, { tls });
    server = fixture.server;
    await expectRefused(await outcomesOf(options(server)), details);
  });

  async function expectRefused(
    outcomes: readonly { readonly kind: string }[],
    details: object,
  ): Promise<void> {
    const { secretAccessKey } = server.credentials;
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details },
      });
      const text = inspect(outcome, { depth: 20, showHidden: true });
      for (const secret of [secretAccessKey, OTHER_SECRET, OTHER_TOKEN, 'Signature=']) {
        expect(text).not.toContain(secret);
      }
    }
  }

  it('port leaves it open and names the endpoint', async () => {
    const closed = await S3Server.start();
    const { endpoint } = closed;
    await closed.close();
    for (const outcome of await outcomesOf({ endpoint })) {
      expect(outcome).toMatchObject({
        kind: 'unknown',
        cause: {
          code: 'BUCKET_UNAVAILABLE',
          sideEffects: 'none',
          details: { setting: 'endpoint', endpoint, systemCode: 'ECONNREFUSED' },
        },
      });
    }
  });

  it('host name leaves it open and names the endpoint', async () => {
    for (const outcome of await outcomesOf({ endpoint: 'http://no-such-host.invalid:9000' })) {
      const cause = { code: 'BUCKET_UNAVAILABLE', details: { setting: 'endpoint' } };
      expect(outcome).toMatchObject({ kind: 'unknown', cause });
    }
  });

  it('port of something that says nothing ends in time', async () => {
    const silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    for (const outcome of await outcomesOf({ endpoint, timeoutMillis: 500 })) {
      expect(outcome).toMatchObject(leftOpen(endpoint));
    }
    silent.close();
  });

  it.each([200, 401, 403, 407])(
    'port of a server of pages (%i) names the endpoint',
    async (status) => {
      server.faults.add({ fault: { kind: 'answer', status, body: '<html>Log in</html>' } });
      const store = await fixture.open();
      const [deleted] = await store.deleteMany(['a/1']);
      const outcomes = [await store.readHead('a/1', 5), await store.delete('a/1'), deleted!];
      outcomes.push(...((await outcomesOf({})) as typeof outcomes));
      for (const outcome of [...outcomes, await store.list('')]) {
        expect(outcome).toMatchObject(leftOpen(server.endpoint));
      }
    },
  );

  it('certificate is refused, as is one that nobody vouches for', async () => {
    const secure = await S3Server.start({ tls: { key: pem('key'), cert: pem('cert') } });
    const refused = (setting: string): object => ({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED', details: { setting } },
    });
    try {
      for (const outcome of await outcomesOf({ endpoint: secure.endpoint })) {
        expect(outcome).toMatchObject(refused('caFile'));
      }
      const plainPort = `https://127.0.0.1:${server.port}`;
      for (const outcome of await outcomesOf({ endpoint: plainPort })) {
        expect(outcome).toMatchObject(refused('endpoint'));
      }
      const noTls = `http://127.0.0.1:${secure.port}`;
      for (const outcome of await outcomesOf({ endpoint: noTls })) {
        expect(outcome).toMatchObject(leftOpen(noTls));
      }
    } finally {
      await secure.close();
    }
  });
});

describe('the probe', () => {
  it.each([
    ['that ignores the condition', 'ignores', 'ignores the condition'],
    ['that lets several racers win', 'races', 'several racing creations'],
  ] as const)('refuses a server %s', async (_, creation, reason) => {
    server.bucket().creation = creation;
    const store = await fixture.open();
    const outcome = await store.probe();
    expect(outcome).toMatchObject({ kind: 'refused', cause: { code: 'BUCKET_REFUSED' } });
    const { message, details } = (outcome as unknown as { cause: EngineError }).cause;
    expect(message).toContain(reason);
    expect(details).toMatchObject({ bucket: 'bucket', endpoint: server.endpoint });
    expect(server.bucket().objects.size).toBe(0);
  });

  it.each([
    ['s3:PutObject', 's3:PutObject'],
    ['s3:GetObject', 's3:GetObject'],
    ['s3:DeleteObject', 's3:DeleteObject'],
    ['s3:DeleteObjects', 's3:DeleteObject'],
    ['s3:GetBucketVersioning', 's3:GetBucketVersioning'],
    ['s3:GetLifecycleConfiguration', 's3:GetLifecycleConfiguration'],
  ])('refuses where %s is not permitted', async (denied, permission) => {
    server.denied.add(denied);
    const store = await fixture.open();
    expect(await store.probe()).toMatchObject({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED', details: { setting: 'permission', permission } },
    });
  });

  it.each(['Enabled', 'Suspended'] as const)(
    'refuses a bucket whose versioning is %s',
    async (versioning) => {
      server.bucket().versioning = versioning;
      const store = await fixture.open();
      expect(await store.probe()).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details: { setting: 'versioning', value: versioning } },
      });
    },
  );

  const rule = (inside: string, prefix = '', status = 'Enabled'): string =>
    `<Rule><ID>r1</ID><Filter><Prefix>${prefix}</Prefix></Filter><Status>${status}</Status>${inside}</Rule>`;
  const expiring = '<Expiration><Days>30</Days></Expiration>';
  const aborting =
    '<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>';
  const archiving = (to: string): string =>
    `<Transition><Days>1</Days><StorageClass>${to}</StorageClass></Transition>`;
  const markers =
    '<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>';

  it.each([
    ['everything', rule(expiring)],
    ['its prefix', rule(expiring, 'logs/')],
    ['a part of its prefix', rule(expiring, 'logs/main/')],
    ['what its prefix is in', rule(expiring, 'lo')],
    ['the last of several', rule(aborting) + rule(expiring, 'other/') + rule(archiving('GLACIER'))],
  ])('refuses a lifecycle rule that removes %s', async (_, lifecycle) => {
    server.bucket().lifecycle = lifecycle;
    const store = await fixture.open({ prefix: 'logs/' });
    expect(await store.probe()).toMatchObject({
      kind: 'refused',
      cause: { code: 'BUCKET_REFUSED', details: { setting: 'lifecycle', value: 'r1' } },
    });
    expect(server.requestsFor('probe')).toEqual([]);
  });

  it.each([
    ['of another prefix', rule(expiring, 'other/')],
    ['that is off', rule(expiring, '', 'Disabled')],
    ['that ends uploads', rule(aborting)],
    ['that moves to a class that can be read', rule(archiving('STANDARD_IA'))],
    ['for markers', rule(markers)],
  ])('accepts a lifecycle rule %s', async (_, lifecycle) => {
    server.bucket().lifecycle = lifecycle;
    const store = await fixture.open({ prefix: 'logs/' });
    expect(await store.probe()).toEqual({ kind: 'accepted' });
  });

  it.each(['versioning', 'lifecycle'])(
    'takes a server that knows no %s as one without',
    async (of) => {
      server.faults.add({
        when: ({ query }) => query.has(of),
        fault: { kind: 'answer', status: 501, code: 'NotImplemented' },
      });
      const store = await fixture.open();
      expect(await store.probe()).toEqual({ kind: 'accepted' });
    },
  );

  it('is not misled by pages of a proxy', async () => {
    server.faults.add({
      when: ({ key }) => key === '',
      fault: { kind: 'answer', status: 200, body: '<html></html>' },
    });
    const store = await fixture.open();
    expect(await store.probe()).toMatchObject({ kind: 'unknown' });
  });

  it('accepts a server that tells losers only of a conflict', async () => {
    let puts = 0;
    server.faults.add({
      when: ({ method }) => method === 'PUT' && ++puts % 17 !== 1 && puts % 17 !== 0,
      fault: { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' },
    });
    const store = await fixture.open();
    expect(await store.probe()).toEqual({ kind: 'accepted' });
  });

  it('is given up with its signal while it cleans up', async () => {
    const held = server.faults.hold(({ query }) => query.has('delete'));
    const store = await fixture.open({ timeoutMillis: 120_000 });
    const controller = new AbortController();
    const probing = store.probe({ signal: controller.signal });
    await held.arrived;
    controller.abort();
    expect(await probing).toMatchObject({ kind: 'unknown', cause: { code: 'ABORTED' } });
    held.release();
  });

  it('is given up with its signal while it waits to ask again', async () => {
    let puts = 0;
    server.faults.add({
      when: ({ method }) => method === 'PUT' && ++puts === 17,
      fault: { kind: 'answer', status: 503, code: 'SlowDown' },
    });
    const store = await fixture.open({ hedgePercent: 0 });
    const controller = new AbortController();
    let answers = 0;
    const told: ProbedStore = {
      name: store.name,
      endpoint: server.endpoint,
      createOnly: async (...args) => {
        const outcome = await store.createOnly(...args);
        // By then it waits for the time to ask again.
        if (++answers === 17) setImmediate(() => controller.abort());
        return outcome;
      },
      readRange: (...args) => store.readRange(...args),
      deleteMany: (...args) => store.deleteMany(...args),
    };
    const probing = probeBucket(told, { signal: controller.signal });
    const ended = probing.then(() => 'ended');
    await new Promise((resolve) => controller.signal.addEventListener('abort', resolve));
    // Nothing is left to wait for: it ends before the next turn.
    const turn = new Promise<string>((resolve) => setImmediate(resolve, 'a turn later'));
    expect(await Promise.race([ended, turn])).toBe('ended');
    expect(await probing).toMatchObject({ kind: 'unknown', cause: { code: 'ABORTED' } });
  });

  it('leaves it open where the server fails', async () => {
    server.faults.add({ fault: { kind: 'answer', status: 500, code: 'InternalError' } });
    const store = await fixture.open();
    expect(await store.probe()).toMatchObject({ kind: 'unknown' });
  });
});

describe('a store opened to read only', () => {
  it('reads, and changes nothing', async () => {
    const writer = await fixture.open();
    await writer.createOnly('a/1', pattern(1, 10));
    const store = await fixture.open({ readOnly: true });
    expect((await store.readHead('a/1', 5)).kind).toBe('found');
    const before = server.log.length;
    const outcomes = [await store.createOnly('a/2', pattern(1, 5)), await store.probe()];
    expect(outcomes.map(({ kind }) => kind)).toEqual(['refused', 'refused']);
    expect((await store.delete('a/1')).kind).toBe('unknown');
    expect(server.log.slice(before).every(({ method }) => method === 'GET')).toBe(true);
  });
});

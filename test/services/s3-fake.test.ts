import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { S3BucketStore } from '../../src/adapters/s3/bucket-store.ts';
import { FaultProxy } from '../support/fault-proxy/proxy.ts';
import { installFake, startFake, type FakeServer } from './fake-server.ts';

const missing = await installFake();
const why = missing === undefined ? '' : `: it cannot be installed: ${missing.reason}`;

describe.skipIf(missing !== undefined)(`a server that ignores the condition${why}`, () => {
  let fake: FakeServer;
  let proxy: FaultProxy;
  const stores: S3BucketStore[] = [];
  beforeAll(async () => {
    fake = await startFake('bucket');
    proxy = await FaultProxy.start(fake.endpoint);
  });
  afterAll(async () => {
    await Promise.all(stores.map((store) => store.close()));
    await proxy.close();
    await fake.stop();
  });

  const open = (endpoint: string): S3BucketStore => {
    const store = new S3BucketStore({
      name: 'fake',
      bucket: 'bucket',
      region: 'us-east-1',
      endpoint,
      addressing: 'path',
      credentials: async () => fake.credentials,
    });
    stores.push(store);
    return store;
  };

  it('creates a key twice', async () => {
    const store = open(fake.endpoint);
    for (const body of ['first', 'second']) {
      expect(await store.createOnly('some-key', Buffer.from(body))).toEqual({ kind: 'created' });
    }
  });

  it('is not accepted: it takes the question for versions for another', async () => {
    expect(await open(fake.endpoint).probe()).toMatchObject({
      kind: 'unknown',
      cause: { code: 'BUCKET_UNAVAILABLE', details: { call: 'check-versioning', status: 200 } },
    });
  });

  it('is refused for the condition where all the rest is right', async () => {
    proxy.faults.add({
      when: ({ query }) => query.has('versioning'),
      fault: { kind: 'answer', status: 200, body: '<VersioningConfiguration/>' },
    });
    proxy.faults.add({
      when: ({ query }) => query.has('lifecycle'),
      fault: { kind: 'answer', status: 404, code: 'NoSuchLifecycleConfiguration' },
    });
    expect(await open(proxy.endpoint).probe()).toMatchObject({
      kind: 'refused',
      cause: {
        code: 'BUCKET_REFUSED',
        summary: expect.stringContaining('ignores the condition') as string,
      },
    });
  });
});

/** What a demo on S3 says that it left behind. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { demoPlace } from '../../../src/cli/demo/place.ts';
import { createEngine } from '../../../src/index.ts';
import { S3Server, TEST_REGION } from '../../support/s3/server.ts';

let server: S3Server;

beforeEach(async () => {
  server = await S3Server.start({ buckets: ['bucket-a', 'bucket-b'] });
  vi.stubEnv('AWS_ACCESS_KEY_ID', server.credentials.accessKeyId);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', server.credentials.secretAccessKey);
  vi.stubEnv('AWS_SESSION_TOKEN', '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
});

const placeOn = (s3: string) =>
  demoPlace({ s3, endpoint: server.endpoint, region: TEST_REGION, buckets: 3 });

describe('the place of a demo on S3', () => {
  it.each<[string, string, () => void]>([
    ['a bucket is missing', 's3://bucket-a,s3://bucket-x', () => undefined],
    [
      'the secret is empty',
      's3://bucket-a,s3://bucket-b',
      () => void vi.stubEnv('AWS_SECRET_ACCESS_KEY', ''),
    ],
  ])('leaves nothing, and says nothing, where %s', async (_, s3, spoil) => {
    spoil();
    await expect(placeOn(s3)).rejects.toMatchObject({ code: 'BUCKET_REFUSED' });
    for (const [, bucket] of server.buckets) expect(bucket.objects.size).toBe(0);
  });

  it('says where objects stay that cannot be removed', async () => {
    const place = await placeOn('s3://bucket-a,s3://bucket-b');
    const engine = await createEngine({ components: place.store.components! });
    await engine.close();
    server.denied.add('s3:DeleteObjects');
    expect(await place.leave()).toMatch(/^objects are left in 2 buckets of /);
  });
});

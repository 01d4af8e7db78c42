/** The S3 store on a Ceph gateway: the contract of all bucket stores, and buckets to be refused. */
import { afterAll, describe, expect, it } from 'vitest';
import { S3BucketStore } from '../../src/adapters/s3/bucket-store.ts';
import { bucketStoreContract, type BucketFixture } from '../contract/bucket-store/contract.ts';
import { startCephZone, whereCephRuns, type CephZone } from './ceph-zone.ts';
import { s3Request } from './s3-request.ts';

const zone = await whereCephRuns(startCephZone);

if ('reason' in zone) {
  it.skip(zone.reason, () => undefined);
} else {
  afterAll(() => zone.stop());
  onZone(zone);
}

function onZone(zone: CephZone): void {
  let count = 0;
  const makeBucket = async (): Promise<string> => {
    const bucket = `bucket-${count++}`;
    await s3Request(zone, 'PUT', `/${bucket}`);
    return bucket;
  };
  const open = (bucket: string, prefix = ''): S3BucketStore =>
    new S3BucketStore({
      name: bucket,
      bucket,
      prefix,
      region: 'us-east-1',
      endpoint: zone.endpoint,
      addressing: 'path',
      credentials: async () => zone.credentials,
    });

  bucketStoreContract('S3 of a Ceph gateway', async (): Promise<BucketFixture> => {
    const bucket = await makeBucket();
    const opened: S3BucketStore[] = [];
    return {
      open: async () => {
        opened.push(open(bucket));
        return opened.at(-1)!;
      },
      dispose: async () => {
        await Promise.all(opened.map((store) => store.close()));
      },
    };
  });

  describe('a bucket of a Ceph gateway', () => {
    const probe = async (bucket: string, prefix?: string): Promise<unknown> => {
      const store = open(bucket, prefix);
      const outcome = await store.probe();
      await store.close();
      return outcome;
    };

    it('is refused with versions', async () => {
      const bucket = await makeBucket();
      const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
      await s3Request(zone, 'PUT', `/${bucket}`, { versioning: '' }, body);
      const details = { setting: 'versioning', value: 'Enabled' };
      expect(await probe(bucket)).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details },
      });
    });

    it('is refused with a lifecycle rule for its prefix, and only for that', async () => {
      const bucket = await makeBucket();
      const rule =
        '<Rule><ID>r1</ID><Filter><Prefix>old/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>9</Days></Expiration></Rule>';
      const body = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
      await s3Request(zone, 'PUT', `/${bucket}`, { lifecycle: '' }, body);
      expect(await probe(bucket, 'old/')).toMatchObject({
        kind: 'refused',
        cause: { code: 'BUCKET_REFUSED', details: { setting: 'lifecycle', value: 'r1' } },
      });
      expect(await probe(bucket, 'new/')).toEqual({ kind: 'accepted' });
    });

    it('that is not there, and a secret that is wrong, are told', async () => {
      expect(await probe('no-such-bucket')).toMatchObject({
        kind: 'refused',
        cause: { details: { setting: 'bucket' } },
      });
      const bucket = await makeBucket();
      const store = new S3BucketStore({
        name: bucket,
        bucket,
        region: 'us-east-1',
        endpoint: zone.endpoint,
        addressing: 'path',
        credentials: async () => ({ ...zone.credentials, secretAccessKey: 'another' }),
      });
      expect(await store.probe()).toMatchObject({
        kind: 'refused',
        cause: { details: { setting: 'secretAccessKey' } },
      });
      await store.close();
    });
  });
}

/** The S3 store on a Ceph gateway: the contract of all bucket stores, and buckets to be refused. */
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { S3BucketStore } from '../../src/adapters/s3/bucket-store.ts';
import { systemProcesses } from '../../src/adapters/system/processes.ts';
import { cleanDemos, type CleanDemosOptions } from '../../src/engine/demo-cleanup.ts';
import { DEMO_MARK, encodeDemoMark } from '../../src/engine/s3-demos.ts';
import { s3Components } from '../../src/index.ts';
import { forEachBounded } from '../../src/lib/bounded.ts';
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

  describe('demos in a bucket of a Ceph gateway', () => {
    const [dead, living] = ['demo-00000000dead', 'demo-0000000a11fe'] as const;
    const self = systemProcesses().self();

    /** More objects than one page has, or one request deletes. */
    async function leaveBehind(store: S3BucketStore, bucket: string): Promise<void> {
      const identity = { ...self, startTime: '1' };
      const siteOf = (demo: string) => ({ demo, bucket, prefix: `log/${demo}/` });
      await store.createOnly(`${dead}/${DEMO_MARK}`, encodeDemoMark(siteOf(dead), identity));
      await store.createOnly(`${living}/${DEMO_MARK}`, encodeDemoMark(siteOf(living), self));
      await store.createOnly('main/1', Buffer.from('of somebody'));
      await forEachBounded(Array(1_100).keys(), 32, async (index) => {
        const { kind } = await store.createOnly(`${dead}/main/${index}`, Buffer.from('left'));
        // One that is late is sent twice, and may find what the first request stored.
        expect(['created', 'exists']).toContain(kind);
      });
    }

    it('are removed once they are over, and nothing else', async () => {
      const bucket = await makeBucket();
      const store = open(bucket, 'log/');
      await leaveBehind(store, bucket);
      vi.stubEnv('AWS_ACCESS_KEY_ID', zone.credentials.accessKeyId);
      vi.stubEnv('AWS_SECRET_ACCESS_KEY', zone.credentials.secretAccessKey);
      vi.stubEnv('AWS_SESSION_TOKEN', '');
      onTestFinished(() => void vi.unstubAllEnvs());
      const components = s3Components({
        endpoint: zone.endpoint,
        buckets: [{ bucket, prefix: 'log/' }],
        metastore: { root: './unused' },
      });
      const demosOf = async (options: CleanDemosOptions) => {
        const [report] = await cleanDemos(components, options);
        expect(report?.error).toBeUndefined();
        return report?.demos.map(({ prefix, outcome, objects }) => [prefix, outcome, objects]);
      };
      const kept = [`log/${living}/`, 'kept', 1];
      expect(await demosOf({})).toEqual([kept, [`log/${dead}/`, 'kept', 1_101]].reverse());
      expect(await demosOf({ dryRun: true, idleMillis: 0 })).toEqual(
        [kept, [`log/${dead}/`, 'removable', 1_101]].reverse(),
      );
      expect(await demosOf({ idleMillis: 0 })).toEqual(
        [kept, [`log/${dead}/`, 'removed', 1_101]].reverse(),
      );
      expect(await demosOf({ idleMillis: 0 })).toEqual([kept]);
      const left = await store.list('');
      expect(left).toMatchObject({ keys: [`${living}/${DEMO_MARK}`, 'main/1'] });
      await store.close();
    });
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

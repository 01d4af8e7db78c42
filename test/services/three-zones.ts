/** Three zones, each a store of its own, and a bucket in each for every test. */
import { s3Components, type S3Components } from '../../src/index.ts';
import type { Ceph } from './ceph-packages.ts';
import { startCephZone, type CephZone } from './ceph-zone.ts';
import { s3Request } from './s3-request.ts';

const REGION = 'us-east-1';

export class ThreeZones {
  readonly zones: CephZone[] = [];

  /** One after the other: they need the cores. */
  async start(ceph: Ceph): Promise<void> {
    const started = performance.now();
    for (let left = 3; left > 0; left--) this.zones.push(await startCephZone(ceph));
    console.log(`three zones started in ${seconds(started)} s`);
  }

  async stop(): Promise<void> {
    await Promise.all(this.zones.splice(0).map((zone) => zone.stop()));
  }

  get endpoints(): readonly string[] {
    return this.zones.map(({ endpoint }) => endpoint);
  }

  async createBuckets(bucket: string): Promise<void> {
    for (const zone of this.zones) await s3Request(zone, 'PUT', `/${bucket}`);
  }

  /** Of the bucket in each zone, at `endpoints`: those of the zones, or of proxies in front of them. */
  components(bucket: string, root: string, endpoints = this.endpoints): S3Components {
    return s3Components({
      region: REGION,
      buckets: endpoints.map((endpoint, index) => ({ name: `zone-${index}`, bucket, endpoint })),
      metastore: { root },
    });
  }
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1_000).toFixed(1);
}

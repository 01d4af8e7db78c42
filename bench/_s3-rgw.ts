/** The same against a server that stores: a zone of Ceph, as the tests of services start it. */
import { cephPackages } from '../test/services/ceph-packages.ts';
import { startCephZone } from '../test/services/ceph-zone.ts';
import { s3Request } from '../test/services/s3-request.ts';
import type { Row } from './_rows.ts';
import { ONE_BUCKET, THREE_BUCKETS } from './_s3-engine.ts';
import { cellRows, type Scale } from './_s3-throughput.ts';
import type { Workspace } from './_workspace.ts';

const FLIGHT_BYTES = [64 << 10, 1 << 20];
const RECORD_BYTES = 1_024;

/** Three buckets of one zone: the gateway is the limit, whatever K. A row with the reason without it. */
export async function rgwRows(workspace: Workspace, scale: Scale): Promise<Row[]> {
  const ceph = await cephPackages();
  if ('reason' in ceph) {
    const { reason } = ceph;
    return [{ name: 'rgw', floor: 0, engine: 0, ratio: 0, unit: 'MB/s', skipped: reason }];
  }
  const zone = await startCephZone(ceph);
  try {
    const place = { endpoint: zone.endpoint, ...zone.credentials };
    const rows: Row[] = [];
    for (const { buckets, copyQuorum } of [ONE_BUCKET, THREE_BUCKETS]) {
      for (const flightBytes of FLIGHT_BYTES) {
        // Nothing is forgotten here: what an engine finds must not be of the one before.
        const shape = {
          buckets: buckets.map((name) => `${name}-k${buckets.length}-${flightBytes}`),
          copyQuorum,
        };
        for (const bucket of shape.buckets) await s3Request(zone, 'PUT', `/${bucket}`);
        const cell = { shape, recordBytes: RECORD_BYTES, flightBytes, serviceMillis: 0 };
        rows.push(...(await cellRows(workspace, undefined, place, cell, scale)));
      }
    }
    return rows.map((row) => ({ ...row, name: `rgw, ${row.name}` }));
  } finally {
    await zone.stop();
  }
}

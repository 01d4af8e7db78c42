/** A thread that writes without end until it is terminated. */
import { parentPort, workerData } from 'node:worker_threads';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';

const { directory, name } = workerData as { directory: string; name: string };
const store = await LmdbMetastore.open({ directory });
const lanes = [0, 1, 2, 3];
for (let i = 0; ; i++) {
  await Promise.all(
    lanes.map((lane) => store.put(`w/${name}/${lane}/${i}`, Buffer.alloc(200, i), 'absent')),
  );
  parentPort!.postMessage(i);
}

/** Run as a process of its own: reads one key now and then, and otherwise holds the file open. */
import { writeSync } from 'node:fs';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';

const [directory = ''] = process.argv.slice(2);
const store = await LmdbMetastore.open({ directory });
for (;;) {
  const entry = await store.get('k');
  if (entry !== undefined) writeSync(1, `${entry.version}\n`);
  await new Promise((done) => setTimeout(done, 30));
}

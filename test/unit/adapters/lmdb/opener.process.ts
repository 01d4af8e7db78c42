/**
 * Run as a process of its own: opens the metastore of each directory given (`read-only:` before the
 * path opens it to read) and prints the error, or null, a line each.
 */
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';

for (const argument of process.argv.slice(2)) {
  const readOnly = argument.startsWith('read-only:');
  try {
    const directory = argument.replace(/^read-only:/, '');
    const store = await LmdbMetastore.open({ directory, readOnly });
    await store.close();
    console.log('null');
  } catch (error) {
    console.log(JSON.stringify(error));
  }
}

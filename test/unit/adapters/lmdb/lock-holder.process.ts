/** Run as a process of its own: takes the write lock of the metastore in a directory and keeps it. */
import { writeSync } from 'node:fs';
import { openEnvironment } from '../../../../src/adapters/lmdb/environment.ts';

const [directory = ''] = process.argv.slice(2);
const { system } = openEnvironment(directory, false);
system.transactionSync(() => {
  writeSync(1, 'locked\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});

/**
 * Run as a process of its own: writes through one LMDB metastore and says on stdout what was
 * answered, one JSON line each, until it is killed. Arguments: directory, name.
 */
import { writeSync } from 'node:fs';
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';

const [directory = '', name = ''] = process.argv.slice(2);
const store = await LmdbMetastore.open({ directory });

// Several writers at once, so that a kill finds groups of writes in every stage.
await Promise.all(
  Array.from({ length: 8 }, async (_, lane) => {
    for (let i = 0; ; i++) {
      const key = `kill/${name}/${lane}/${String(i).padStart(6, '0')}`;
      const value = Buffer.from(`${key} ${'x'.repeat((i * 97) % 3_000)}`);
      const put = await store.put(key, value, 'absent');
      if (put.kind !== 'applied') throw new Error(`unexpected conflict at ${key}`);
      // Synchronous: what was answered is told before anything else happens.
      writeSync(1, `${JSON.stringify({ key, version: put.version })}\n`);
      if (i % 5 === 4) {
        const deleted = await store.delete(key, put.version);
        if (deleted.kind !== 'deleted') throw new Error(`unexpected conflict at ${key}`);
        writeSync(1, `${JSON.stringify({ key, deleted: true })}\n`);
      }
    }
  }),
);

/** Run as a process of its own, where files cannot grow: writes until it fails, deletes, writes. */
import { LmdbMetastore } from '../../../../src/adapters/lmdb/metastore.ts';
import { EngineError } from '../../../../src/lib/errors.ts';

const [directory = ''] = process.argv.slice(2);
const store = await LmdbMetastore.open({ directory });
const failures: string[] = [];
const stored: string[] = [];
for (let i = 0; i < 200 && failures.length < 5; i++) {
  try {
    await store.put(`k/${i}`, Buffer.alloc(50_000, i), 'absent');
    stored.push(`k/${i}`);
  } catch (error) {
    failures.push(EngineError.is(error) ? error.code : String(error));
  }
}
const entries = await store.children('k/');
for (const { key, version } of entries.slice(0, 3)) await store.delete(key, version);
const after = await store.put('after', Buffer.alloc(50_000), 'absent');
const readable = entries.length;
console.log(JSON.stringify({ stored: stored.length, readable, failures, after: after.kind }));
await store.close();

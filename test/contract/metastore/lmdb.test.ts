import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LmdbMetastore } from '../../../src/adapters/lmdb/metastore.ts';
import { metastoreContract } from './contract.ts';

metastoreContract('the metastore in an LMDB file', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'asterlog-metastore-'));
  const first = await LmdbMetastore.open({ directory, watchPollMillis: 20 });
  const second = await LmdbMetastore.open({ directory, watchPollMillis: 20 });
  return {
    first,
    second,
    dispose: async () => {
      await Promise.all([first.close(), second.close()]);
      await rm(directory, { recursive: true });
    },
  };
});

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { bucketStoreContract } from './contract.ts';
import { s3Fixture } from './s3-fixture.ts';

const pem = (name: string): string =>
  readFileSync(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');
const tls = { key: pem('key'), cert: pem('cert') };

bucketStoreContract('S3', () => s3Fixture());
bucketStoreContract('S3 under a prefix', () => s3Fixture({ prefix: 'some/where/' }));
bucketStoreContract('S3 over TLS', () => s3Fixture({ ca: tls.cert }, { tls }));
bucketStoreContract('S3 with hashes of another thread', () =>
  s3Fixture({
    sha256: async (bytes) => {
      const hex = createHash('sha256').update(bytes).digest('hex');
      await new Promise((resolve) => setImmediate(resolve));
      return hex;
    },
  }),
);
bucketStoreContract('S3 over few connections', () =>
  s3Fixture({ concurrentCreates: 2, concurrentReads: 2 }),
);
bucketStoreContract('S3 with sessions and lists in no order', () =>
  s3Fixture({ dialect: 's3-express', prefix: 'some/where/' }, { dialect: 's3-express' }),
);
bucketStoreContract('the XML interface of GCS', () =>
  s3Fixture({ dialect: 'gcs' }, { dialect: 'gcs' }),
);

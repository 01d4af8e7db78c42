import { S3BucketStore, type S3BucketOptions } from '../../../src/adapters/s3/bucket-store.ts';
import { S3Server, TEST_REGION, type S3ServerOptions } from '../../support/s3/server.ts';
import type { BucketFixture } from './contract.ts';

export interface S3Fixture extends BucketFixture {
  readonly server: S3Server;
  open(options?: Partial<S3BucketOptions>): Promise<S3BucketStore>;
}

/** A strict server, and stores on its one bucket. */
export async function s3Fixture(
  defaults: Partial<S3BucketOptions> = {},
  serverOptions: S3ServerOptions = {},
): Promise<S3Fixture> {
  const server = await S3Server.start(serverOptions);
  const opened: S3BucketStore[] = [];
  return {
    server,
    open: async (options = {}) => {
      const store = new S3BucketStore({
        name: 'bucket',
        bucket: 'bucket',
        region: TEST_REGION,
        endpoint: server.endpoint,
        addressing: 'path',
        credentials: async () => server.credentials,
        ...defaults,
        ...options,
      });
      opened.push(store);
      return store;
    },
    dispose: async () => {
      server.faults.clear();
      await Promise.all(opened.map((store) => store.close()));
      await server.close();
    },
  };
}

import { bucketStoreContract } from './contract.ts';
import { directoryFixture, memoryFixture, powerLossFixture } from './fixtures.ts';

bucketStoreContract('memory', memoryFixture);
bucketStoreContract('directory', directoryFixture);
bucketStoreContract('directory on a file system of the test', () => powerLossFixture());
bucketStoreContract('directory on a file system with direct writes', () =>
  powerLossFixture({ hasDirectWrites: true }),
);

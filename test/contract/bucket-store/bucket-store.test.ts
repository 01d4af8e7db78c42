import { bucketStoreContract } from './contract.ts';
import { directoryFixture, memoryFixture, powerLossFixture } from './fixtures.ts';

bucketStoreContract('memory', memoryFixture);
bucketStoreContract('directory', directoryFixture);
bucketStoreContract('directory on a file system that loses power', () => powerLossFixture());

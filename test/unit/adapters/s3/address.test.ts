import { expect, test } from 'vitest';
import { bucketAddress } from '../../../../src/adapters/s3/address.ts';

test.each([
  ['https://s3.eu-west-1.amazonaws.com', 'virtual', 'https://b-1.s3.eu-west-1.amazonaws.com', '/'],
  ['https://s3.eu-west-1.amazonaws.com', 'path', 'https://s3.eu-west-1.amazonaws.com', '/b-1/'],
  ['http://localhost:9000', 'virtual', 'http://b-1.localhost:9000', '/'],
  ['http://127.0.0.1:9000/', 'path', 'http://127.0.0.1:9000', '/b-1/'],
] as const)('%s by %s', (endpoint, addressing, origin, rootPath) => {
  const address = bucketAddress({ endpoint, addressing, bucket: 'b-1' });
  expect(address).toEqual({
    origin,
    rootPath,
    host: origin.slice(origin.indexOf('//') + 2),
    isSecure: endpoint.startsWith('https:'),
  });
});

import { expect, test, vi } from 'vitest';
import { PayloadHashes } from '../../../../src/adapters/s3/payload-hash.ts';

test('a hash is computed once for all that carry the bytes, and again for other bytes in them', async () => {
  const hashes = new PayloadHashes();
  const bytes = new Uint8Array(3);
  let count = 0;
  const hashOf = vi.fn(async () => `hash ${++count}`);
  const acquired = [1, 2, 3].map(async () => hashes.acquire(bytes, hashOf));
  expect(await Promise.all(acquired)).toEqual(['hash 1', 'hash 1', 'hash 1']);
  expect(await hashes.acquire(new Uint8Array(3), hashOf)).toBe('hash 2');
  hashes.release(bytes);
  hashes.release(bytes);
  expect(await hashes.acquire(bytes, hashOf)).toBe('hash 1');
  hashes.release(bytes);
  hashes.release(bytes);
  expect(await hashes.acquire(bytes, hashOf)).toBe('hash 3');
});

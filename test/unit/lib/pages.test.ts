import { expect, it } from 'vitest';
import { allocatePages, isInBlocks } from '../../../src/lib/pages.ts';

it('tells memory that begins at a page from other memory', () => {
  const pages = allocatePages(10_000);
  expect(pages.byteLength).toBe(10_000);
  expect(isInBlocks(pages.subarray(0, 4096), 4096)).toBe(true);
  expect(isInBlocks(pages.subarray(4096, 8192), 4096)).toBe(true);
  expect(isInBlocks(pages.subarray(4096, 8191), 4096)).toBe(false);
  expect(isInBlocks(pages.subarray(1, 4097), 4096)).toBe(false);
  expect(isInBlocks(new Uint8Array(4096), 4096)).toBe(false);
});

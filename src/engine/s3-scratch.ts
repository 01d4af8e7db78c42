/** Objects of a demo or a trial on S3: under prefixes of their own, and removed at the end. */
import { within, type WaitOptions } from '../lib/wait.ts';
import { systemClock } from '../adapters/system/clock.ts';
import type { S3BucketStore } from '../adapters/s3/bucket-store.ts';
import type { S3Components } from './s3-components.ts';
import { openS3Bucket } from './s3-stores.ts';

/**
 * The same buckets under a longer prefix and under names of their own, so that no key is one of theirs.
 *
 * @param segment - of `[a-z0-9._-]`, without a slash.
 */
export function withinS3(components: S3Components, segment: string): S3Components {
  const buckets = components.buckets.map((bucket) => ({
    ...bucket,
    name: `${bucket.name}${bucket.name.endsWith('/') ? '' : '/'}${segment}/`,
    prefix: `${bucket.prefix}${segment}/`,
  }));
  return { ...components, buckets };
}

/**
 * Removes every object below the prefixes of these buckets. For data of which no engine is open and that
 * nobody wants any more.
 *
 * @param last - a key that is removed when nothing else is left.
 * @returns How many buckets could not be emptied; what is left there stays.
 */
export async function emptyS3(
  components: S3Components,
  last: string,
  wait: WaitOptions = {},
): Promise<number> {
  const results = await within(systemClock(), wait, 'emptying buckets', ({ signal }) =>
    Promise.all(
      components.buckets.map(async (descriptor) => {
        const store = await openS3Bucket(descriptor, { readOnly: false });
        try {
          return await emptyOne(store, last, signal);
        } finally {
          await store.close();
        }
      }),
    ),
  );
  return results.filter((isEmpty) => !isEmpty).length;
}

async function emptyOne(store: S3BucketStore, last: string, signal: AbortSignal): Promise<boolean> {
  let startAfter = '';
  for (;;) {
    const page = await store.list('', { startAfter, signal });
    if (page.kind !== 'listed') return false;
    const keys = page.keys.filter((key) => key !== last);
    const outcomes = await store.deleteMany(keys, { signal });
    if (outcomes.some(({ kind }) => kind === 'unknown')) return false;
    if (!page.more) return (await store.delete(last, { signal })).kind !== 'unknown';
    // Keys grow from page to page, so this comes to an end whatever the server still lists.
    startAfter = page.keys.at(-1)!;
  }
}

import type { ListOptions, ListOutcome } from '../../ports/bucket-store.ts';
import type { BucketContext } from './context.ts';
import { readError } from './failure.ts';
import { isContinued, joined, keyPrefixOf } from './names.ts';

/** Keys in byte order. Reads the directories of the page asked for, not those before or after it. */
export async function listObjects(
  context: BucketContext,
  prefix: string,
  { startAfter = '', limit = Infinity }: ListOptions,
): Promise<ListOutcome> {
  try {
    const directories: Found[] = [];
    await walk(context, context.objects.path, '', directories);
    const wanted = directories
      .map(({ path, name }) => ({ path, start: keyPrefixOf(name) }))
      .filter(({ start }) => mayHold(start, prefix, startAfter))
      .sort((a, b) => (a.start < b.start ? -1 : 1));
    const keys: string[] = [];
    let pending: string[] = [];
    for (const { path, start } of wanted) {
      // Keys of this and all further directories are not below `start`.
      keys.push(...pending.filter((key) => key < start));
      pending = pending.filter((key) => key >= start);
      if (keys.length > limit) break;
      const files = await filesOf(context, path);
      for (const file of files) {
        const key = start + file;
        if (key.startsWith(prefix) && key > startAfter) pending.push(key);
      }
      pending.sort();
    }
    if (keys.length <= limit) keys.push(...pending);
    return { kind: 'listed', keys: keys.slice(0, limit), more: keys.length > limit };
  } catch (error) {
    return { kind: 'unknown', cause: readError(error, context.name) };
  }
}

interface Found {
  readonly path: string;
  readonly name: string;
}

function mayHold(start: string, prefix: string, startAfter: string): boolean {
  const isWithin = start.startsWith(prefix) || prefix.startsWith(start);
  return isWithin && (start > startAfter || startAfter.startsWith(start));
}

/** Collects the directories of keys, names that are cut put together. */
async function walk(
  context: BucketContext,
  path: string,
  outer: string,
  into: Found[],
): Promise<void> {
  for (const entry of await context.fileSystem.readdir(path)) {
    const name = joined(outer, entry);
    const inner = `${path}/${entry}`;
    if (isContinued(entry)) await walk(context, inner, name, into);
    else into.push({ path: inner, name });
  }
}

/** Collects the last segments of the keys in a directory. */
async function filesOf(context: BucketContext, path: string, outer = ''): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await context.fileSystem.readdir(path)) {
    const name = joined(outer, entry);
    if (isContinued(entry)) files.push(...(await filesOf(context, `${path}/${entry}`, name)));
    else files.push(name);
  }
  return files;
}

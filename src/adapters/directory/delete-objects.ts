import { forEachBounded } from '../../lib/bounded.ts';
import type { DeleteOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import type { BucketContext } from './context.ts';
import { codeOf, readError, readOnlyError } from './failure.ts';
import { placeOf } from './names.ts';
import { absent } from './read-object.ts';

/** Names removed at once: more would take the threads from appends. */
const CONCURRENT_UNLINKS = 4;

/** Removes the names, then makes that durable with one sync per directory. */
export async function deleteObjects(
  context: BucketContext,
  call: Call,
  keys: readonly string[],
): Promise<DeleteOutcome[]> {
  if (context.readOnly) {
    const cause = readOnlyError(context.name);
    return keys.map(() => ({ kind: 'unknown', cause }));
  }
  const outcomes = new Array<DeleteOutcome>(keys.length);
  const indexesOf = new Map<string, number[]>();
  for (const [index, key] of keys.entries()) {
    const { directory } = placeOf(key);
    const indexes = indexesOf.get(directory);
    if (indexes === undefined) indexesOf.set(directory, [index]);
    else indexes.push(index);
  }
  await forEachBounded(indexesOf, CONCURRENT_UNLINKS, async ([directory, indexes]) => {
    try {
      const all = await deleteWithin(context, call, directory, { keys, indexes });
      for (const [at, outcome] of all.entries()) outcomes[indexes[at]!] = outcome;
    } catch (error) {
      const unknown: DeleteOutcome = { kind: 'unknown', cause: readError(error, context.name) };
      for (const index of indexes) outcomes[index] = unknown;
    }
  });
  return outcomes;
}

async function deleteWithin(
  context: BucketContext,
  call: Call,
  path: string,
  { keys, indexes }: { readonly keys: readonly string[]; readonly indexes: readonly number[] },
): Promise<DeleteOutcome[]> {
  const { directories, name } = context;
  const directory = await directories.acquire(path, 'undefined');
  if (directory === undefined) {
    const nothing = await absent(context);
    return indexes.map(() => nothing);
  }
  try {
    const outcomes = new Array<DeleteOutcome>(indexes.length);
    await forEachBounded(indexes.keys(), CONCURRENT_UNLINKS, async (at) => {
      if (call.abandoned !== undefined) throw call.abandoned;
      const { file } = placeOf(keys[indexes[at]!]!);
      try {
        outcomes[at] = await unlink(context, `${directory.path}/${file}`);
      } catch (error) {
        outcomes[at] = { kind: 'unknown', cause: readError(error, name) };
      }
    });
    // Also for an absence: an earlier removal that was never synced could be undone.
    await directory.sync('deleted');
    return outcomes;
  } finally {
    directories.release(path);
  }
}

async function unlink(context: BucketContext, path: string): Promise<DeleteOutcome> {
  try {
    await context.fileSystem.unlink(path);
    return { kind: 'deleted' };
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    return await absent(context);
  }
}

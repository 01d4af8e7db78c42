/**
 * How an object comes to be: written under a temporary name, made durable, given its own name by
 * `link(2)`, which never replaces, and the name made durable. `rename` would overwrite, and a file
 * opened under its own name would show half an object.
 */
import { EXISTS_HEAD_BYTES, type CreateOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import type { BucketContext } from './context.ts';
import { codeOf, failureOutcome, isFull, readOnlyError, unavailable } from './failure.ts';
import { placeOf } from './names.ts';
import { readFile } from './read-object.ts';
import type { SyncedDirectory } from './synced-directory.ts';
import type { TempFile } from './temp-files.ts';

const CREATED: CreateOutcome = { kind: 'created' };

export async function createObject(
  context: BucketContext,
  call: Call,
  key: string,
  bytes: Uint8Array,
): Promise<CreateOutcome> {
  const { directories, temps, writer, health, name } = context;
  const failure = context.readOnly ? readOnlyError(name) : health.failure;
  if (failure !== undefined) return { kind: 'refused', cause: failure };
  const place = placeOf(key);
  let directory: SyncedDirectory | undefined;
  let temp: TempFile | undefined;
  try {
    await temps.room();
    directory = (await directories.acquire(place.directory, 'make'))!;
    temp = await call.whileTouching(() => writer.write(bytes));
    if (call.abandoned === undefined) await syncObject(context, temp);
    // What nobody waits for any more is better not published; past this point it may be.
    if (call.abandoned !== undefined) return { kind: 'unknown', cause: call.abandoned };
    const outcome = await publish(context, temp, directory, `${directory.path}/${place.file}`);
    temps.replace(temp);
    temp = undefined;
    return outcome;
  } catch (error) {
    return failureOutcome(error, name);
  } finally {
    if (temp !== undefined) temps.discard(temp);
    if (directory !== undefined) directories.release(place.directory);
  }
}

async function syncObject({ fileSystem, health }: BucketContext, temp: TempFile): Promise<void> {
  try {
    await fileSystem.syncFile(temp.fd, 'object');
  } catch (error) {
    // No room: the lost bytes are those of this file alone, which is thrown away.
    if (isFull(error)) throw error;
    throw health.fail(error, ['object']);
  }
}

async function publish(
  context: BucketContext,
  temp: TempFile,
  directory: SyncedDirectory,
  target: string,
): Promise<CreateOutcome> {
  const { fileSystem } = context;
  try {
    await fileSystem.link(temp.path, target);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    // A network file system may report an error of a link that it made: then the name is ours.
    if (!(await namesSameFile(context, temp, target))) {
      return await describeExisting(context, directory, target);
    }
  }
  await directory.sync('created');
  return CREATED;
}

async function namesSameFile(
  { fileSystem }: BucketContext,
  temp: TempFile,
  target: string,
): Promise<boolean> {
  const [ours, theirs] = await Promise.all([
    fileSystem.stat(temp.fd),
    fileSystem.stat(target).catch(() => undefined),
  ]);
  return ours.identity === theirs?.identity;
}

/**
 * The object that holds the key. Its bytes were durable before it got its name; the name itself may
 * not be yet, and a power cut would take back what the caller is about to act on.
 */
async function describeExisting(
  { fileSystem, name }: BucketContext,
  directory: SyncedDirectory,
  target: string,
): Promise<CreateOutcome> {
  await directory.sync('exists');
  try {
    const { bytes, sizeBytes } = await readFile(fileSystem, target, 0, EXISTS_HEAD_BYTES);
    return { kind: 'exists', head: bytes, sizeBytes };
  } catch (error) {
    // Also when it has been deleted meanwhile: the caller tries again.
    return { kind: 'unknown', cause: unavailable(error, name) };
  }
}

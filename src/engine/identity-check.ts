/** Whether buckets show the identities of the sets that the metastore has them in. Reads only. */
import { join } from 'node:path';
import { EngineError } from '../lib/errors.ts';
import { identityKey, IDENTITY_READ_BYTES, parseIdentity } from '../format/identity.ts';
import { LmdbMetastore } from '../adapters/lmdb/metastore.ts';
import type { BucketStore, CallOptions } from '../ports/bucket-store.ts';
import { setKey } from '../protocol/keys.ts';
import { parseRecordValue, setRecord, type SetRecord } from '../protocol/records.ts';
import { failed, ok, rowOf, warning, type BucketCheck } from './bucket-report.ts';
import { isPresent } from './stores.ts';

const IDENTITIES = identityKey('x').slice(0, -1);

/** The sets of the metastore in this directory; undefined where there is none yet. */
export async function registeredSets(root: string): Promise<readonly SetRecord[] | undefined> {
  const directory = join(root, 'metastore');
  if (!(await isPresent(directory))) return undefined;
  const metastore = await LmdbMetastore.open({ directory, readOnly: true });
  try {
    const entries = await metastore.children(setKey(''));
    return entries.map(({ key, value }) => parseRecordValue(setRecord, key, value));
  } finally {
    await metastore.close();
  }
}

/** Of a bucket that is not there: a new one of its name would not be the one that its sets know. */
export function withSets(
  error: EngineError,
  name: string,
  sets: readonly SetRecord[] | undefined,
): EngineError {
  const memberOf = setsOf(name, sets).length;
  if (error.details['setting'] !== 'bucket' || memberOf === 0) return error;
  return new EngineError(error.code, error.summary, {
    details: { ...error.details, memberOf },
    cause: error.cause,
  });
}

function setsOf(name: string, sets: readonly SetRecord[] | undefined): SetRecord[] {
  return (sets ?? []).filter(({ buckets }) => buckets.some((bucket) => bucket.name === name));
}

export async function identityRow(
  store: BucketStore,
  sets: readonly SetRecord[] | undefined,
  options: CallOptions,
): Promise<BucketCheck> {
  const mine = setsOf(store.name, sets);
  if (mine.length === 0) return unclaimedRow(store, options);
  return rowOf('identity', async () => {
    for (const set of mine) await confirm(store, set, options);
    return `member of ${mine.length} ${mine.length === 1 ? 'set' : 'sets'}`;
  });
}

/** A bucket of nobody, or of somebody whose metastore is elsewhere. */
async function unclaimedRow(store: BucketStore, options: CallOptions): Promise<BucketCheck> {
  const page = await store.list(IDENTITIES, { ...options, limit: 1 });
  if (page.kind !== 'listed') return failed('identity', page.cause);
  if (page.keys.length === 0) return ok('identity', 'none yet: the first open writes it');
  const summary = 'bucket holds an identity of a set that this metastore does not have';
  const details = { setting: 'metastore', bucket: store.name };
  return warning(
    'identity',
    'of another metastore',
    new EngineError('BUCKET_IDENTITY', summary, { details }),
  );
}

async function confirm(store: BucketStore, set: SetRecord, options: CallOptions): Promise<void> {
  const key = identityKey(set.set);
  const answer = await store.readRange(key, 0, IDENTITY_READ_BYTES, { ...options, evidence: true });
  if (answer.kind === 'unknown') throw answer.cause;
  const parsed = answer.kind === 'found' ? parseIdentity(answer.bytes) : undefined;
  const expected = set.buckets.find(({ name }) => name === store.name);
  const isShown =
    parsed?.ok === true &&
    parsed.identity.setId === set.set &&
    parsed.identity.metastoreId === set.metastore &&
    parsed.identity.bucketId === expected?.bucket;
  if (isShown) return;
  throw new EngineError('BUCKET_IDENTITY', 'bucket does not show the identity of its set', {
    details: { bucket: store.name, set: set.set, found: answer.kind },
  });
}

/** Every call that an engine makes of a bucket, tried one by one. Leaves nothing behind. */
import { EngineError } from '../lib/errors.ts';
import type { BucketStore, CallOptions } from '../ports/bucket-store.ts';
import { failed, rowOf, skipped, type BucketCheck, type CheckName } from './bucket-report.ts';

const BODY = Buffer.from('a trial of asterlog');

/** Whether the bucket answers at all, and lists its keys. */
export function reachRow(store: BucketStore, options: CallOptions): Promise<BucketCheck> {
  return rowOf('reach', async () => {
    const page = await store.list('', { ...options, limit: 1 });
    if (page.kind !== 'listed') throw page.cause;
    return page.keys.length === 0 ? 'empty' : 'has objects';
  });
}

/**
 * Creates, reads and deletes an object, each whether or not the one before succeeds.
 *
 * @param trial - makes the key one that nobody else has.
 */
export async function callRows(
  store: BucketStore,
  trial: string,
  options: CallOptions,
): Promise<BucketCheck[]> {
  const key = `probe/${trial}`;
  const create = await rowOf('create', async () => {
    const outcome = await store.createOnly(key, BODY, options);
    if (outcome.kind === 'refused' || outcome.kind === 'unknown') throw outcome.cause;
    return outcome.kind;
  });
  const read = await rowOf('read', async () => {
    const outcome = await store.readHead(key, BODY.byteLength, { ...options, evidence: true });
    if (outcome.kind === 'unknown') throw outcome.cause;
    const isWhole = outcome.kind === 'found' && Buffer.compare(outcome.bytes, BODY) === 0;
    if (create.verdict === 'ok' && !isWhole) {
      throw new EngineError('BUCKET_REFUSED', 'an object is not what was written a moment ago');
    }
    return outcome.kind;
  });
  const remove = await rowOf('delete', async () => {
    const [outcome] = await store.deleteMany([key], options);
    if (outcome?.kind === 'unknown') throw outcome.cause;
    return 'deleted';
  });
  return [create, read, remove];
}

/** The probe of every open: racing creations, of which one may win. After all else is in order. */
export async function conditionRow(
  store: BucketStore,
  before: readonly BucketCheck[],
  options: CallOptions,
): Promise<BucketCheck> {
  const needed: readonly CheckName[] = ['create', 'read', 'delete', 'versioning', 'lifecycle'];
  const isReady = before.every(
    ({ check, verdict }) => !needed.includes(check) || verdict === 'ok' || verdict === 'skipped',
  );
  if (!isReady) return skipped('condition');
  const outcome = await store.probe(options);
  if (outcome.kind !== 'accepted') return failed('condition', outcome.cause);
  return { check: 'condition', verdict: 'ok', found: 'one of all racing creations wins' };
}

/** Looks after buckets before an engine opens them: makes those that are missing, and says what is wrong. */
import { EngineError } from '../lib/errors.ts';
import { within, type WaitOptions } from '../lib/wait.ts';
import type { CallOptions } from '../ports/bucket-store.ts';
import { DirectoryBucketStore } from '../adapters/directory/bucket-store.ts';
import { systemClock } from '../adapters/system/clock.ts';
import { systemProcesses } from '../adapters/system/processes.ts';
import { systemRandom } from '../adapters/system/random.ts';
import { reasonOf, rowOf, skipped, type BucketCheck, type BucketReport } from './bucket-report.ts';
import type { Components, DirectoryComponents } from './components.ts';
import type { SetRecord } from '../protocol/records.ts';
import { identityRow, registeredSets, withSets } from './identity-check.ts';
import { lookAtS3, placeOfS3, speaksPlainS3, type S3CheckOptions } from './s3-check.ts';
import type { S3BucketDescriptor } from './s3-components.ts';
import { openS3Bucket, openS3Control } from './s3-stores.ts';
import { isPresent } from './stores.ts';
import { callRows, conditionRow, reachRow } from './store-check.ts';

export interface CheckBucketsOptions extends WaitOptions {
  readonly onCheck?: (bucket: string, check: BucketCheck) => void;
}

/**
 * Asks every bucket all that an engine will need of it, and tells each answer. Writes a few objects under
 * `probe/` and removes them; otherwise changes nothing.
 *
 * @throws EngineError INVALID_OPTION; BUCKET_REFUSED without the package that looks after buckets on S3;
 *   METASTORE_CORRUPT. What is wrong with a bucket is in its report.
 */
export async function checkBuckets(
  components: Components,
  { onCheck = () => undefined, ...wait }: CheckBucketsOptions = {},
): Promise<BucketReport[]> {
  if (components.kind === 'memory') throw noBuckets();
  const { root } = components.kind === 's3' ? components.metastore : components;
  const sets = await registeredSets(root);
  return within(systemClock(), wait, 'the check of buckets', ({ signal }) => {
    const optionsOf = (bucket: string): S3CheckOptions => ({
      signal,
      sets,
      trial: systemRandom().hex(8),
      onCheck: (check) => onCheck(bucket, check),
    });
    if (components.kind === 's3') {
      return Promise.all(components.buckets.map((b) => lookAtS3(b, optionsOf(b.name))));
    }
    return Promise.all(components.buckets.map((b) => lookAtDirectory(b, optionsOf(b.name))));
  });
}

type DirectoryBucket = DirectoryComponents['buckets'][number];

async function lookAtDirectory(
  { name, path }: DirectoryBucket,
  { trial, sets, onCheck, ...call }: S3CheckOptions,
): Promise<BucketReport> {
  const checks: BucketCheck[] = [];
  const add = (...rows: readonly BucketCheck[]): void => {
    checks.push(...rows);
    for (const row of rows) onCheck(row);
  };
  let store: DirectoryBucketStore | undefined;
  const opened = await rowOf('reach', async () => {
    if (!(await isPresent(path))) throw withSets(missingDirectory(path), name, sets);
    store = await DirectoryBucketStore.open({ name, root: path, processes: systemProcesses() });
    return 'open';
  });
  if (store === undefined) {
    add(opened, ...(['create', 'read', 'delete', 'condition', 'identity'] as const).map(skipped));
    return { name, place: path, checks };
  }
  try {
    add(await reachRow(store, call));
    add(...(await callRows(store, trial, call)));
    add(await conditionRow(store, checks, call));
    add(await identityRow(store, sets, call));
  } finally {
    await store.close();
  }
  return { name, place: path, checks };
}

export interface BucketInit {
  readonly name: string;
  readonly place: string;
  /** `missing`: it would be created. */
  readonly outcome: 'exists' | 'created' | 'missing' | 'failed';
  readonly error?: EngineError;
}

export interface InitBucketsOptions extends WaitOptions {
  /** Creates nothing. */
  readonly dryRun?: boolean;
  readonly onBucket?: (bucket: BucketInit) => void;
}

/**
 * Creates the buckets that are missing, and nothing in them: versions stay off, no rule is set, and the
 * identities of a set are written by the first engine that opens it. A bucket that the metastore has in a
 * set is not created anew.
 *
 * @throws EngineError as `checkBuckets` does. What is wrong with a bucket is in its entry.
 */
export async function initBuckets(
  components: Components,
  { dryRun = false, onBucket = () => undefined, ...wait }: InitBucketsOptions = {},
): Promise<BucketInit[]> {
  if (components.kind === 'memory') throw noBuckets();
  const { root } = components.kind === 's3' ? components.metastore : components;
  const sets = await registeredSets(root);
  const settle = async (
    bucket: Pick<BucketInit, 'name' | 'place'>,
    init: () => Promise<BucketInit['outcome']>,
  ): Promise<BucketInit> => {
    const done = await init().then(
      (outcome) => ({ ...bucket, outcome }),
      (error: unknown) => {
        if (!EngineError.is(error)) throw error;
        return { ...bucket, outcome: 'failed' as const, error: reasonOf(error) };
      },
    );
    onBucket(done);
    return done;
  };
  return within(systemClock(), wait, 'making buckets', ({ signal }) =>
    Promise.all(
      components.kind === 's3'
        ? components.buckets.map((b) =>
            settle({ name: b.name, place: placeOfS3(b) }, () =>
              initS3(b, dryRun, sets, { signal }),
            ),
          )
        : components.buckets.map((b) =>
            settle({ name: b.name, place: b.path }, () => initDirectory(b, dryRun, sets)),
          ),
    ),
  );
}

async function initS3(
  descriptor: S3BucketDescriptor,
  dryRun: boolean,
  sets: readonly SetRecord[] | undefined,
  options: CallOptions,
): Promise<BucketInit['outcome']> {
  const store = await openS3Bucket(descriptor, { readOnly: true });
  try {
    const page = await store.list('', { ...options, limit: 1 });
    if (page.kind === 'listed') return 'exists';
    const { s3Code } = page.cause.details;
    const cause = withSets(page.cause, descriptor.name, sets);
    // Of a set: what it held is gone, and a new one would be refused.
    if (s3Code !== 'NoSuchBucket' || cause !== page.cause) throw cause;
  } finally {
    await store.close();
  }
  if (!speaksPlainS3(descriptor)) {
    throw new EngineError('BUCKET_REFUSED', 'buckets of this dialect are made with other tools', {
      details: { setting: 'dialect', dialect: descriptor.dialect },
    });
  }
  if (dryRun) return 'missing';
  const control = await openS3Control(descriptor);
  try {
    return (await control.createBucket(options)) ? 'created' : 'exists';
  } finally {
    control.close();
  }
}

async function initDirectory(
  { name, path }: DirectoryBucket,
  dryRun: boolean,
  sets: readonly SetRecord[] | undefined,
): Promise<BucketInit['outcome']> {
  if (await isPresent(path)) return 'exists';
  const missing = missingDirectory(path);
  const known = withSets(missing, name, sets);
  if (known !== missing) throw known;
  if (dryRun) return 'missing';
  const store = await DirectoryBucketStore.open({ name, root: path, processes: systemProcesses() });
  await store.close();
  return 'created';
}

function missingDirectory(path: string): EngineError {
  return new EngineError('BUCKET_REFUSED', 'there is no such bucket', {
    details: { setting: 'bucket', path },
  });
}

function noBuckets(): EngineError {
  return new EngineError('INVALID_OPTION', 'buckets in memory need nobody to look after them', {
    details: { option: 'components.kind', value: 'memory' },
  });
}

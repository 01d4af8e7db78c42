/** What only buckets on S3 can have wrong, and all that any bucket can. */
import { EngineError } from '../lib/errors.ts';
import type { CallOptions } from '../ports/bucket-store.ts';
import { S3Control, type BucketHead } from '../adapters/s3/control.ts';
import { removingRule } from '../adapters/s3/rule-judges.ts';
import type { SetRecord } from '../protocol/records.ts';
import {
  failed,
  ok,
  rowOf,
  skipped,
  warning,
  type BucketCheck,
  type BucketReport,
  type CheckName,
} from './bucket-report.ts';
import { identityRow, withSets } from './identity-check.ts';
import type { S3BucketDescriptor } from './s3-components.ts';
import { openS3Bucket, openS3Control } from './s3-stores.ts';
import { callRows, conditionRow, reachRow } from './store-check.ts';

/** Servers refuse requests that are off by 15 minutes. */
const CLOCK_OFF_MILLIS_MAX = 5 * 60_000;
/** Refusals of everything: the rest would only repeat them. */
const NEXT: readonly CheckName[] = [
  'versioning',
  'lifecycle',
  'create',
  'read',
  'delete',
  'condition',
  'identity',
];

/** The SDK signs and asks as AWS, R2 and most others want it; not as Google does, nor over sessions. */
export function speaksPlainS3({ dialect = 's3' }: S3BucketDescriptor): boolean {
  return dialect === 's3' || dialect === 'r2';
}

export function placeOfS3({ endpoint, bucket, prefix }: S3BucketDescriptor): string {
  return `${new URL(endpoint).origin} ${bucket}/${prefix}`;
}

export interface S3CheckOptions extends CallOptions {
  readonly trial: string;
  readonly sets: readonly SetRecord[] | undefined;
  readonly onCheck: (check: BucketCheck) => void;
}

/** @throws EngineError where the bucket cannot be asked at all: no package, no file of certificates. */
export async function lookAtS3(
  descriptor: S3BucketDescriptor,
  options: S3CheckOptions,
): Promise<BucketReport> {
  const { trial, sets, onCheck, ...call } = options;
  const checks: BucketCheck[] = [];
  const add = (...rows: readonly BucketCheck[]): void => {
    checks.push(...rows);
    for (const row of rows) onCheck(row);
  };
  const control = speaksPlainS3(descriptor) ? await openS3Control(descriptor) : undefined;
  const store = await openS3Bucket(descriptor, { readOnly: false });
  try {
    const row = await reachRow(store, call);
    const reach =
      row.error === undefined ? row : { ...row, error: withSets(row.error, descriptor.name, sets) };
    add(reach);
    const head = await control?.head(call);
    add(head === undefined ? skipped('region') : regionRow(descriptor, head));
    add(head === undefined ? skipped('clock') : clockRow(head));
    if (reach.verdict === 'ok' || reach.error?.details['setting'] === 'permission') {
      // Of other dialects the probe asks what there is to ask.
      const hasRules = control !== undefined;
      add(hasRules ? await versioningRow(control, descriptor, call) : skipped('versioning'));
      add(hasRules ? await lifecycleRow(control, descriptor, call) : skipped('lifecycle'));
      add(...(await callRows(store, trial, call)));
      add(await conditionRow(store, checks, call));
      add(await identityRow(store, sets, call));
    } else {
      add(...NEXT.map(skipped));
    }
  } finally {
    control?.close();
    await store.close();
  }
  return { name: descriptor.name, place: placeOfS3(descriptor), checks };
}

function regionRow(descriptor: S3BucketDescriptor, { region }: BucketHead): BucketCheck {
  if (region === undefined) return skipped('region');
  if (region === descriptor.region) return ok('region', region);
  const details = { setting: 'region', region: descriptor.region, expected: region };
  const error = new EngineError('BUCKET_REFUSED', 'bucket is in another region', { details });
  // Servers that do not look at the region of a signature take any: what counts is whether calls succeed.
  return warning('region', region, error);
}

function clockRow({ clockAheadMillis }: BucketHead): BucketCheck {
  if (clockAheadMillis === undefined) return skipped('clock');
  const seconds = Math.round(Math.abs(clockAheadMillis) / 1_000);
  // The server's answer says the second; the rest is the way here.
  if (seconds <= 2) return ok('clock', 'as the server has it');
  const found = `${seconds} s ${clockAheadMillis > 0 ? 'ahead' : 'behind'}`;
  if (Math.abs(clockAheadMillis) <= CLOCK_OFF_MILLIS_MAX) return ok('clock', found);
  const details = { setting: 'clock', offByMillis: clockAheadMillis };
  const error = new EngineError('BUCKET_REFUSED', 'clock of this machine is off', { details });
  return { ...failed('clock', error), found };
}

function versioningRow(
  control: S3Control,
  { name: bucket }: S3BucketDescriptor,
  options: CallOptions,
): Promise<BucketCheck> {
  return rowOf('versioning', async () => {
    const status = await control.versioning(options);
    if (status === undefined) return 'off';
    throw new EngineError('BUCKET_REFUSED', 'bucket keeps versions of its objects', {
      details: { bucket, setting: 'versioning', value: status },
    });
  });
}

function lifecycleRow(
  control: S3Control,
  { name: bucket, prefix }: S3BucketDescriptor,
  options: CallOptions,
): Promise<BucketCheck> {
  return rowOf('lifecycle', async () => {
    const rules = await control.lifecycle(options);
    const removing = removingRule(rules, prefix);
    if (removing === undefined) {
      return rules.length === 0 ? 'no rules' : `${rules.length} rules, none removes objects here`;
    }
    throw new EngineError('BUCKET_REFUSED', 'a lifecycle rule removes objects', {
      details: { bucket, setting: 'lifecycle', value: removing.id },
    });
  });
}

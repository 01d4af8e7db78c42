/** What somebody can do about a bucket that is not as it must be. */
import type { CheckName } from '../../engine/bucket-report.ts';
import type { EngineError } from '../../lib/errors.ts';

const ADVICE: Readonly<Record<string, string>> = {
  accessKeyId: 'look at the variable or profile that the access key comes from',
  secretAccessKey: 'look at the variable or profile that the secret key comes from',
  sessionToken: 'renew the session, or unset its variable where there is none',
  credentials: 'set the variables that the settings name, or renew the credentials',
  clock: 'set the clock of this machine',
  endpoint: 'look at the URL and port of the service, and at what is in between',
  caFile: 'name the certificates of the authority in caFile, or look at the URL of the service',
  versioning: 'take a bucket that never had versions: turning them off is not enough',
  lifecycle: 'remove the rule, or take a prefix that it is not about',
  dialect: 'make the bucket with the tools of its provider',
  quota: 'make room, or raise the quota',
  metastore: 'use the metastore that this data belongs to, or another prefix',
};

/** @param check - the row of a check that failed with it. */
export function adviceFor(error: EngineError, check?: CheckName): string {
  const { setting, permission, alsoNeeded, expected, package: name } = error.details;
  if (error.code === 'BUCKET_IDENTITY' && setting === undefined) {
    return 'find out what was wiped or replaced; configure a new bucket under a new name';
  }
  // What the probe judges by itself; a refusal by the server names the call.
  const isJudged = error.code === 'BUCKET_REFUSED' && error.details['call'] === undefined;
  if (check === 'condition' && isJudged && (setting === undefined || setting === 'endpoint')) {
    return 'use a server that keeps If-None-Match: *';
  }
  switch (setting) {
    case 'permission':
      return `allow ${[permission ?? 'the call', alsoNeeded ?? []].flat().join(' and ')} for these credentials`;
    case 'region':
      return expected === undefined
        ? 'look at the region in the settings'
        : `set the region to ${String(expected)}`;
    case 'bucket':
      return error.details['s3Code'] === 'BucketAlreadyExists'
        ? 'take another name'
        : error.details['memberOf'] !== undefined
          ? 'bring it back with its objects, or configure a new bucket under another name in its place'
          : 'create it: asterlog buckets init';
    case undefined:
      if (name !== undefined) return `npm install ${String(name)}`;
      if (error.retryable || error.kind === 'cancelled') return 'try again';
      return 'look at the server, and at what the message names';
    default:
      return ADVICE[String(setting)] ?? 'look at the settings';
  }
}

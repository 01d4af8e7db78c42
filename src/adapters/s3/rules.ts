/** Rules of a bucket that would take the create-only promise away behind the store's back. */
import { EngineError } from '../../lib/errors.ts';
import type { ProbeOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import type { Reply } from './exchange.ts';
import {
  networkFailure,
  oddReply,
  replyFailure,
  s3CodeOf,
  textOf,
  type FailureSite,
} from './failure.ts';
import { canonicalQuery } from './sigv4.ts';
import { xmlElements, xmlText } from './xml.ts';

/** A bucket may have a thousand rules. */
const LIFECYCLE_BYTES_MAX = 4 << 20;

/**
 * Versions: a deletion leaves a marker that makes the key look absent, and several servers do not keep
 * the condition at all. Lifecycle: poison that expires gives its slot back to a writer that was fenced.
 */
export async function checkRules(context: BucketContext, call: Call): Promise<ProbeOutcome> {
  const checks = [
    ['versioning', 'check-versioning', ERROR_BYTES_MAX, judgeVersioning],
    ['lifecycle', 'check-lifecycle', LIFECYCLE_BYTES_MAX, judgeLifecycle],
  ] as const;
  for (const [parameter, name, answerBytesMax, judge] of checks) {
    const site = siteOf(context, name);
    try {
      const query = canonicalQuery({ [parameter]: '' });
      const reply = await send(context, call, { method: 'GET', query, answerBytesMax });
      const outcome = judge(reply, site, context.prefix);
      if (outcome !== undefined) return outcome;
    } catch (error) {
      return networkFailure(error, site);
    }
  }
  return { kind: 'accepted' };
}

/** Undefined: nothing speaks against the bucket. */
type Judgement = ProbeOutcome | undefined;

function judgeVersioning(reply: Reply, site: FailureSite): Judgement {
  if (isUnknownHere(reply)) return undefined;
  if (reply.status !== 200) return replyFailure(reply, site);
  const configuration = xmlElements(textOf(reply), 'VersioningConfiguration')[0];
  if (configuration === undefined) return oddReply(reply, site);
  const status = xmlText(configuration, 'Status');
  // Where it is suspended, deletions still leave markers.
  if (status === undefined) return undefined;
  return refused('bucket keeps versions of its objects', site, 'versioning', status);
}

function judgeLifecycle(reply: Reply, site: FailureSite, prefix: string): Judgement {
  if (isUnknownHere(reply)) return undefined;
  if (reply.status === 404 && s3CodeOf(reply) === 'NoSuchLifecycleConfiguration') return undefined;
  if (reply.status !== 200) return replyFailure(reply, site);
  const configuration = xmlElements(textOf(reply), 'LifecycleConfiguration')[0];
  if (configuration === undefined || reply.isCut) return oddReply(reply, site);
  for (const rule of xmlElements(configuration, 'Rule')) {
    if (xmlText(rule, 'Status') !== 'Enabled' || !removes(rule)) continue;
    // A rule for some tags or sizes counts for all objects under its prefix: better safe.
    const ofRule = xmlText(rule, 'Prefix') ?? '';
    if (!ofRule.startsWith(prefix) && !prefix.startsWith(ofRule)) continue;
    const id = xmlText(rule, 'ID') ?? 'without ID';
    return refused('a lifecycle rule removes objects', site, 'lifecycle', id);
  }
  return undefined;
}

const ARCHIVES = new Set(['GLACIER', 'DEEP_ARCHIVE']);

/** Whether what the rule is about cannot be read any more some day. */
function removes(rule: string): boolean {
  const expires = xmlElements(rule, 'Expiration').some(
    (expiration) => xmlElements(expiration, 'ExpiredObjectDeleteMarker').length === 0,
  );
  const archives = xmlElements(rule, 'Transition').some((transition) =>
    ARCHIVES.has(xmlText(transition, 'StorageClass') ?? ''),
  );
  return expires || archives;
}

/** A server without the feature cannot have it turned on. */
function isUnknownHere(reply: Reply): boolean {
  return reply.status === 501 || (reply.status === 400 && s3CodeOf(reply) === 'NotImplemented');
}

function refused(summary: string, site: FailureSite, setting: string, value: string): ProbeOutcome {
  const { bucket, endpoint } = site;
  const details = { bucket, endpoint, setting, value };
  return { kind: 'refused', cause: new EngineError('BUCKET_REFUSED', summary, { details }) };
}

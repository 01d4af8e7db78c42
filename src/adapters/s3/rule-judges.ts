/** What the answers about a bucket's rules mean. */
import { EngineError } from '../../lib/errors.ts';
import type { ProbeOutcome } from '../../ports/bucket-store.ts';
import type { Reply } from './exchange.ts';
import { oddReply, replyFailure, s3CodeOf, textOf, type FailureSite } from './failure.ts';
import { unescapeXml, xmlElements, xmlText } from './xml.ts';

/** Undefined: nothing speaks against the bucket. */
export type Judgement = ProbeOutcome | undefined;

export function judgeVersioning(reply: Reply, site: FailureSite): Judgement {
  if (isUnknownHere(reply)) return undefined;
  if (reply.status !== 200) return replyFailure(reply, site);
  const configuration = xmlElements(textOf(reply), 'VersioningConfiguration')[0];
  if (configuration === undefined) return oddReply(reply, site);
  const status = xmlText(configuration, 'Status');
  // Where it is suspended, deletions still leave markers.
  if (status === undefined) return undefined;
  return refused('bucket keeps versions of its objects', site, 'versioning', status);
}

export function judgeLifecycle(reply: Reply, site: FailureSite, prefix: string): Judgement {
  if (isUnknownHere(reply)) return undefined;
  if (reply.status === 404 && s3CodeOf(reply) === 'NoSuchLifecycleConfiguration') return undefined;
  if (reply.status !== 200) return replyFailure(reply, site);
  const configuration = xmlElements(textOf(reply), 'LifecycleConfiguration')[0];
  if (configuration === undefined || reply.isCut) return oddReply(reply, site);
  const rules = xmlElements(configuration, 'Rule').map(ruleOf);
  const removing = removingRule(rules, prefix);
  if (removing === undefined) return undefined;
  return refused('a lifecycle rule removes objects', site, 'lifecycle', removing.id);
}

/** What of a lifecycle rule decides whether objects stay. */
export interface LifecycleRule {
  readonly id: string;
  readonly isEnabled: boolean;
  readonly prefix: string;
  /** Objects end; not only the markers of deleted ones. */
  readonly expires: boolean;
  /** Where objects are moved to. */
  readonly storageClasses: readonly string[];
}

const ARCHIVES = new Set(['GLACIER', 'DEEP_ARCHIVE']);

/**
 * The first rule by which an object under the prefix cannot be read any more some day. A rule for some
 * tags or sizes counts for all objects under its prefix: better safe.
 */
export function removingRule(
  rules: readonly LifecycleRule[],
  prefix: string,
): LifecycleRule | undefined {
  return rules.find(
    (rule) =>
      rule.isEnabled &&
      (rule.expires || rule.storageClasses.some((name) => ARCHIVES.has(name))) &&
      overlap(rule.prefix, prefix),
  );
}

function ruleOf(rule: string): LifecycleRule {
  return {
    id: xmlText(rule, 'ID') ?? 'without ID',
    isEnabled: xmlText(rule, 'Status') === 'Enabled',
    prefix: xmlText(rule, 'Prefix') ?? '',
    expires: xmlElements(rule, 'Expiration').some(
      (expiration) => xmlElements(expiration, 'ExpiredObjectDeleteMarker').length === 0,
    ),
    storageClasses: xmlElements(rule, 'Transition').map(
      (transition) => xmlText(transition, 'StorageClass') ?? '',
    ),
  };
}

/** Rules of Google Cloud Storage. What they move can still be read; what they delete is gone. */
export function judgeGcsLifecycle(reply: Reply, site: FailureSite, prefix: string): Judgement {
  if (reply.status !== 200) return replyFailure(reply, site);
  const configuration = xmlElements(textOf(reply), 'LifecycleConfiguration')[0];
  if (configuration === undefined || reply.isCut) return oddReply(reply, site);
  for (const [index, rule] of xmlElements(configuration, 'Rule').entries()) {
    if (xmlElements(rule, 'Delete').length === 0) continue;
    const prefixes = xmlElements(rule, 'MatchesPrefix');
    const isElsewhere = prefixes.every((text) => !overlap(unescapeXml(text.trim()), prefix));
    if (prefixes.length > 0 && isElsewhere) continue;
    return refused('a lifecycle rule removes objects', site, 'lifecycle', `rule ${index + 1}`);
  }
  return undefined;
}

function overlap(left: string, right: string): boolean {
  return left.startsWith(right) || right.startsWith(left);
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

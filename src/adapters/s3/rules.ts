/** Rules of a bucket that would take the create-only promise away behind the store's back. */
import type { ProbeOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import { networkFailure } from './failure.ts';
import { judgeGcsLifecycle, judgeLifecycle, judgeVersioning } from './rule-judges.ts';
import { canonicalQuery } from './sigv4.ts';

/** A bucket may have a thousand rules. */
const LIFECYCLE_BYTES_MAX = 4 << 20;

const CHECKS = {
  versioning: ['versioning', 'check-versioning', ERROR_BYTES_MAX, judgeVersioning],
  lifecycle: ['lifecycle', 'check-lifecycle', LIFECYCLE_BYTES_MAX, judgeLifecycle],
  'gcs-lifecycle': ['lifecycle', 'check-lifecycle', LIFECYCLE_BYTES_MAX, judgeGcsLifecycle],
} as const;

/**
 * Versions: a deletion leaves a marker that makes the key look absent, and several servers do not keep
 * the condition at all. Lifecycle: poison that expires gives its slot back to a writer that was fenced.
 */
export async function checkRules(context: BucketContext, call: Call): Promise<ProbeOutcome> {
  for (const rule of context.dialect.rules) {
    const [parameter, name, answerBytesMax, judge] = CHECKS[rule];
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

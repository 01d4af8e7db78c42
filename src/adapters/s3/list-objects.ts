import type { ListOptions, ListOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import { networkFailure, oddReply, replyFailure, textOf } from './failure.ts';
import { canonicalQuery } from './sigv4.ts';
import { xmlElements, xmlText } from './xml.ts';

/** As many as one answer may have. */
const PAGE_KEYS_MAX = 1_000;
/** What an entry says of a key besides the key. */
const ENTRY_BYTES = 4_096;

/** One page. */
export async function listObjects(
  context: BucketContext,
  call: Call,
  prefix: string,
  options: ListOptions,
): Promise<ListOutcome> {
  const site = siteOf(context, 'list');
  const { startAfter = '', limit = PAGE_KEYS_MAX } = options;
  const keysMax = Math.max(1, Math.min(limit, PAGE_KEYS_MAX));
  const query = {
    'list-type': '2',
    'encoding-type': 'url',
    'max-keys': keysMax.toString(),
    prefix: context.prefix + prefix,
    ...(startAfter === '' ? {} : { 'start-after': context.prefix + startAfter }),
  };
  try {
    const reply = await send(context, call, {
      method: 'GET',
      query: canonicalQuery(query),
      answerBytesMax: ERROR_BYTES_MAX + keysMax * ENTRY_BYTES,
    });
    if (reply.status !== 200) {
      return { kind: 'unknown', cause: replyFailure(reply, site).cause };
    }
    const xml = reply.isCut ? '' : textOf(reply);
    const isTruncated = xmlText(xml, 'IsTruncated');
    if (isTruncated !== 'true' && isTruncated !== 'false') {
      return { kind: 'unknown', cause: oddReply(reply, site).cause };
    }
    const keys = xmlElements(xml, 'Contents').map((entry) => {
      const name = decodeURIComponent((xmlText(entry, 'Key') ?? '').replaceAll('+', ' '));
      return name.slice(context.prefix.length);
    });
    return { kind: 'listed', keys, more: isTruncated === 'true' };
  } catch (error) {
    return { kind: 'unknown', cause: networkFailure(error, site).cause };
  }
}

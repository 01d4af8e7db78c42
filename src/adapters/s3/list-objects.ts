import type { ListOptions, ListOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import { networkFailure, oddReply, replyFailure, textOf, type Failure } from './failure.ts';
import { canonicalQuery } from './sigv4.ts';
import { xmlElements, xmlText } from './xml.ts';

/** As many as one answer may have. */
const PAGE_KEYS_MAX = 1_000;
/** What an entry says of a key besides the key. */
const ENTRY_BYTES = 4_096;

/** What one answer to a list says. */
export interface ListPage {
  /** With everything that stands in front of them. */
  readonly names: readonly string[];
  readonly more: boolean;
  /** Where the next page begins; empty where the server does not say. */
  readonly next: string;
}

/** One page. */
export async function listObjects(
  context: BucketContext,
  call: Call,
  prefix: string,
  options: ListOptions,
): Promise<ListOutcome> {
  const { startAfter = '', limit = PAGE_KEYS_MAX } = options;
  const keysMax = Math.max(1, Math.min(limit, PAGE_KEYS_MAX));
  const within = { prefix: context.prefix + prefix, startAfter: context.prefix + startAfter };
  const page = context.dialect.listsInOrder
    ? await listPage(context, call, keysMax, {
        prefix: within.prefix,
        ...(startAfter === '' ? {} : { 'start-after': within.startAfter }),
      })
    : await listSorted(context, call, keysMax, within);
  if (isFailure(page)) return { kind: 'unknown', cause: page.cause };
  const keys = page.names.map((name) => name.slice(context.prefix.length));
  return { kind: 'listed', keys, more: page.more };
}

/** Of a server that lists in no order: all pages are read, and the first keys of their order kept. */
async function listSorted(
  context: BucketContext,
  call: Call,
  keysMax: number,
  { prefix, startAfter }: { readonly prefix: string; readonly startAfter: string },
): Promise<ListPage | Failure> {
  let kept: string[] = [];
  let next: string | undefined;
  // The prefix that is asked for has to end with a slash there.
  const asked = prefix.slice(0, prefix.lastIndexOf('/') + 1);
  do {
    const page: ListPage | Failure = await listPage(context, call, PAGE_KEYS_MAX, {
      ...(asked === '' ? {} : { prefix: asked }),
      ...(next === undefined ? {} : { 'continuation-token': next }),
    });
    if (isFailure(page)) return page;
    const fitting = page.names.filter((name) => name.startsWith(prefix) && name > startAfter);
    // One more than wanted tells whether there are more.
    kept = [...kept, ...fitting].sort(byteOrder).slice(0, keysMax + 1);
    next = page.more ? page.next : undefined;
  } while (next !== undefined);
  return { names: kept.slice(0, keysMax), more: kept.length > keysMax, next: '' };
}

async function listPage(
  context: BucketContext,
  call: Call,
  keysMax: number,
  parameters: Readonly<Record<string, string>>,
): Promise<ListPage | Failure> {
  const site = siteOf(context, 'list');
  const query = {
    'list-type': '2',
    'encoding-type': 'url',
    'max-keys': keysMax.toString(),
    ...parameters,
  };
  try {
    const reply = await send(context, call, {
      method: 'GET',
      query: canonicalQuery(query),
      answerBytesMax: ERROR_BYTES_MAX + keysMax * ENTRY_BYTES,
    });
    if (reply.status !== 200) return replyFailure(reply, site);
    const page = reply.isCut ? undefined : pageIn(textOf(reply));
    const hasNext = context.dialect.listsInOrder ? page?.names.length !== 0 : page?.next !== '';
    return page === undefined || (page.more && !hasNext) ? oddReply(reply, site) : page;
  } catch (error) {
    return networkFailure(error, site);
  }
}

/** Undefined: it is no list. */
export function pageIn(xml: string): ListPage | undefined {
  const isTruncated = xmlText(xml, 'IsTruncated');
  if (isTruncated !== 'true' && isTruncated !== 'false') return undefined;
  const names: string[] = [];
  for (const entry of xmlElements(xml, 'Contents')) {
    const name = unescaped(xmlText(entry, 'Key') ?? '');
    if (name === undefined) return undefined;
    names.push(name);
  }
  const next = xmlText(xml, 'NextContinuationToken') ?? '';
  return { names, more: isTruncated === 'true', next };
}

function unescaped(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

function byteOrder(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

function isFailure(page: ListPage | Failure): page is Failure {
  return 'kind' in page;
}

import type { ReadOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import type { Reply } from './exchange.ts';
import { networkFailure, oddReply, replyFailure, s3CodeOf, textOf } from './failure.ts';
import { xmlText } from './xml.ts';

export interface ReadRange {
  readonly key: string;
  readonly start: number;
  readonly end: number;
}

const EMPTY = new Uint8Array(0);

/** One GET of a range. */
export async function readObject(
  context: BucketContext,
  call: Call,
  range: ReadRange,
): Promise<ReadOutcome> {
  const { key, start, end } = range;
  const site = siteOf(context, 'read');
  // A range has at least one byte: of an empty one only the size is wanted.
  const last = Math.max(start, end - 1);
  const wantedBytes = last - start + 1;
  let reply: Reply;
  try {
    reply = await send(context, call, {
      method: 'GET',
      key,
      headers: [['range', `bytes=${start}-${last}`]],
      answerBytesMax: Math.max(wantedBytes, ERROR_BYTES_MAX),
    });
  } catch (error) {
    return { kind: 'unknown', cause: networkFailure(error, site).cause };
  }
  const { status } = reply;
  if (status === 206) {
    const sizeBytes = sizeIn(reply, start);
    const expected = sizeBytes === undefined ? -1 : Math.min(wantedBytes, sizeBytes - start);
    if (sizeBytes !== undefined && reply.body.byteLength === expected) {
      return { kind: 'found', bytes: reply.body.subarray(0, end - start), sizeBytes };
    }
    return { kind: 'unknown', cause: oddReply(reply, site).cause };
  }
  if (status === 416) return beyondTheEnd(context, call, range, reply);
  // Only the server can say that there is no object; a page of a proxy cannot.
  if (status === 404 && s3CodeOf(reply) === 'NoSuchKey') return { kind: 'absent' };
  const failure = status === 200 ? oddReply(reply, site) : replyFailure(reply, site);
  return { kind: 'unknown', cause: failure.cause };
}

/** The object ends before the range begins: what is left to say is its size. */
async function beyondTheEnd(
  context: BucketContext,
  call: Call,
  { key, start }: ReadRange,
  reply: Reply,
): Promise<ReadOutcome> {
  const told = /^bytes \*\/(\d+)$/.exec(reply.header('content-range') ?? '')?.[1];
  const sizeBytes = safeSize(told ?? xmlText(textOf(reply), 'ActualObjectSize'));
  if (sizeBytes !== undefined && sizeBytes <= start)
    return { kind: 'found', bytes: EMPTY, sizeBytes };
  if (sizeBytes !== undefined) {
    return { kind: 'unknown', cause: oddReply(reply, siteOf(context, 'read')).cause };
  }
  // An object without a first byte has none at all.
  if (start === 0) return { kind: 'found', bytes: EMPTY, sizeBytes: 0 };
  const first = await readObject(context, call, { key, start: 0, end: 1 });
  return first.kind === 'found' ? { ...first, bytes: EMPTY } : first;
}

/** The size of the object, when the answer is of the range that was asked for. */
function sizeIn(reply: Reply, start: number): number | undefined {
  const match = /^bytes (\d+)-\d+\/(\d+)$/.exec(reply.header('content-range') ?? '');
  if (match === null || Number(match[1]) !== start) return undefined;
  return safeSize(match[2]);
}

function safeSize(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined;
  return Number(text);
}

import { EXISTS_HEAD_BYTES, type CreateOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import { networkFailure, oddReply, replyFailure } from './failure.ts';
import type { Reply } from './exchange.ts';
import { hedgedPut, type PutVerdict } from './hedged-put.ts';
import { PAYLOAD_HASHES } from './payload-hash.ts';
import { readObject } from './read-object.ts';
import { UNSIGNED_PAYLOAD } from './sigv4.ts';

export interface Creation {
  readonly key: string;
  readonly bytes: Uint8Array;
  /** It may be sent a second time when it is late. */
  readonly hedges: boolean;
}

const CREATED = { kind: 'created' } as const;
const HELD = { kind: 'held' } as const;

/**
 * A PUT on the condition that the key is absent. That the condition failed says only that there is
 * an object: an earlier attempt of ours may have made it, so it is shown and not judged.
 */
export async function createObject(
  context: BucketContext,
  call: Call,
  { key, bytes, hedges }: Creation,
): Promise<CreateOutcome> {
  const { signsPayload } = context;
  const hash = signsPayload ? PAYLOAD_HASHES.acquire(bytes, context.sha256) : UNSIGNED_PAYLOAD;
  try {
    // Another thread may read the memory itself.
    const payloadHash = typeof hash === 'string' ? hash : await call.whileTouching(() => hash);
    const put = (attempt: Call): Promise<PutVerdict> =>
      putObject(context, attempt, { key, bytes, payloadHash });
    const verdict = hedges
      ? await hedgedPut(context, call, bytes.byteLength, put)
      : await put(call);
    if (verdict.kind !== 'held') return verdict;
  } finally {
    if (signsPayload) PAYLOAD_HASHES.release(bytes);
  }
  return describeExisting(context, call, key);
}

async function putObject(
  context: BucketContext,
  call: Call,
  { key, bytes, payloadHash }: { key: string; bytes: Uint8Array; payloadHash: string },
): Promise<PutVerdict> {
  const site = siteOf(context, 'create');
  let reply: Reply;
  try {
    reply = await send(context, call, {
      method: 'PUT',
      key,
      headers: [context.dialect.onlyIfAbsent],
      // A view of its own for every request: it is known by it when the socket gets it.
      body: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      payloadHash,
      answerBytesMax: ERROR_BYTES_MAX,
    });
  } catch (error) {
    return networkFailure(error, site);
  }
  if (reply.status === 412) return HELD;
  if (reply.status !== 200) return replyFailure(reply, site);
  // A proxy may answer 200 for the server with a page of its own.
  const isStored = reply.header('etag') !== undefined && reply.body.byteLength === 0;
  return isStored ? CREATED : oddReply(reply, site);
}

async function describeExisting(
  context: BucketContext,
  call: Call,
  key: string,
): Promise<CreateOutcome> {
  const range = { key, start: 0, end: EXISTS_HEAD_BYTES };
  const found = await readObject(context, call, range);
  if (found.kind === 'found') {
    return { kind: 'exists', head: found.bytes, sizeBytes: found.sizeBytes };
  }
  if (found.kind === 'unknown') return found;
  // Deleted meanwhile, or not to be seen yet: the caller tries again.
  const reply: Reply = {
    status: 412,
    header: () => undefined,
    body: new Uint8Array(0),
    isCut: false,
  };
  return oddReply(reply, siteOf(context, 'create'));
}

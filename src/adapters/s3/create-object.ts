import { EXISTS_HEAD_BYTES, type CreateOutcome } from '../../ports/bucket-store.ts';
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import { networkFailure, oddReply, replyFailure } from './failure.ts';
import type { Reply } from './exchange.ts';
import { PAYLOAD_HASHES } from './payload-hash.ts';
import { readObject } from './read-object.ts';
import { UNSIGNED_PAYLOAD } from './sigv4.ts';

const CREATED: CreateOutcome = { kind: 'created' };
const ONLY_IF_ABSENT = [['if-none-match', '*']] as const;

/**
 * One PUT on the condition that the key is absent. That the condition failed says only that there is
 * an object: an earlier attempt of ours may have made it, so it is shown and not judged.
 */
export async function createObject(
  context: BucketContext,
  call: Call,
  key: string,
  bytes: Uint8Array,
): Promise<CreateOutcome> {
  const site = siteOf(context, 'create');
  const { signsPayload } = context;
  // A view of its own for every request: it is known by it when the socket gets it.
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let reply: Reply;
  try {
    const payloadHash = signsPayload ? PAYLOAD_HASHES.acquire(bytes) : UNSIGNED_PAYLOAD;
    reply = await send(context, call, {
      method: 'PUT',
      key,
      headers: ONLY_IF_ABSENT,
      body,
      payloadHash,
      answerBytesMax: ERROR_BYTES_MAX,
    });
  } catch (error) {
    return networkFailure(error, site);
  } finally {
    if (signsPayload) PAYLOAD_HASHES.release(bytes);
  }
  if (reply.status === 412) return describeExisting(context, call, key);
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

import { createHash } from 'node:crypto';
import type { DeleteOutcome } from '../../ports/bucket-store.ts';
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
import { canonicalQuery, sha256Hex } from './sigv4.ts';
import { escapeXml, xmlElements, xmlText } from './xml.ts';

/** As many as one request may name. */
const BATCH_KEYS_MAX = 1_000;
/** An entry of the answer names the key and, at most, why it failed. */
const ANSWER_BYTES_MAX = ERROR_BYTES_MAX + BATCH_KEYS_MAX * 2_048;

const DELETED: DeleteOutcome = { kind: 'deleted' };

export async function deleteObject(
  context: BucketContext,
  call: Call,
  key: string,
): Promise<DeleteOutcome> {
  const site = siteOf(context, 'delete');
  try {
    const reply = await send(context, call, {
      method: 'DELETE',
      key,
      answerBytesMax: ERROR_BYTES_MAX,
    });
    if (reply.status === 204) return DELETED;
    if (reply.status === 404 && s3CodeOf(reply) === 'NoSuchKey') return { kind: 'absent' };
    const failure = reply.status === 200 ? oddReply(reply, site) : replyFailure(reply, site);
    return { kind: 'unknown', cause: failure.cause };
  } catch (error) {
    return { kind: 'unknown', cause: networkFailure(error, site).cause };
  }
}

/** Of servers without batches. */
const SINGLES_AT_ONCE = 16;

/** Batches one after the other. S3 does not tell what was there from what was not. */
export async function deleteObjects(
  context: BucketContext,
  call: Call,
  keys: readonly string[],
): Promise<DeleteOutcome[]> {
  const outcomes: DeleteOutcome[] = [];
  if (!context.dialect.deletesMany) {
    while (outcomes.length < keys.length) {
      const atOnce = Math.min(SINGLES_AT_ONCE, context.windows.others.concurrent);
      const some = keys.slice(outcomes.length, outcomes.length + atOnce);
      outcomes.push(...(await Promise.all(some.map((key) => deleteObject(context, call, key)))));
    }
    return outcomes;
  }
  for (let at = 0; at < keys.length; at += BATCH_KEYS_MAX) {
    outcomes.push(...(await deleteBatch(context, call, keys.slice(at, at + BATCH_KEYS_MAX))));
  }
  return outcomes;
}

async function deleteBatch(
  context: BucketContext,
  call: Call,
  keys: readonly string[],
): Promise<DeleteOutcome[]> {
  const site = siteOf(context, 'delete');
  const names = keys.map((key) => `${context.prefix}${key}`);
  const objects = names.map((name) => `<Object><Key>${escapeXml(name)}</Key></Object>`).join('');
  const body = Buffer.from(
    `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${objects}</Delete>`,
  );
  try {
    const reply = await send(context, call, {
      method: 'POST',
      query: canonicalQuery({ delete: '' }),
      // Every server asks for a digest of this body, and all know this one.
      headers: [['content-md5', createHash('md5').update(body).digest('base64')]],
      body,
      payloadHash: sha256Hex(body),
      answerBytesMax: ANSWER_BYTES_MAX,
    });
    if (reply.status !== 200) {
      const { cause } = replyFailure(reply, site);
      return names.map(() => ({ kind: 'unknown', cause }));
    }
    return outcomesIn(reply, names, site);
  } catch (error) {
    const { cause } = networkFailure(error, site);
    return names.map(() => ({ kind: 'unknown', cause }));
  }
}

/** An answer with a good status tells for each key what became of it, and why not. */
function outcomesIn(reply: Reply, names: readonly string[], site: FailureSite): DeleteOutcome[] {
  const xml = textOf(reply);
  const outcomes = new Map<string | undefined, DeleteOutcome>();
  for (const entry of xmlElements(xml, 'Deleted')) outcomes.set(xmlText(entry, 'Key'), DELETED);
  for (const entry of xmlElements(xml, 'Error')) {
    outcomes.set(xmlText(entry, 'Key'), refusalIn(entry, reply, site));
  }
  const { cause } = oddReply(reply, site);
  return names.map((name) => outcomes.get(name) ?? { kind: 'unknown', cause });
}

/** It means what an answer with this error alone means. */
function refusalIn(entry: string, reply: Reply, site: FailureSite): DeleteOutcome {
  const single: Reply = { ...reply, body: Buffer.from(entry) };
  const code = s3CodeOf(single);
  if (code === 'NoSuchKey') return { kind: 'absent' };
  const status = code === 'SlowDown' ? 503 : reply.status;
  return { kind: 'unknown', cause: replyFailure({ ...single, status }, site).cause };
}

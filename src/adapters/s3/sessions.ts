/** Sessions of directory buckets: credentials of the bucket itself, for a few minutes. */
import type { Call } from '../calls/calls.ts';
import { ERROR_BYTES_MAX, send, siteOf, type BucketContext } from './context.ts';
import type { CredentialSource } from './credentials.ts';
import type { Reply } from './exchange.ts';
import { networkFailure, oddReply, replyFailure, textOf } from './failure.ts';
import { canonicalQuery, type Credentials } from './sigv4.ts';
import { xmlText } from './xml.ts';

/** They last five minutes: a new one is asked for while the old one is good for one more. */
export const SESSION_REFRESH_BEFORE_MILLIS = 60_000;

export type SessionMode = 'ReadOnly' | 'ReadWrite';

/** Asked for once for many calls, so none of them ends it; time-outs of the connection do. */
function unboundCall(): Call {
  return { abandoned: undefined, onAbandoned: undefined, whileTouching: (work) => work() };
}

/** @param context - of which the credentials may ask for sessions. */
export function sessionSource(context: BucketContext, mode: SessionMode): CredentialSource {
  const site = siteOf(context, 'open-session');
  return async () => {
    let reply: Reply;
    try {
      reply = await send(context, unboundCall(), {
        method: 'GET',
        query: canonicalQuery({ session: '' }),
        headers: [['x-amz-create-session-mode', mode]],
        answerBytesMax: ERROR_BYTES_MAX,
      });
    } catch (error) {
      throw networkFailure(error, site).cause;
    }
    if (reply.status !== 200) throw replyFailure(reply, site).cause;
    const session = sessionIn(textOf(reply));
    if (session === undefined) throw oddReply(reply, site).cause;
    return session;
  };
}

/** Undefined: it is no answer to a request for a session. */
export function sessionIn(xml: string): Credentials | undefined {
  const accessKeyId = xmlText(xml, 'AccessKeyId');
  const secretAccessKey = xmlText(xml, 'SecretAccessKey');
  const sessionToken = xmlText(xml, 'SessionToken');
  const expiresAtMillis = Date.parse(xmlText(xml, 'Expiration') ?? '');
  if (!accessKeyId || !secretAccessKey || !sessionToken) return undefined;
  if (Number.isNaN(expiresAtMillis)) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken, expiresAtMillis };
}

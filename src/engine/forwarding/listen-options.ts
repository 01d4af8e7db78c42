/** How an engine listens for others; off unless given. */
import * as v from 'valibot';
import { isWellFormed } from '../../format/bytes.ts';
import { EngineError } from '../../lib/errors.ts';

const TOKEN_BYTES_MIN = 16;
const TOKEN_BYTES_MAX = 256;
/** Addresses that no other engine can connect to. */
const EVERYWHERE = new Set(['0.0.0.0', '::']);

const options = v.strictObject({
  host: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(253)), '127.0.0.1'),
  port: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(65_535)), 0),
  token: v.unknown(),
  advertise: v.optional(
    v.pipe(
      v.string(),
      v.regex(
        /^(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?$/i,
        'must be host or host:port',
      ),
    ),
  ),
});

export interface ListenOptions {
  /** @default '127.0.0.1' */
  readonly host?: string;
  /** @default 0, any port that is free */
  readonly port?: number;
  /** The secret that all engines of a metastore share, 16 to 256 bytes; never printed. */
  readonly token: string;
  /** What other engines connect to, `host` or `host:port`. @default the host and port listened at */
  readonly advertise?: string;
}

export interface CheckedListenOptions {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly advertise?: string | undefined;
}

/** @throws EngineError INVALID_OPTION, which never holds the token. */
export function checkListenOptions(input: unknown): CheckedListenOptions {
  const parsed = v.safeParse(options, input);
  if (!parsed.success) throw listenError(parsed.issues[0]);
  const { host, port, token, advertise } = parsed.output;
  if (typeof token !== 'string' || !isWellFormed(token)) {
    throw new EngineError('INVALID_OPTION', 'engines that listen share a secret', {
      details: { option: 'listen.token', type: typeof token },
    });
  }
  const bytes = Buffer.byteLength(token);
  if (bytes < TOKEN_BYTES_MIN || bytes > TOKEN_BYTES_MAX) {
    throw new EngineError('INVALID_OPTION', 'the secret has too few or too many bytes', {
      details: { option: 'listen.token', bytes, min: TOKEN_BYTES_MIN, max: TOKEN_BYTES_MAX },
    });
  }
  if (EVERYWHERE.has(host) && advertise === undefined) {
    throw new EngineError('INVALID_OPTION', 'who listens everywhere says where to connect', {
      details: { option: 'listen.advertise', host },
    });
  }
  if (advertise !== undefined && !URL.canParse(`http://${advertise}`)) {
    throw new EngineError('INVALID_OPTION', 'an address is host or host:port, up to port 65535', {
      details: { option: 'listen.advertise' },
    });
  }
  return { host, port, token, advertise };
}

/** Names the option and its type, never its value: any of them may be the secret in a wrong place. */
function listenError(issue: v.BaseIssue<unknown>): EngineError {
  const path = v.getDotPath(issue);
  const option = path === null ? 'listen' : `listen.${path}`;
  const isNumber = typeof issue.input === 'number';
  return new EngineError('INVALID_OPTION', 'an option is not valid', {
    details: {
      option,
      problem: issue.type,
      type: typeof issue.input,
      ...(isNumber ? { value: issue.input } : {}),
      ...(typeof issue.requirement === 'number' ? { bound: issue.requirement } : {}),
    },
  });
}

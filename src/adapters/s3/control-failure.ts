/** What the SDK throws, read as the hot path reads the answer it came of: one meaning for each code. */
import { EngineError } from '../../lib/errors.ts';
import { networkFailure, replyFailure, type FailureSite } from './failure.ts';
import { escapeXml } from './xml.ts';

interface ServiceError {
  readonly name: string;
  readonly Region?: unknown;
  readonly $metadata: { readonly httpStatusCode: number };
  readonly $response?: { readonly headers?: Readonly<Record<string, string>> };
}

/** An error with nothing of the request in it, which has headers with a signature and a token. */
export function errorOfSdk(error: unknown, site: FailureSite): EngineError {
  if (EngineError.is(error)) return error;
  if (!isServiceError(error)) return networkFailure(withoutRequest(error), site).cause;
  const region = typeof error.Region === 'string' ? error.Region : '';
  const told = region === '' ? '' : `<Region>${escapeXml(region)}</Region>`;
  const xml = `<Error><Code>${escapeXml(error.name)}</Code>${told}</Error>`;
  const headers = error.$response?.headers ?? {};
  const reply = {
    status: error.$metadata.httpStatusCode,
    header: (name: string) => headers[name],
    body: Buffer.from(xml),
    isCut: false,
  };
  return replyFailure(reply, site).cause;
}

function isServiceError(error: unknown): error is ServiceError {
  const { $metadata } = (error ?? {}) as Partial<ServiceError>;
  return typeof $metadata?.httpStatusCode === 'number';
}

/** The SDK hangs more on errors than the system did. */
function withoutRequest(error: unknown): Error {
  const { code, name, message, errors } = (error ?? {}) as Record<string, unknown>;
  // Of several addresses each has its own.
  const first = Array.isArray(errors) ? (errors[0] as { code?: unknown } | undefined) : undefined;
  const told = code ?? first?.code ?? name;
  return Object.assign(new Error(typeof message === 'string' ? message : 'failed'), {
    code: typeof told === 'string' ? told : 'UNKNOWN',
  });
}

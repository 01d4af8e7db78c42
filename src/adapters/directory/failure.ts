/** What a failed file-system call means for the outcome of a call on the bucket. */
import { constants } from 'node:os';
import { EngineError, type ErrorCode } from '../../lib/errors.ts';

/** Codes after which nothing was stored and somebody has to act. Everything else leaves it unknown. */
const REFUSALS: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  ENOSPC: ['BUCKET_FULL', 'bucket directory has no room'],
  EDQUOT: ['BUCKET_FULL', 'bucket directory is over its quota'],
  EROFS: ['BUCKET_REFUSED', 'bucket directory is read-only'],
  EACCES: ['BUCKET_REFUSED', 'bucket directory may not be used'],
  EPERM: ['BUCKET_REFUSED', 'file system does not permit the operation'],
  ENOTSUP: ['BUCKET_REFUSED', 'file system does not support the operation'],
  ENOSYS: ['BUCKET_REFUSED', 'file system does not know the operation'],
  EXDEV: ['BUCKET_REFUSED', 'bucket directory spans several file systems'],
};
/** Node has no name for this one. */
const QUOTA_ERRNO = (constants.errno as Readonly<Record<string, number>>)['EDQUOT'];

export type FailureOutcome =
  | { readonly kind: 'refused'; readonly cause: EngineError }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

/** The system's code of a failed call, `UNKNOWN` when it has none. */
export function codeOf(error: unknown): string {
  const { code, errno } = (error ?? {}) as { code?: unknown; errno?: unknown };
  if (typeof errno === 'number' && QUOTA_ERRNO !== undefined && Math.abs(errno) === QUOTA_ERRNO) {
    return 'EDQUOT';
  }
  return typeof code === 'string' ? code : 'UNKNOWN';
}

export function isFull(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** The outcome of a creation of which the system said `error` before the object had its name. */
export function failureOutcome(error: unknown, bucket: string): FailureOutcome {
  if (EngineError.is(error)) return { kind: 'unknown', cause: error };
  const refusal = REFUSALS[codeOf(error)];
  if (refusal === undefined) return { kind: 'unknown', cause: unavailable(error, bucket) };
  const [code, summary] = refusal;
  return { kind: 'refused', cause: describe(code, summary, error, bucket) };
}

/** The error of a read, a list or a deletion. */
export function readError(error: unknown, bucket: string): EngineError {
  return isFull(error) ? unavailable(error, bucket) : failureOutcome(error, bucket).cause;
}

/** The error of a call whose effect nobody can tell. */
export function unavailable(error: unknown, bucket: string): EngineError {
  if (EngineError.is(error)) return error;
  return describe('BUCKET_UNAVAILABLE', 'bucket directory failed', error, bucket, 'possible');
}

export function readOnlyError(bucket: string): EngineError {
  return new EngineError('BUCKET_REFUSED', 'bucket directory was opened to read only', {
    details: { bucket },
  });
}

/** The error of a bucket that does not open. */
export function openError(error: unknown, bucket: string): EngineError {
  return EngineError.is(error) ? error : failureOutcome(error, bucket).cause;
}

function describe(
  code: ErrorCode,
  summary: string,
  error: unknown,
  bucket: string,
  sideEffects: 'none' | 'possible' = 'none',
): EngineError {
  const { syscall } = (error ?? {}) as { syscall?: string };
  return new EngineError(code, summary, {
    details: { bucket, systemCode: codeOf(error), syscall },
    sideEffects,
    cause: error,
  });
}

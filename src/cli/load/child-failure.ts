/** The error that ends a child process, as it travels to its parent. */
import { ERROR_CODES, EngineError, toEngineError, type ErrorCode } from '../../lib/errors.ts';

/** With what the cause says: that names the setting of a bucket that refuses, for one. */
export function failureOf(error: unknown): Record<string, unknown> {
  const known = toEngineError(error);
  const { cause } = known;
  return { ...known.toJSON(), ...(cause instanceof Error ? { cause: cause.message } : {}) };
}

/** Undefined where a child sent something else. */
export function errorOfChild(
  failure: Record<string, unknown> | undefined,
): EngineError | undefined {
  const { code, message, cause } = failure ?? {};
  if (typeof code !== 'string' || !(code in ERROR_CODES) || typeof message !== 'string') {
    return undefined;
  }
  return new EngineError(code as ErrorCode, message, {
    sideEffects: 'possible',
    ...(typeof cause === 'string' ? { cause: new Error(cause) } : {}),
  });
}

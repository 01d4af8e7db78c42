import { EngineError } from './errors.ts';

export const OBJECT_KEY_BYTES_MAX = 512;

const SEGMENTS = /^[a-z0-9._-]+(?:\/[a-z0-9._-]+)*$/;
const DOTS_ONLY = /(?:^|\/)\.{1,2}(?:\/|$)/;
const PREFIX = /^[a-z0-9._/-]*$/;

/**
 * Checks the key of an object: `/`-separated segments of `[a-z0-9._-]`, none of them empty, `.` or
 * `..`, at most 512 bytes. What passes is safe as a path of a file system and as a key of S3.
 *
 * @throws {EngineError} `INVALID_NAME`.
 */
export function checkObjectKey(key: string): void {
  if (key.length <= OBJECT_KEY_BYTES_MAX && SEGMENTS.test(key) && !DOTS_ONLY.test(key)) return;
  throw new EngineError('INVALID_NAME', 'object key is not acceptable', {
    details: { key, bytesMax: OBJECT_KEY_BYTES_MAX },
  });
}

/**
 * Checks a prefix to list, or a key to list after: any run of the characters of keys.
 *
 * @throws {EngineError} `INVALID_NAME`.
 */
export function checkObjectPrefix(prefix: string): void {
  if (prefix.length <= OBJECT_KEY_BYTES_MAX && PREFIX.test(prefix)) return;
  throw new EngineError('INVALID_NAME', 'object key prefix is not acceptable', {
    details: { prefix, bytesMax: OBJECT_KEY_BYTES_MAX },
  });
}

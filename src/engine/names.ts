import { isWellFormed } from '../format/bytes.ts';
import { EngineError } from '../lib/errors.ts';
import { LIMITS } from '../protocol/limits.ts';

/**
 * Checks a stream name: well-formed text of 1 to 512 bytes of UTF-8, not `.` or `..`.
 *
 * @throws EngineError INVALID_NAME
 */
export function checkStreamName(name: unknown): string {
  if (typeof name !== 'string') {
    throw new EngineError('INVALID_NAME', 'a stream name is a string', {
      details: { type: typeof name },
    });
  }
  if (!isWellFormed(name)) {
    throw new EngineError(
      'INVALID_NAME',
      'a stream name is well-formed text: it holds a lone surrogate',
      {
        details: { name: Buffer.from(name).toString() },
      },
    );
  }
  const bytes = Buffer.byteLength(name);
  if (bytes < 1 || bytes > LIMITS.streamNameBytes) {
    throw new EngineError('INVALID_NAME', 'a stream name has too few or too many bytes', {
      details: { name, bytes, min: 1, max: LIMITS.streamNameBytes },
    });
  }
  if (name === '.' || name === '..') {
    throw new EngineError('INVALID_NAME', 'a stream name is neither . nor ..', {
      details: { name },
    });
  }
  return name;
}

import { randomBytes } from 'node:crypto';
import type { Random } from '../../lib/random.ts';

/** The system's randomness: unpredictable bytes for ids, a fast generator for jitter. */
export function systemRandom(): Random {
  return {
    hex: (byteCount) => randomBytes(byteCount).toString('hex'),
    fraction: () => Math.random(),
  };
}

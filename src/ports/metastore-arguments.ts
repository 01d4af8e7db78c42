/**
 * What every metastore adapter checks before it touches its store, so that a key or value refused
 * by one technology is refused by all.
 */
import { EngineError } from '../lib/errors.ts';
import { META_VALUE_BYTES_MAX } from './metastore.ts';

/** Longest key: a stream name of 512 bytes in hex, with room for its place. */
export const META_KEY_BYTES_MAX = 1_500;

/** Greater than every character a key may hold: `prefix + KEY_AFTER` bounds the prefix from above. */
export const KEY_AFTER = '\x7f';

const KEY = /^[!-.0-~]+(?:\/[!-.0-~]+)*$/;
const PART_OF_KEY = /^[!-~]*$/;

/**
 * Keys are printable ASCII without blanks, in `/`-separated segments of which none is empty.
 *
 * @throws EngineError INVALID_NAME
 */
export function checkMetaKey(key: string): void {
  if (key.length > META_KEY_BYTES_MAX || !KEY.test(key)) throw invalidKey('key', key);
}

/** Prefixes and bounds of ranges: any part of a key, also an empty one. */
export function checkMetaBound(bound: string): void {
  if (bound.length > META_KEY_BYTES_MAX || !PART_OF_KEY.test(bound)) {
    throw invalidKey('bound', bound);
  }
}

/** @throws EngineError INVALID_RECORD for values above META_VALUE_BYTES_MAX */
export function checkMetaValue(key: string, value: Uint8Array): void {
  if (value.byteLength <= META_VALUE_BYTES_MAX) return;
  throw new EngineError('INVALID_RECORD', 'a metastore value is too large', {
    details: { key, valueBytes: value.byteLength, maxBytes: META_VALUE_BYTES_MAX },
  });
}

function invalidKey(what: 'key' | 'bound', value: string): EngineError {
  return new EngineError('INVALID_NAME', `a metastore ${what} is not valid`, {
    details: { [what]: value, length: value.length, maxLength: META_KEY_BYTES_MAX },
  });
}

/** Errors as engines tell them each other: code, summary, side effects, details; no stack, no cause. */
import {
  EngineError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorDetails,
  type SideEffects,
} from '../lib/errors.ts';
import { utf8Encode } from './bytes.ts';
import { peerProtocolError } from './peer-frame.ts';

const ERROR_BYTES_MAX = 16 * 1024;
const SUMMARY_UNITS_MAX = 300;
const DETAIL_UNITS_MAX = 600;
const DETAILS_MAX = 16;
/** A timer takes no longer wait, and fires at once instead. */
const RETRY_AFTER_MILLIS_MAX = 2 ** 31 - 1;

export function encodePeerError(error: EngineError): Uint8Array {
  const { code, summary, sideEffects, retryAfterMillis } = error;
  const details = Object.fromEntries(
    Object.entries(error.details)
      .slice(0, DETAILS_MAX)
      .map(([key, value]) => [key, shortened(value)]),
  );
  const short = summary.slice(0, SUMMARY_UNITS_MAX);
  const whole = { code, summary: short, sideEffects, retryAfterMillis, details };
  const bytes = utf8Encode(JSON.stringify(whole));
  if (bytes.length <= ERROR_BYTES_MAX) return bytes;
  return utf8Encode(JSON.stringify({ ...whole, details: {} }));
}

/** @throws EngineError PEER_PROTOCOL */
export function decodePeerError(text: string): EngineError {
  const value = text.length <= ERROR_BYTES_MAX ? parse(text) : undefined;
  if (!isObject(value)) throw peerProtocolError('an error does not parse');
  const { code, summary, sideEffects, retryAfterMillis, details } = value;
  if (typeof code !== 'string' || typeof summary !== 'string' || !isSideEffects(sideEffects)) {
    throw peerProtocolError('an error lacks its code');
  }
  const isAfter =
    typeof retryAfterMillis === 'number' &&
    retryAfterMillis >= 0 &&
    retryAfterMillis <= RETRY_AFTER_MILLIS_MAX;
  const known = Object.hasOwn(ERROR_CODES, code);
  const short = summary.slice(0, SUMMARY_UNITS_MAX);
  return new EngineError(known ? (code as ErrorCode) : 'INTERNAL', short, {
    sideEffects,
    ...(isAfter ? { retryAfterMillis } : {}),
    details: known
      ? detailsOf(details, DETAILS_MAX)
      : { ...detailsOf(details, DETAILS_MAX - 1), peerCode: shortened(code) },
  });
}

function shortened<T>(value: T): T | string {
  return typeof value === 'string' ? value.slice(0, DETAIL_UNITS_MAX) : value;
}

function detailsOf(value: unknown, max: number): ErrorDetails {
  if (!isObject(value)) return {};
  const plain = Object.entries(value).filter(([, entry]) =>
    ['string', 'number', 'boolean'].includes(typeof entry),
  );
  // Built from entries: a key named after a property of every object stays a plain key.
  return Object.fromEntries(
    plain.slice(0, max).map(([key, entry]) => [key, shortened(entry)]),
  ) as ErrorDetails;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isSideEffects(value: unknown): value is SideEffects {
  return value === 'none' || value === 'possible';
}

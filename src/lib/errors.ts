/**
 * The one error class of Asterlog: a closed list of codes, a coarse `kind` that says what to do,
 * and whether the failed call may have left effects behind.
 *
 * Messages are lower case, carry no trailing dot and end with `key=value` pairs; secrets never
 * enter them. Two copies of the package recognise each other's errors through a symbol brand.
 */

export type ErrorKind =
  /** Fix the call: repeating it unchanged fails again. */
  | 'invalid'
  /** The state moved or is not what the call assumed: read again, then decide. */
  | 'conflict'
  /** This writer is over; open the stream again. */
  | 'fenced'
  /** Retry later, with back-off. */
  | 'unavailable'
  /** Wait and alert on its age; nobody can decide yet. */
  | 'undecided'
  /** Stored bytes are not what they must be. */
  | 'corrupt'
  /** The handle was closed by its owner. */
  | 'closed'
  /** The caller gave up through its signal. */
  | 'cancelled'
  /** A bug: an invariant does not hold. */
  | 'internal';

/** Every code with its kind. `docs/errors.md` explains each; a test compares the two lists. */
export const ERROR_CODES = {
  INVALID_OPTION: 'invalid',
  INVALID_NAME: 'invalid',
  INVALID_RECORD: 'invalid',
  INVALID_POSITION: 'invalid',
  BATCH_EMPTY: 'invalid',
  BATCH_TOO_LARGE: 'invalid',
  RECORD_TOO_LARGE: 'invalid',
  STREAM_NOT_FOUND: 'conflict',
  STREAM_EXISTS: 'conflict',
  STREAM_DELETED: 'conflict',
  STREAM_HELD: 'unavailable',
  STREAM_IN_LIMBO: 'unavailable',
  STREAM_UNSETTLED: 'unavailable',
  NOT_LEADING: 'conflict',
  ENGINE_DRAINING: 'unavailable',
  SEQ_NUM_MISMATCH: 'conflict',
  FENCING_TOKEN_MISMATCH: 'conflict',
  REJECTION_UNCONFIRMED: 'unavailable',
  TRIMMED: 'conflict',
  BEYOND_TAIL: 'conflict',
  STAR_IN_USE: 'unavailable',
  STAR_UNKNOWN: 'conflict',
  EPOCH_UNKNOWN: 'conflict',
  LEASE_LOST: 'fenced',
  FENCED: 'fenced',
  FENCE_UNDECIDED: 'undecided',
  POOL_EXHAUSTED: 'unavailable',
  DEADLINE_EXCEEDED: 'unavailable',
  INDETERMINATE: 'unavailable',
  ABORTED: 'cancelled',
  CLOSED: 'closed',
  BUCKET_UNAVAILABLE: 'unavailable',
  BUCKET_REFUSED: 'invalid',
  BUCKET_FULL: 'unavailable',
  BUCKET_IDENTITY: 'corrupt',
  LAYOUT_VERSION: 'invalid',
  METASTORE_UNAVAILABLE: 'unavailable',
  METASTORE_INDETERMINATE: 'unavailable',
  METASTORE_CORRUPT: 'corrupt',
  CORRUPT_OBJECT: 'corrupt',
  FOREIGN_OBJECT: 'corrupt',
  ACKNOWLEDGED_SLOT_POISONED: 'corrupt',
  DATA_LOSS: 'corrupt',
  PEER_UNAVAILABLE: 'unavailable',
  PEER_REFUSED: 'invalid',
  PEER_PROTOCOL: 'corrupt',
  INVARIANT: 'internal',
  INTERNAL: 'internal',
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** Whether the failed call may have changed anything. */
export type SideEffects = 'none' | 'possible';

/** Values that make a message useful: what was wrong, which bound, which object. */
export type ErrorDetails = Readonly<Record<string, string | number | boolean | undefined>>;

export interface ErrorOptions {
  readonly sideEffects?: SideEffects;
  readonly retryAfterMillis?: number;
  readonly details?: ErrorDetails;
  readonly cause?: unknown;
}

const BRAND = Symbol.for('asterlog.EngineError');

export class EngineError extends Error {
  readonly code: ErrorCode;
  readonly kind: ErrorKind;
  /** The message without its details. */
  readonly summary: string;
  readonly sideEffects: SideEffects;
  readonly retryAfterMillis: number | undefined;
  readonly details: ErrorDetails;

  /**
   * @param summary - lower case, constant text; the details are appended as `key=value`.
   */
  constructor(code: ErrorCode, summary: string, options: ErrorOptions = {}) {
    super(
      formatMessage(summary, options.details),
      options.cause === undefined ? {} : { cause: options.cause },
    );
    this.name = 'EngineError';
    this.summary = summary;
    this.code = code;
    this.kind = ERROR_CODES[code];
    this.sideEffects = options.sideEffects ?? 'none';
    this.retryAfterMillis = options.retryAfterMillis;
    this.details = options.details ?? {};
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** True for errors of any copy of this package in the process. */
  static is(error: unknown): error is EngineError {
    return typeof error === 'object' && error !== null && BRAND in error;
  }

  /** True when the same call may succeed later without being changed. */
  get retryable(): boolean {
    return this.kind === 'unavailable' || this.kind === 'undecided';
  }

  /** Plain data for `--json` output and for crossing threads. */
  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      kind: this.kind,
      message: this.message,
      sideEffects: this.sideEffects,
      ...(this.retryAfterMillis === undefined ? {} : { retryAfterMillis: this.retryAfterMillis }),
      details: this.details,
    };
  }
}

function formatMessage(summary: string, details: ErrorDetails | undefined): string {
  if (details === undefined) return summary;
  const pairs = Object.entries(details)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${typeof value === 'string' ? quote(value) : textOf(value)}`);
  return pairs.length === 0 ? summary : `${summary} ${pairs.join(' ')}`;
}

/** A value that a caller passed, as text for a message; whatever it is, naming it must not throw. */
export function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    // An object without a prototype, or one whose own `toString` fails.
    return typeof value;
  }
}

/** Long or odd values are shortened and escaped, so that one error stays one line. */
function quote(value: string): string {
  const short = value.length > 200 ? `${value.slice(0, 200)}...` : value;
  return /^[\w./:@+-]+$/.test(short) ? short : JSON.stringify(short);
}

/** The error itself when it is ours, else an INTERNAL one around it. */
export function toEngineError(error: unknown, summary = 'unexpected failure'): EngineError {
  if (EngineError.is(error)) return error;
  return new EngineError('INTERNAL', summary, { cause: error, sideEffects: 'possible' });
}

/** What a look at a bucket found, one row a question, with a verdict of its own each. */
import { EngineError } from '../lib/errors.ts';

export type CheckName =
  | 'reach'
  | 'region'
  | 'clock'
  | 'versioning'
  | 'lifecycle'
  | 'create'
  | 'read'
  | 'delete'
  | 'condition'
  | 'identity';

export interface BucketCheck {
  readonly check: CheckName;
  /**
   * `refused` until somebody changes something; `unknown`: nobody can tell now; `warning`: it works, and
   * somebody should look; `skipped`: another row says why.
   */
  readonly verdict: 'ok' | 'warning' | 'refused' | 'unknown' | 'skipped';
  /** What there is, for people. */
  readonly found: string;
  /** Why it is not `ok`; `setting` in the details says what to look at. */
  readonly error?: EngineError;
}

export interface BucketReport {
  readonly name: string;
  /** The directory, or endpoint, bucket and prefix. */
  readonly place: string;
  readonly checks: readonly BucketCheck[];
}

export function ok(check: CheckName, found: string): BucketCheck {
  return { check, verdict: 'ok', found };
}

export function skipped(check: CheckName): BucketCheck {
  return { check, verdict: 'skipped', found: '-' };
}

export function warning(check: CheckName, found: string, error: EngineError): BucketCheck {
  return { check, verdict: 'warning', found, error };
}

/** A call that was given up says so; where the time was over, its cause says that. */
export function reasonOf(error: EngineError): EngineError {
  return error.code === 'ABORTED' && EngineError.is(error.cause) ? error.cause : error;
}

/** What may pass by itself is unknown; anything else is refused. */
export function failed(check: CheckName, given: EngineError): BucketCheck {
  const error = reasonOf(given);
  const mayPass = error.retryable || error.kind === 'cancelled';
  return { check, verdict: mayPass ? 'unknown' : 'refused', found: error.summary, error };
}

/** The rows that a function makes, or why there are none. */
export async function rowOf(check: CheckName, look: () => Promise<string>): Promise<BucketCheck> {
  try {
    return ok(check, await look());
  } catch (error) {
    if (EngineError.is(error)) return failed(check, error);
    throw error;
  }
}

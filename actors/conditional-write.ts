/**
 * Conditional writes whose outcome may be lost. A write of unknown outcome may be applied much later:
 * it is read back; mine is done, anything else is tried again with the same condition, never taken
 * for "not applied". A conflict is answered by a write only: a read may be stale.
 * Source: DESIGN "Metastore".
 */
import { backoffMillis, type BackoffOptions } from '../src/lib/backoff.ts';
import type { Clock } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import type { Random } from '../src/lib/random.ts';
import { linkedSignal, sleep, throwIfAborted, type WaitOptions } from '../src/lib/wait.ts';
import { attemptOf } from '../src/protocol/records.ts';
import {
  partitionOf,
  type DeleteResult,
  type MetaEntry,
  type Metastore,
  type MetaVersion,
  type PutResult,
} from '../src/ports/metastore.ts';

export interface ConditionalPut {
  readonly key: string;
  readonly expected: MetaVersion | 'absent';
  /** The value with the attempt id in it. */
  readonly encode: (attempt: string) => Uint8Array;
}

export interface ConditionalContext extends WaitOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Pauses between tries; up to two seconds by default. */
  readonly retry?: BackoffOptions;
  /** A try that is not answered for so long is given up and counts as of unknown outcome. */
  readonly attemptMillis?: number;
}

const RETRY: BackoffOptions = { firstMillis: 10, maxMillis: 2_000 };

/**
 * Writes under one condition until the outcome is known. Reads of the partition that follow
 * `applied` see the write.
 *
 * @throws EngineError ABORTED or DEADLINE_EXCEEDED (`sideEffects: 'possible'` once a write of unknown
 *   outcome was sent), and what the metastore throws beside unavailability.
 */
export async function conditionalPut(
  metastore: Metastore,
  { key, expected, encode }: ConditionalPut,
  context: ConditionalContext,
): Promise<PutResult> {
  const attempt = context.random.hex(8);
  const value = encode(attempt);
  return untilKnown(context, key, async (signal, isRetry) => {
    if (isRetry) {
      const current = await metastore.get(key, { signal });
      if (current !== undefined && attemptOf(current.value) === attempt) {
        return acknowledged(metastore, current, signal);
      }
    }
    const result = await metastore.put(key, value, expected, { signal });
    if (result.kind === 'conflict' && isOwn(result.current, attempt)) {
      return acknowledged(metastore, result.current, signal);
    }
    return result;
  });
}

/** Deletes under one condition until the outcome is known; an entry that is gone counts as deleted. */
export async function conditionalDelete(
  metastore: Metastore,
  { key, expected }: { readonly key: string; readonly expected: MetaVersion },
  context: ConditionalContext,
): Promise<DeleteResult> {
  return untilKnown(context, key, async (signal) => {
    const result = await metastore.delete(key, expected, { signal });
    return result.kind === 'conflict' && result.current === undefined
      ? { kind: 'deleted' }
      : result;
  });
}

/**
 * A write that was only read back has the force of an acknowledged one after a barrier: what the
 * caller reads next on the partition is no older than the write.
 */
async function acknowledged(
  metastore: Metastore,
  { key, version }: MetaEntry,
  signal: AbortSignal,
): Promise<PutResult> {
  await metastore.barrier(partitionOf(key), { signal });
  return { kind: 'applied', version };
}

function isOwn(entry: MetaEntry | undefined, attempt: string): entry is MetaEntry {
  return entry !== undefined && attemptOf(entry.value) === attempt;
}

async function untilKnown<T>(
  context: ConditionalContext,
  key: string,
  run: (signal: AbortSignal, isRetry: boolean) => Promise<T>,
): Promise<T> {
  throwIfAborted(context.signal, 'metastore write');
  const limited = linkedSignal(context.clock, context, 'metastore write');
  let isOpen = false;
  try {
    for (let tries = 0; ; tries++) {
      try {
        return await oneTry(context, limited.signal, (signal) => run(signal, tries > 0));
      } catch (cause) {
        const error = toEngineError(cause);
        if (error.code === 'METASTORE_INDETERMINATE') isOpen = true;
        if (limited.signal.aborted || !error.retryable) throw error;
      }
      const pause = backoffMillis(context.random, tries, context.retry ?? RETRY);
      await sleep(context.clock, pause, limited.signal);
    }
  } catch (cause) {
    throw givenUp(limited.signal, toEngineError(cause), isOpen, key);
  } finally {
    limited.release();
  }
}

async function oneTry<T>(
  { clock, attemptMillis }: ConditionalContext,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (attemptMillis === undefined) return run(signal);
  const attempt = linkedSignal(clock, { signal, timeoutMillis: attemptMillis }, 'metastore call');
  try {
    return await run(attempt.signal);
  } catch (cause) {
    if (!attempt.signal.aborted || signal.aborted) throw cause;
    throw new EngineError('METASTORE_INDETERMINATE', 'a call of the metastore was not answered', {
      details: { attemptMillis },
      sideEffects: 'possible',
      cause,
    });
  } finally {
    attempt.release();
  }
}

function givenUp(
  signal: AbortSignal,
  error: EngineError,
  isOpen: boolean,
  key: string,
): EngineError {
  const sideEffects = isOpen || error.sideEffects === 'possible' ? 'possible' : 'none';
  if (!signal.aborted && sideEffects === error.sideEffects) return error;
  const reason: unknown = signal.reason;
  let code = error.code;
  if (signal.aborted) {
    code = EngineError.is(reason) && reason.code === 'DEADLINE_EXCEEDED' ? reason.code : 'ABORTED';
  }
  return new EngineError(code, 'a metastore write was given up', {
    sideEffects,
    details: { key },
    cause: error,
  });
}

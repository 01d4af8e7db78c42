import type { Clock, TimerHandle } from './clock.ts';
import { EngineError, textOf } from './errors.ts';
import { forManyListeners } from './many-listeners.ts';

/** What every call that waits accepts. A call without either waits as long as it takes. */
export interface WaitOptions {
  /** Gives up with `ABORTED` when it fires (also when it has fired already). */
  readonly signal?: AbortSignal | undefined;
  /** Gives up with `DEADLINE_EXCEEDED` after this many milliseconds. */
  readonly timeoutMillis?: number | undefined;
}

/**
 * Callers in plain JavaScript pass null, or a number, where options belong.
 *
 * @throws EngineError INVALID_OPTION
 */
export function checkOptionsObject(options: unknown): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return;
  throw new EngineError('INVALID_OPTION', 'options are an object', {
    details: { option: 'options', type: options === null ? 'null' : typeof options },
  });
}

/**
 * Checks what a caller passed before anything is done for the call.
 *
 * @param more - names that this call takes besides `signal` and `timeoutMillis`.
 * @throws EngineError INVALID_OPTION
 */
export function checkWaitOptions(options: WaitOptions, more: readonly string[] = []): void {
  checkOptionsObject(options);
  for (const name of Object.keys(options)) {
    if (name === 'signal' || name === 'timeoutMillis' || more.includes(name)) continue;
    throw new EngineError('INVALID_OPTION', 'this call takes no such option', {
      details: { option: name, known: ['signal', 'timeoutMillis', ...more].join(',') },
    });
  }
  const { signal, timeoutMillis } = options;
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new EngineError('INVALID_OPTION', 'a signal is an AbortSignal', {
      details: { option: 'signal', type: typeof signal },
    });
  }
  if (timeoutMillis === undefined) return;
  if (typeof timeoutMillis === 'number' && timeoutMillis >= 0) return;
  throw new EngineError('INVALID_OPTION', 'a deadline is a number of milliseconds from 0', {
    details: { option: 'timeoutMillis', value: textOf(timeoutMillis), min: 0 },
  });
}

export function abortedError(signal: AbortSignal, what: string): EngineError {
  return new EngineError('ABORTED', `${what} was given up by its signal`, { cause: signal.reason });
}

/** What a call ends with whose signal fired: the error that the signal carries, as a deadline does, or ABORTED. */
export function givenUpError(signal: AbortSignal, what: string): EngineError {
  const reason: unknown = signal.reason;
  return EngineError.is(reason) ? reason : abortedError(signal, what);
}

export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted === true) throw abortedError(signal, what);
}

/** Resolves after `millis`, or rejects with `ABORTED` as soon as the signal fires. */
export function sleep(clock: Clock, millis: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(abortedError(signal, 'wait'));
      return;
    }
    const onAbort = (): void => {
      clock.clearTimeout(timer);
      reject(abortedError(signal!, 'wait'));
    };
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, millis);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * Waits for `promise` within the caller's signal and deadline. The work behind the promise is left
 * alone when the caller gives up; its later failure is swallowed here, since nobody listens.
 *
 * @param what - names the wait in the error, for example `'append'`.
 * @param onDeadline - builds the error of a passed deadline; `DEADLINE_EXCEEDED` by default.
 */
export function waitFor<T>(
  clock: Clock,
  promise: Promise<T>,
  options: WaitOptions,
  what: string,
  onDeadline: () => EngineError = () => deadlineError(what, options.timeoutMillis ?? 0),
): Promise<T> {
  const { signal, timeoutMillis } = options;
  if (signal?.aborted === true) {
    promise.catch(() => undefined);
    return Promise.reject(abortedError(signal, what));
  }
  if (signal === undefined && timeoutMillis === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    let timer: TimerHandle | undefined;
    const onAbort = (): void => {
      finish();
      reject(abortedError(signal!, what));
    };
    const finish = (): void => {
      if (timer !== undefined) clock.clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    if (timeoutMillis !== undefined) {
      timer = clock.setTimeout(() => {
        finish();
        reject(onDeadline());
      }, timeoutMillis);
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => {
        finish();
        resolve(value);
      },
      (error: unknown) => {
        finish();
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}

export function deadlineError(what: string, timeoutMillis: number): EngineError {
  return new EngineError('DEADLINE_EXCEEDED', `${what} did not end before its deadline`, {
    details: { timeoutMillis },
    sideEffects: 'possible',
  });
}

/** One signal that fires when the caller's does or when the deadline passes; release it after use. */
export function linkedSignal(
  clock: Clock,
  options: WaitOptions,
  what: string,
): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = forManyListeners(new AbortController());
  const { signal, timeoutMillis } = options;
  const onAbort = (): void => {
    controller.abort(signal!.reason);
  };
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  const timer =
    timeoutMillis === undefined
      ? undefined
      : clock.setTimeout(() => {
          controller.abort(deadlineError(what, timeoutMillis));
        }, timeoutMillis);
  return {
    signal: controller.signal,
    release: () => {
      if (timer !== undefined) clock.clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    },
  };
}

/** One deadline over all steps of a call. */
export interface TimeLimit {
  /** Fires when the caller gives up or the deadline passes. */
  readonly signal: AbortSignal;
  /** What is left, for steps that say by themselves why they did not end in time. */
  readonly left: () => WaitOptions;
}

/**
 * Runs all steps of a call under its one deadline.
 *
 * @throws what `run` throws; DEADLINE_EXCEEDED in place of the ABORTED of a step that heard of the
 *   deadline through the signal.
 */
export async function within<T>(
  clock: Clock,
  options: WaitOptions,
  what: string,
  run: (limit: TimeLimit) => Promise<T>,
): Promise<T> {
  const { signal, timeoutMillis } = options;
  const limited = linkedSignal(clock, { signal, timeoutMillis }, what);
  const endsAt = clock.monotonic() + (timeoutMillis ?? 0);
  const left = (): WaitOptions =>
    timeoutMillis === undefined
      ? { signal }
      : { signal, timeoutMillis: Math.max(0, endsAt - clock.monotonic()) };
  try {
    return await run({ signal: limited.signal, left });
  } catch (error) {
    const isLate = limited.signal.aborted && signal?.aborted !== true;
    if (isLate && EngineError.is(error) && error.code === 'ABORTED') throw limited.signal.reason;
    throw error;
  } finally {
    limited.release();
  }
}

/** A promise with its two ends (Node 20 has no `Promise.withResolvers`). */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

export function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((res, rej) => {
    resolve = res;
    reject = rej;
  });
  return { promise, resolve, reject };
}

import { EngineError, type ErrorDetails } from '../../lib/errors.ts';
import { abortedError } from '../../lib/wait.ts';
import { Signals } from './signals.ts';

/** One call of a bucket's client while it runs. */
export interface Call {
  /** Set once the caller gives up, or is answered without waiting for the work. */
  readonly abandoned: EngineError | undefined;
  /** Called once when the caller gives up, so that the work can be cut short. */
  onAbandoned: (() => void) | undefined;
  /**
   * Runs `work`, during which the caller is not answered, whatever happens: it would take back
   * memory that the system still reads. Several may run at once.
   */
  whileTouching<T>(work: () => Promise<T>): Promise<T>;
}

export interface CallRequest<T> {
  /** Names the call in errors. */
  readonly what: string;
  readonly signal: AbortSignal | undefined;
  /** Memory that it holds while it waits; none by default. */
  readonly sizeBytes?: number;
  readonly work: (call: Call) => Promise<T>;
  /** The outcome of a call that is answered before its work has ended. */
  readonly unknown: (cause: EngineError) => T;
}

/** How many calls may be at work at once, now. */
export interface CallLimit {
  readonly concurrent: number;
}

/** What may wait in a lane. A call that waits alone may be of any size. */
export interface WaitingLimit {
  readonly calls: number;
  readonly bytes: number;
}

/**
 * Well above what an engine has under way: a window of 1,024 flights, of which a pool of 256 MiB by
 * default holds the bytes. Whoever is over it is told at once, and tries again as after any failure.
 */
const WAITING_DEFAULT: WaitingLimit = { calls: 4_096, bytes: 1 << 30 };

/**
 * A lane of calls: at most so many at work, the rest in a bounded queue, each bounded in time. Work that
 * outlives its answer keeps its place in the lane until it ends, so that storage that hangs holds a
 * bounded number of threads, connections, files and buffers.
 */
export class Calls {
  readonly #bucket: string;
  readonly #limit: CallLimit;
  readonly #timeoutMillis: number;
  readonly #waiting: WaitingLimit;
  readonly #whenLate: ErrorDetails;
  readonly #queue = new Set<() => void>();
  #queuedBytes = 0;
  readonly #signals = new Signals();
  #active = 0;
  #isClosed = false;
  #idle: (() => void)[] = [];

  /** @param whenLate - what to look at where nothing answers in time, for the details of the error. */
  constructor(
    bucket: string,
    limit: number | CallLimit,
    timeoutMillis: number,
    waiting: WaitingLimit = WAITING_DEFAULT,
    whenLate: ErrorDetails = {},
  ) {
    this.#bucket = bucket;
    this.#limit = typeof limit === 'number' ? { concurrent: limit } : limit;
    this.#timeoutMillis = timeoutMillis;
    this.#waiting = waiting;
    this.#whenLate = whenLate;
  }

  run<T>(request: CallRequest<T>): Promise<T> {
    const { signal, sizeBytes = 0, unknown } = request;
    if (this.#isClosed) return Promise.resolve(unknown(this.#closedError()));
    if (signal?.aborted === true) {
      return Promise.resolve(unknown(abortedError(signal, request.what)));
    }
    const isQueued = this.#active >= this.#limit.concurrent;
    if (isQueued && !this.#hasRoomFor(sizeBytes)) {
      return Promise.resolve(unknown(this.#crowdedError(request.what)));
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        if (this.#queue.delete(start)) this.#queuedBytes -= sizeBytes;
      };
      const start = (): void => {
        leave();
        this.#active++;
        void running.work().finally(() => this.#ended());
      };
      const running = new RunningCall(request, {
        resolve,
        reject,
        cancel: leave,
        timeout: () => this.#timeoutError(request.what),
        timeoutMillis: this.#timeoutMillis,
        signals: this.#signals,
      });
      if (!isQueued) return start();
      this.#queue.add(start);
      this.#queuedBytes += sizeBytes;
    });
  }

  /** Takes no more calls and waits for those there are. False: some hang past their time-out. */
  async close(): Promise<boolean> {
    this.#isClosed = true;
    if (this.#active === 0) return true;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve);
      timer = setTimeout(resolve, this.#timeoutMillis);
    });
    clearTimeout(timer);
    return this.#active === 0;
  }

  #ended(): void {
    this.#active--;
    for (const start of this.#queue) {
      if (this.#active >= this.#limit.concurrent) return;
      start();
    }
    if (this.#active === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #hasRoomFor(sizeBytes: number): boolean {
    const { calls, bytes } = this.#waiting;
    if (this.#queue.size === 0) return true;
    return this.#queue.size < calls && this.#queuedBytes + sizeBytes <= bytes;
  }

  /** Nothing of the call was done. */
  #crowdedError(what: string): EngineError {
    const { calls: callsMax, bytes: bytesMax } = this.#waiting;
    const waiting = { calls: this.#queue.size, callsMax, bytes: this.#queuedBytes, bytesMax };
    return new EngineError('BUCKET_UNAVAILABLE', 'too many calls wait for the bucket', {
      details: { bucket: this.#bucket, call: what, ...waiting },
    });
  }

  #closedError(): EngineError {
    return new EngineError('CLOSED', 'bucket store is closed', {
      details: { bucket: this.#bucket },
    });
  }

  #timeoutError(what: string): EngineError {
    return new EngineError('BUCKET_UNAVAILABLE', 'bucket did not answer in time', {
      details: {
        bucket: this.#bucket,
        call: what,
        timeoutMillis: this.#timeoutMillis,
        ...this.#whenLate,
      },
      sideEffects: 'possible',
    });
  }
}

interface RunningCallOptions<T> {
  readonly resolve: (outcome: T) => void;
  readonly reject: (error: Error) => void;
  /** Takes the call out of the queue, if it is still there. */
  readonly cancel: () => void;
  readonly timeout: () => EngineError;
  readonly timeoutMillis: number;
  readonly signals: Signals;
}

class RunningCall<T> implements Call {
  abandoned: EngineError | undefined;
  onAbandoned: (() => void) | undefined;
  readonly #request: CallRequest<T>;
  readonly #options: RunningCallOptions<T>;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort: (() => void) | undefined;
  #touching = 0;

  constructor(request: CallRequest<T>, options: RunningCallOptions<T>) {
    this.#request = request;
    this.#options = options;
    const { signal, what } = request;
    this.#timer = setTimeout(() => this.#abandon(options.timeout()), options.timeoutMillis);
    // What is under way keeps the process alive by itself.
    this.#timer.unref();
    if (signal !== undefined) {
      this.#onAbort = () => this.#abandon(abortedError(signal, what));
      options.signals.join(signal, this.#onAbort);
    }
  }

  async work(): Promise<void> {
    try {
      const outcome = await this.#request.work(this);
      if (this.abandoned !== undefined) return;
      this.#release();
      this.#options.resolve(outcome);
    } catch (error) {
      if (this.abandoned !== undefined) return;
      this.#release();
      this.#options.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }

  async whileTouching<R>(work: () => Promise<R>): Promise<R> {
    this.#touching++;
    try {
      return await work();
    } finally {
      this.#touching--;
      if (this.abandoned !== undefined && this.#touching === 0) this.#answer(this.abandoned);
    }
  }

  #abandon(cause: EngineError): void {
    if (this.abandoned !== undefined) return;
    this.abandoned = cause;
    this.#release();
    this.#options.cancel();
    this.onAbandoned?.();
    if (this.#touching === 0) this.#answer(cause);
  }

  #answer(cause: EngineError): void {
    this.#options.resolve(this.#request.unknown(cause));
  }

  #release(): void {
    clearTimeout(this.#timer);
    const { signal } = this.#request;
    if (signal !== undefined && this.#onAbort !== undefined) {
      this.#options.signals.leave(signal, this.#onAbort);
    }
  }
}

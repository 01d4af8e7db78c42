/**
 * One good copy out of K buckets, soon: a bucket that fails, answers badly or merely hangs costs a
 * bounded wait and then the next one is asked as well.
 */
import type { TimerHandle } from '../src/lib/clock.ts';
import { toEngineError } from '../src/lib/errors.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { abortedError } from '../src/lib/wait.ts';
import { needsHelp } from '../src/ports/bucket-store.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';

/** What one bucket holds of an object. */
export type CopyAnswer<T> =
  | { readonly kind: 'good'; readonly value: T }
  /** Bytes that are not what they must be; `reason` is a constant text. */
  | { readonly kind: 'bad'; readonly reason: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unknown'; readonly cause: EngineError };

export type CopyResult<T> =
  | { readonly kind: 'good'; readonly value: T }
  | {
      readonly kind: 'none';
      readonly absent: number;
      readonly bad: number;
      /** Buckets that did not answer, or are not configured any more: they may hold a good copy. */
      readonly unknown: number;
      /** Of these: they refuse until somebody helps. */
      readonly refused: number;
      /** Of a refusal, if there is one: that is what somebody has to look at. */
      readonly cause: EngineError | undefined;
    };

/** A copy that failed its check, for whoever repairs. */
export interface BadCopy {
  readonly bucket: string;
  readonly key: string;
  readonly reason: string;
}

export interface CopyRequest<T> {
  readonly key: string;
  readonly set: BucketSet;
  /** Spreads reads: the bucket asked first is this modulo K, unless it failed just now. */
  readonly turn: number;
  read(bucket: SetBucket, signal: AbortSignal): Promise<CopyAnswer<T>>;
}

export interface CopyOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onBadCopy?: ((copy: BadCopy) => void) | undefined;
}

type CopyPorts = Pick<StarPorts, 'clock' | 'log' | 'metrics'>;

/** A bucket that has not answered after this long is hedged by the next one. */
export const HEDGE_MILLIS = 250;
/** A bucket that failed or hung is asked last for this long. */
const AVOID_MILLIS = 2_000;

/** Keyed by the bucket as its set holds it, so that simulated worlds do not share it. */
const avoidedUntil = new WeakMap<SetBucket, number>();

/**
 * Asks one bucket after the other until one answers with a good copy. Bad copies are counted
 * (`read.badCopies`), logged and reported on the way.
 *
 * @throws EngineError ABORTED; what storage does is an outcome.
 */
export function anyCopy<T>(
  ports: CopyPorts,
  request: CopyRequest<T>,
  options: CopyOptions = {},
): Promise<CopyResult<T>> {
  return new Promise((resolve, reject) => {
    new CopyRace(ports, request, options, { resolve, reject }).start();
  });
}

interface Settle<T> {
  readonly resolve: (result: CopyResult<T>) => void;
  readonly reject: (error: Error) => void;
}

class CopyRace<T> {
  readonly #ports: CopyPorts;
  readonly #request: CopyRequest<T>;
  readonly #options: CopyOptions;
  readonly #settle: Settle<T>;
  readonly #controller = new AbortController();
  readonly #waiting: SetBucket[];
  #outstanding = 0;
  #absent = 0;
  #bad = 0;
  #unknown: number;
  #refused = 0;
  #cause: EngineError | undefined;
  #timer: TimerHandle | undefined;
  #isOver = false;

  constructor(ports: CopyPorts, request: CopyRequest<T>, options: CopyOptions, settle: Settle<T>) {
    this.#ports = ports;
    this.#request = request;
    this.#options = options;
    this.#settle = settle;
    this.#waiting = inTurn(request.set, request.turn, ports.clock.monotonic());
    this.#unknown = request.set.buckets.length - this.#waiting.length;
  }

  start(): void {
    const { signal } = this.#options;
    if (signal?.aborted === true) this.#abort();
    else {
      signal?.addEventListener('abort', this.#abort, { once: true });
      this.#askNext();
    }
  }

  readonly #abort = (): void => {
    if (this.#isOver) return;
    this.#end();
    this.#settle.reject(abortedError(this.#options.signal!, 'reading a copy'));
  };

  #askNext(): void {
    this.#clearTimer();
    const bucket = this.#waiting.shift();
    if (bucket === undefined) {
      if (this.#outstanding === 0) this.#finishEmpty();
      return;
    }
    this.#outstanding++;
    if (this.#waiting.length > 0) {
      this.#timer = this.#ports.clock.setTimeout(() => {
        this.#ports.metrics.counter('read.hedges').add();
        this.#avoid(bucket);
        this.#askNext();
      }, HEDGE_MILLIS);
    }
    this.#request.read(bucket, this.#controller.signal).then(
      (answer) => this.#take(bucket, answer),
      (error: unknown) => this.#take(bucket, { kind: 'unknown', cause: toEngineError(error) }),
    );
  }

  #take(bucket: SetBucket, answer: CopyAnswer<T>): void {
    if (this.#isOver) return;
    this.#outstanding--;
    if (answer.kind === 'good') {
      this.#end();
      this.#settle.resolve(answer);
      return;
    }
    if (answer.kind === 'absent') this.#absent++;
    else if (answer.kind === 'bad') this.#reportBad(bucket, answer.reason);
    else {
      this.#unknown++;
      const refuses = needsHelp(answer.cause);
      if (refuses && this.#refused++ === 0) this.#cause = answer.cause;
      this.#cause ??= answer.cause;
      this.#avoid(bucket);
    }
    this.#askNext();
  }

  #reportBad(bucket: SetBucket, reason: string): void {
    this.#bad++;
    const copy: BadCopy = { bucket: bucket.store.name, key: this.#request.key, reason };
    this.#ports.metrics.counter('read.badCopies').add();
    this.#ports.log.warn({ ...copy }, 'a bucket holds a bad copy');
    this.#options.onBadCopy?.(copy);
  }

  #avoid(bucket: SetBucket): void {
    avoidedUntil.set(bucket, this.#ports.clock.monotonic() + AVOID_MILLIS);
  }

  #finishEmpty(): void {
    this.#end();
    this.#settle.resolve({
      kind: 'none',
      absent: this.#absent,
      bad: this.#bad,
      unknown: this.#unknown,
      refused: this.#refused,
      cause: this.#cause,
    });
  }

  #end(): void {
    this.#isOver = true;
    this.#clearTimer();
    this.#options.signal?.removeEventListener('abort', this.#abort);
    this.#controller.abort();
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#ports.clock.clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** Configured buckets from the turn on, those that failed just now at the end. */
function inTurn(set: BucketSet, turn: number, now: number): SetBucket[] {
  const { buckets } = set;
  const good: SetBucket[] = [];
  const avoided: SetBucket[] = [];
  for (let index = 0; index < buckets.length; index++) {
    const bucket = buckets[(turn + index) % buckets.length];
    if (bucket === undefined) continue;
    if ((avoidedUntil.get(bucket) ?? Number.NEGATIVE_INFINITY) > now) avoided.push(bucket);
    else good.push(bucket);
  }
  return [...good, ...avoided];
}

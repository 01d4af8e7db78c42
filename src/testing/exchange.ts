import type { EventOwner, ScheduledEvent, Scheduler } from './scheduler.ts';

export interface ExchangeOptions<T> {
  readonly scheduler: Scheduler;
  /** Who waits for the answer; paused, it hears later, dead, never. */
  readonly owner: EventOwner | undefined;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMillis: number;
  /** What the caller is told when it gives up by itself. */
  readonly abandoned: (why: 'signal' | 'time-out') => T;
  readonly ended: (outcome: T) => void;
}

/** One question that is answered at most once: by the other side, by a time-out or by an abort. */
export class Exchange<T> {
  readonly #options: ExchangeOptions<T>;
  readonly #begunAt: number;
  readonly #timer: ScheduledEvent;
  readonly #answered: (() => void)[] = [];
  #isOpen = true;
  #wasAbandoned = false;

  constructor(options: ExchangeOptions<T>) {
    this.#options = options;
    const { scheduler, owner, signal, timeoutMillis } = options;
    this.#begunAt = scheduler.time;
    this.#timer = scheduler.schedule(
      timeoutMillis,
      'time-out',
      () => {
        this.#abandon('time-out');
      },
      owner,
    );
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** The caller gave up, or it is dead. */
  get isAbandoned(): boolean {
    return this.#wasAbandoned || this.#options.owner?.state === 'dead';
  }

  get age(): number {
    return this.#options.scheduler.time - this.#begunAt;
  }

  /** Runs `run` right before the caller hears an answer of the other side; not when it gave up. */
  onAnswered(run: () => void): void {
    this.#answered.push(run);
  }

  answerAfter(millis: number, outcome: T): void {
    const { scheduler, owner } = this.#options;
    scheduler.schedule(
      millis,
      'answer',
      () => {
        if (this.#isOpen) for (const run of this.#answered) run();
        this.#finish(outcome);
      },
      owner,
    );
  }

  readonly #onAbort = (): void => {
    this.#abandon('signal');
  };

  #abandon(why: 'signal' | 'time-out'): void {
    if (!this.#isOpen) return;
    this.#wasAbandoned = true;
    this.#finish(this.#options.abandoned(why));
  }

  #finish(outcome: T): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#options.scheduler.cancel(this.#timer);
    this.#options.ended(outcome);
  }
}

/**
 * Batches of one forwarded handle that nobody has accepted yet. They are handed over in the order in
 * which they came; those that a holder turned away go to the next one, in their old order. What may
 * have been accepted is never handed over twice (A5).
 */
import type { Clock, TimerHandle } from '../../lib/clock.ts';
import { EngineError, toEngineError } from '../../lib/errors.ts';
import { abortedError, throwIfAborted } from '../../lib/wait.ts';
import { detachBatch, type CheckedBatch } from '../../protocol/batch.ts';
import type { AppendOptions, Ticket } from '../api.ts';
import { isMoved, type Target } from './target.ts';

interface Submission {
  readonly order: number;
  batch: CheckedBatch;
  readonly request: AppendOptions;
  /** Monotonic milliseconds. */
  readonly dueAt: number | undefined;
  readonly resolve: (ticket: Ticket) => void;
  readonly reject: (error: EngineError) => void;
  stopWaiting: () => void;
}

export interface SubmissionsOptions {
  readonly clock: Clock;
  /** Batches wait and nobody is there to take them. */
  readonly onWanted: () => void;
  /** The target turned a batch away: it leads no more. */
  readonly onMoved: (target: Target, error: EngineError) => void;
  /** Why batches wait, if it is known. */
  readonly trouble: () => EngineError | undefined;
}

export class Submissions {
  readonly #options: SubmissionsOptions;
  #queued = new Set<Submission>();
  readonly #handed = new Set<Submission>();
  #returned: Submission[] = [];
  #target: Target | undefined;
  /** Whom the handed ones were handed to. */
  #handedTo: Target | undefined;
  #order = 0;
  #closed: EngineError | undefined;

  constructor(options: SubmissionsOptions) {
    this.#options = options;
  }

  /** Batches that wait for somebody to take them. */
  get waitingCount(): number {
    return this.#queued.size + this.#returned.length;
  }

  /** @throws EngineError as `Stream.submit` does; INDETERMINATE when a holder did not answer. */
  submit(batch: CheckedBatch, request: AppendOptions): Promise<Ticket> {
    const { clock } = this.#options;
    const { signal, timeoutMillis } = request;
    return new Promise<Ticket>((resolve, reject) => {
      throwIfAborted(signal, 'submit');
      if (this.#closed !== undefined) throw this.#closed;
      const submission: Submission = {
        order: this.#order++,
        batch,
        request,
        dueAt: timeoutMillis === undefined ? undefined : clock.monotonic() + timeoutMillis,
        resolve,
        reject,
        stopWaiting: () => undefined,
      };
      this.#queued.add(submission);
      this.#pump();
      if (!this.#queued.has(submission)) return;
      // The caller may use its arrays again while the batch waits for its turn.
      submission.batch = detachBatch(batch);
      this.#wait(submission);
    });
  }

  attach(target: Target): void {
    this.#target = target;
    target.onRoom = () => this.#pump();
    this.#pump();
  }

  detach(target: Target): void {
    if (this.#target === target) this.#target = undefined;
    if (this.waitingCount > 0) this.#options.onWanted();
  }

  /** Nothing is taken any more; what waits is answered with the error. */
  close(error: EngineError): void {
    this.#closed ??= error;
    this.rejectWaiting(error);
  }

  rejectWaiting(error: EngineError): void {
    const waiting = [...this.#returned, ...this.#queued];
    // All at once: one that leaves must not make room for the next, which is answered here as well (A5).
    this.#returned = [];
    this.#queued.clear();
    for (const submission of waiting) {
      submission.stopWaiting();
      submission.reject(error);
    }
  }

  #pump(): void {
    if (this.#closed !== undefined) return;
    const target = this.#target;
    if (target === undefined) {
      if (this.waitingCount > 0) this.#options.onWanted();
      return;
    }
    // What a former holder has not answered yet comes first: it may be turned away.
    if (this.#handed.size > 0 && this.#handedTo !== target) return;
    this.#takeBack();
    for (const submission of this.#queued) {
      if (this.#target !== target || !target.hasRoom(submission.batch)) return;
      this.#queued.delete(submission);
      this.#hand(submission, target);
    }
  }

  #hand(submission: Submission, target: Target): void {
    submission.stopWaiting();
    const { request, dueAt } = submission;
    const left = dueAt === undefined ? undefined : dueAt - this.#options.clock.monotonic();
    if (left !== undefined && left <= 0 && target.address !== undefined) {
      // No answer could be here in time, and one that was sent would be indeterminate.
      submission.reject(this.#deadline(submission));
      return;
    }
    this.#handed.add(submission);
    this.#handedTo = target;
    const wait = left === undefined ? {} : { timeoutMillis: Math.max(0, left) };
    target.submit(submission.batch, { ...request, ...wait }).then(
      (ticket) => {
        this.#handed.delete(submission);
        submission.resolve(ticket);
        this.#pumpIfAnswered();
      },
      (error: unknown) => {
        this.#handed.delete(submission);
        if (isMoved(error) && this.#closed === undefined)
          this.#turnedAway(submission, target, error);
        else submission.reject(toEngineError(error));
        this.#pumpIfAnswered();
      },
    );
  }

  #turnedAway(submission: Submission, target: Target, error: EngineError): void {
    this.#returned.push(submission);
    this.#wait(submission);
    if (this.#target !== target) return;
    this.#target = undefined;
    this.#options.onMoved(target, error);
  }

  #pumpIfAnswered(): void {
    if (this.#handed.size === 0) this.#pump();
  }

  /** In front of those that came later. */
  #takeBack(): void {
    if (this.#returned.length === 0) return;
    const returned = this.#returned.sort((a, b) => a.order - b.order);
    this.#queued = new Set([...returned, ...this.#queued]);
    this.#returned = [];
  }

  #wait(submission: Submission): void {
    const { clock } = this.#options;
    const { signal } = submission.request;
    const onAbort = (): void => this.#giveUp(submission, abortedError(signal!, 'submit'));
    let timer: TimerHandle | undefined;
    if (submission.dueAt !== undefined) {
      const left = Math.max(0, submission.dueAt - clock.monotonic());
      timer = clock.setTimeout(() => this.#giveUp(submission, this.#deadline(submission)), left);
    }
    submission.stopWaiting = () => {
      if (timer !== undefined) clock.clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  }

  #giveUp(submission: Submission, error: EngineError): void {
    submission.stopWaiting();
    this.#queued.delete(submission);
    this.#returned = this.#returned.filter((other) => other !== submission);
    submission.reject(error);
    this.#pump();
  }

  /** It was handed to nobody, or turned away by all: definitely not appended. */
  #deadline({ request }: Submission): EngineError {
    const cause = this.#options.trouble();
    if (this.#target === undefined && cause?.retryable === true) return cause;
    return new EngineError('POOL_EXHAUSTED', 'the holder of the stream took no batch in time', {
      details: { timeoutMillis: request.timeoutMillis, why: cause?.code },
      retryAfterMillis: 1_000,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

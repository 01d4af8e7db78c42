/**
 * Group commit: conditional writes wait in a queue while the group before them is committed, and
 * then go to disk together, with one flush. So a write that still waits was certainly not applied.
 */
import { EngineError } from '../../lib/errors.ts';
import { deferred } from '../../lib/wait.ts';
import type { Deferred } from '../../lib/wait.ts';
import { closedError } from './failures.ts';

export interface CommitQueueOptions<W, A> {
  /**
   * Judges, applies and makes durable the writes, in order. One answer per write. Throws only when
   * it did not begin.
   */
  readonly commit: (writes: readonly W[]) => Promise<readonly Answer<A>[]>;
  readonly bytesOf: (write: W) => number;
  /** Called after a group is on disk, before its writers are answered. Must not throw. */
  readonly onCommitted: () => void;
  readonly timeoutMillis: number;
  /** Writes beyond this many that wait are refused. */
  readonly queueMax: number;
}

export type Answer<A> =
  | { readonly kind: 'answer'; readonly answer: A }
  | { readonly kind: 'error'; readonly error: EngineError };

interface Pending<W, A> {
  readonly write: W;
  state: 'queued' | 'submitted' | 'settled';
  settle(answer: Answer<A>): void;
}

const GROUP_WRITES_MAX = 1_024;
const GROUP_BYTES_MAX = 4 * 1024 * 1024;

export class CommitQueue<W, A> {
  readonly #options: CommitQueueOptions<W, A>;
  /** Writes not handed to the database yet; those that gave up stay until they are skipped. */
  #queue: Pending<W, A>[] = [];
  #unanswered = 0;
  #running = false;
  #closed: Deferred<void> | undefined;

  constructor(options: CommitQueueOptions<W, A>) {
    this.#options = options;
  }

  /**
   * Resolves when the write was judged and, if applied, is on disk.
   *
   * @throws EngineError ABORTED (side effects `possible` once the database has the write),
   *   METASTORE_UNAVAILABLE (never applied), METASTORE_INDETERMINATE, CLOSED
   */
  submit(write: W, signal: AbortSignal | undefined): Promise<A> {
    if (this.#closed !== undefined) return Promise.reject(closedError());
    const { queueMax } = this.#options;
    if (this.#queue.length >= queueMax) this.#queue = this.#queue.filter(isQueued);
    if (this.#queue.length >= queueMax) return Promise.reject(queueFull(queueMax));
    return new Promise<A>((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(pending, timedOut), this.#options.timeoutMillis);
      const onAbort = (): void => this.#giveUp(pending, (state) => aborted(state, signal!));
      const pending: Pending<W, A> = {
        write,
        state: 'queued',
        settle: (answer) => {
          pending.state = 'settled';
          clearTimeout(timer);
          signal?.removeEventListener('abort', onAbort);
          if (answer.kind === 'answer') resolve(answer.answer);
          else reject(answer.error);
          if (--this.#unanswered === 0) this.#closed?.resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#unanswered++;
      this.#queue.push(pending);
      this.#start();
    });
  }

  /** Refuses new writes; resolves when every accepted one was answered. Idempotent. */
  close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = deferred<void>();
      if (this.#unanswered === 0) this.#closed.resolve();
    }
    return this.#closed.promise;
  }

  #start(): void {
    if (this.#running) return;
    this.#running = true;
    // In a later turn, so that writes of one turn share a commit.
    setImmediate(() => {
      void this.#commit().finally(() => {
        this.#running = false;
        if (this.#queue.length > 0) this.#start();
      });
    });
  }

  /** Commits one group and answers its writers. Never rejects. */
  async #commit(): Promise<void> {
    const group = this.#takeGroup();
    if (group.length === 0) return;
    let answers: readonly Answer<A>[];
    try {
      answers = await this.#options.commit(group.map((pending) => pending.write));
      this.#options.onCommitted();
    } catch (cause) {
      const error = new EngineError('METASTORE_UNAVAILABLE', 'the metastore cannot be written', {
        cause,
      });
      answers = group.map(() => ({ kind: 'error', error }));
    }
    group.forEach((pending, index) => {
      if (pending.state !== 'settled') pending.settle(answers[index]!);
    });
  }

  #takeGroup(): readonly Pending<W, A>[] {
    const group: Pending<W, A>[] = [];
    let taken = 0;
    let bytes = 0;
    while (
      taken < this.#queue.length &&
      group.length < GROUP_WRITES_MAX &&
      bytes < GROUP_BYTES_MAX
    ) {
      const pending = this.#queue[taken++]!;
      if (!isQueued(pending)) continue;
      pending.state = 'submitted';
      bytes += this.#options.bytesOf(pending.write);
      group.push(pending);
    }
    this.#queue.splice(0, taken);
    return group;
  }

  #giveUp(pending: Pending<W, A>, errorOf: (state: 'queued' | 'submitted') => EngineError): void {
    if (pending.state !== 'settled') {
      pending.settle({ kind: 'error', error: errorOf(pending.state) });
    }
  }
}

function isQueued(pending: { readonly state: string }): boolean {
  return pending.state === 'queued';
}

function queueFull(max: number): EngineError {
  return new EngineError('METASTORE_UNAVAILABLE', 'too many writes wait for the metastore', {
    details: { max },
  });
}

function timedOut(state: 'queued' | 'submitted'): EngineError {
  return state === 'queued'
    ? new EngineError(
        'METASTORE_UNAVAILABLE',
        'the metastore was busy with other writes for too long',
      )
    : new EngineError('METASTORE_INDETERMINATE', 'the metastore did not commit in time', {
        sideEffects: 'possible',
      });
}

function aborted(state: 'queued' | 'submitted', signal: AbortSignal): EngineError {
  return new EngineError('ABORTED', 'metastore write was given up by its signal', {
    cause: signal.reason,
    sideEffects: state === 'queued' ? 'none' : 'possible',
  });
}

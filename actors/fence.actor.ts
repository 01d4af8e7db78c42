/**
 * Fences of a process: one actor an epoch, shared by all who need its cut. Actors live in a map of
 * roots; a caller that gives up leaves its actor running.
 * Chart: machines/fence.machine.ts · rules: src/protocol/fence.ts
 */
import type { InspectionEvent } from 'xstate';
import { EngineError } from '../src/lib/errors.ts';
import { throwIfAborted, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import { BucketPatience } from './bucket-patience.ts';
import type { BucketSets } from './bucket-set.ts';
import type { FencedBy, FenceProgress, FenceResult, UndecidedFence } from './fence-reports.ts';
import { FenceRun } from './fence-run.ts';
import type { StarPorts } from './ports.ts';

export type {
  FencedBy,
  FencePhase,
  FenceProgress,
  FenceResult,
  UndecidedFence,
} from './fence-reports.ts';

export interface FenceRequest {
  readonly star: string;
  readonly epoch: number;
  /** The epoch is this incarnation's own: its writer has stopped, so no barrier is needed. */
  readonly own?: boolean;
  /** Where the chain may end; saves waves when it is right, costs reads when it is wrong. */
  readonly tailHint?: number;
}

export interface FenceWaitOptions extends WaitOptions {
  /** Called after every step of the walk. Must not throw. */
  readonly onProgress?: ((progress: FenceProgress) => void) | undefined;
}

export interface FenceActorsOptions {
  readonly inspect?: ((event: InspectionEvent) => void) | undefined;
}

export class FenceActors {
  readonly #ports: StarPorts;
  readonly #sets: BucketSets;
  readonly #by: FencedBy;
  readonly #options: FenceActorsOptions;
  readonly #runs = new Map<string, FenceRun>();
  readonly #patience = new Map<string, BucketPatience>();
  #isClosed = false;

  constructor(ports: StarPorts, sets: BucketSets, by: FencedBy, options: FenceActorsOptions = {}) {
    this.#ports = ports;
    this.#sets = sets;
    this.#by = by;
    this.#options = options;
    ports.metrics.gauge('fence.undecidedAgeMillis', () => this.#undecidedAgeMillis());
    ports.metrics.gauge('fence.running', () => this.#runs.size);
  }

  /**
   * Ends an epoch and resolves with its cut: the first slot that no writer can ever have acknowledged
   * (F1, F2). Safe from several processes at once and after a crash: all get the same cut (F3). An
   * epoch that is fenced already costs one read. Blocks while buckets that do not answer hold the
   * deciding vote.
   *
   * Giving up leaves the fence running and its poison standing, which is harmless; whoever asks for
   * the same epoch joins it.
   *
   * @throws EngineError STAR_UNKNOWN or EPOCH_UNKNOWN; FENCE_UNDECIDED when the deadline passes while
   *   no slot can be decided, DEADLINE_EXCEEDED when it passes otherwise; ABORTED;
   *   ACKNOWLEDGED_SLOT_POISONED when damage would shorten the epoch; CLOSED.
   */
  async fence(request: FenceRequest, options: FenceWaitOptions = {}): Promise<FenceResult> {
    throwIfAborted(options.signal, 'fence');
    const run = this.#join(request);
    const stopListening =
      options.onProgress === undefined ? undefined : run.listen(options.onProgress);
    try {
      return await waitFor(this.#ports.clock, run.result, options, 'fence', () =>
        run.deadlineError(options.timeoutMillis ?? 0),
      );
    } finally {
      stopListening?.();
    }
  }

  /** Fences that stand at a slot nobody can decide, for status and alerts. */
  undecided(): readonly UndecidedFence[] {
    return [...this.#runs.values()].flatMap((run) => run.undecided() ?? []);
  }

  /** Ends every fence with `CLOSED`; what they wrote stays. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const runs = [...this.#runs.values()];
    for (const run of runs) run.close();
    await Promise.allSettled(runs.map((run) => run.result));
  }

  #join(request: FenceRequest): FenceRun {
    if (this.#isClosed) throw new EngineError('CLOSED', 'the engine is closed');
    const { star, epoch, own = false, tailHint } = request;
    const key = `${star}/${epoch}`;
    const running = this.#runs.get(key);
    if (running !== undefined) {
      if (own) running.joinOwner();
      return running;
    }
    const run = new FenceRun({
      ports: this.#ports,
      sets: this.#sets,
      by: this.#by,
      star,
      epoch,
      own,
      tailHint: tailHint ?? null,
      patienceOf: (name) => this.#patienceOf(name),
      inspect: this.#options.inspect,
    });
    this.#runs.set(key, run);
    const forget = (): void => {
      if (this.#runs.get(key) === run) this.#runs.delete(key);
    };
    run.result.then((result) => {
      forget();
      if (!result.alreadyFenced) this.#ports.metrics.counter('fence.published').add();
      this.#ports.metrics.histogram('fence.millis').record(result.millis);
    }, forget);
    run.start();
    return run;
  }

  #patienceOf(name: string): BucketPatience {
    const known = this.#patience.get(name);
    if (known !== undefined) return known;
    const created = new BucketPatience();
    this.#patience.set(name, created);
    return created;
  }

  #undecidedAgeMillis(): number {
    let oldest = 0;
    for (const run of this.#runs.values()) oldest = Math.max(oldest, run.undecidedAgeMillis());
    return oldest;
  }
}

/**
 * Settlement of fenced epochs: one run an epoch and process, shared by all who need it. It restores
 * the coverage invariant, that rows cover every acknowledged record, before a successor serves or
 * appends. Chart: machines/settlement.machine.ts · rules: src/protocol/settlement.ts (S1-S4).
 */
import type { InspectionEvent } from 'xstate';
import { EngineError } from '../src/lib/errors.ts';
import { waitFor } from '../src/lib/wait.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import type { CoveragePlan } from '../src/protocol/coverage.ts';
import type { RefRow } from '../src/protocol/records.ts';
import type { BucketSets } from './bucket-set.ts';
import type { StreamEnd } from './coverage-waiters.ts';
import type { StarPorts } from './ports.ts';
import { SettlementRun } from './settlement-run.ts';
import type { KnownEpoch, SettlementLimits, SettlementResult } from './settlement-run.ts';

export type { SettlementLimits, SettlementResult } from './settlement-run.ts';
export type { StreamEnd } from './coverage-waiters.ts';

export interface SettleRequest {
  readonly star: string;
  readonly epoch: number;
  /** Streams to cover before all others. */
  readonly first?: readonly string[];
}

export interface SettlementOptions extends Partial<SettlementLimits> {
  readonly inspect?: ((event: InspectionEvent) => void) | undefined;
}

const DEFAULT_LIMITS: SettlementLimits = { headReadsConcurrency: 32, streamsConcurrency: 128 };
/** Headers of epochs that met a gap are kept for the next try; of so many epochs. */
const KEPT_PLANS_MAX = 4;

export class SettlementActors {
  readonly #ports: StarPorts;
  readonly #sets: BucketSets;
  readonly #by: RefRow['builder'];
  readonly #limits: SettlementLimits;
  readonly #inspect: SettlementOptions['inspect'];
  readonly #runs = new Map<string, SettlementRun>();
  readonly #plans = new Map<string, CoveragePlan>();
  #isClosed = false;

  /** @param by - the builder that new rows name: this star and its incarnation. */
  constructor(
    ports: StarPorts,
    sets: BucketSets,
    by: RefRow['builder'],
    options: SettlementOptions = {},
  ) {
    this.#ports = ports;
    this.#sets = sets;
    this.#by = by;
    const { inspect, ...limits } = options;
    this.#limits = { ...DEFAULT_LIMITS, ...limits };
    this.#inspect = inspect;
    ports.metrics.gauge('settlement.running', () => this.#runs.size);
  }

  /**
   * Settles an epoch whose cut is published: rows of every stream reach the cut, the record says
   * settled, and the unratified tail is swept. Metadata only, no record body is read (S1).
   * Idempotent, and safe beside other settlers and a late writer's absorb (S2). Goes on after the
   * caller gave up, and retries with back-off while storage does not answer.
   *
   * Answers a gap when an older epoch must be settled first (S4); rows of all other streams are
   * extended nevertheless.
   *
   * @throws EngineError INVARIANT (the cut is not published), EPOCH_UNKNOWN, DATA_LOSS (a committed
   *   flight is in no bucket), METASTORE_CORRUPT, ABORTED, DEADLINE_EXCEEDED, CLOSED
   */
  settle(request: SettleRequest, options: WaitOptions = {}): Promise<SettlementResult> {
    if (this.#isClosed) return Promise.reject(closedError());
    const run = this.#runOf(request.star, request.epoch);
    for (const streamId of request.first ?? []) run.request(streamId);
    return waitFor(this.#ports.clock, run.result, options, 'settlement');
  }

  /**
   * Resolves as soon as the stream's rows reach the cut of the epoch, even while others go on (S3);
   * starts the settlement when none runs.
   *
   * @param known - the record as it was read or written after the cut was published.
   * @returns where the stream's rows end.
   * @throws EngineError STREAM_UNSETTLED (a gap, S4), and what `settle` throws.
   */
  covered(
    star: string,
    epoch: number,
    streamId: string,
    options: WaitOptions = {},
    known?: KnownEpoch,
  ): Promise<StreamEnd> {
    if (this.#isClosed) return Promise.reject(closedError());
    const covered = this.#runOf(star, epoch, known).covered(streamId);
    return waitFor(this.#ports.clock, covered, options, 'settlement');
  }

  /** Ends all runs and waits for what they have under way. Rows created so far stay. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#runs.values()].map((run) => run.close()));
  }

  #runOf(star: string, epoch: number, known?: KnownEpoch): SettlementRun {
    const key = `${star}/${epoch}`;
    const running = this.#runs.get(key);
    if (running !== undefined) return running;
    const run = new SettlementRun({
      ports: this.#ports,
      sets: this.#sets,
      by: this.#by,
      limits: this.#limits,
      star,
      epoch,
      known,
      plan: this.#plans.get(key),
      inspect: this.#inspect,
      onEnd: (ended) => {
        this.#runs.delete(key);
        void ended.result.then(
          (result) => this.#keepPlan(key, result.kind === 'gap' ? ended.plan : undefined),
          () => this.#keepPlan(key, undefined),
        );
      },
    });
    this.#runs.set(key, run);
    run.start();
    return run;
  }

  #keepPlan(key: string, plan: CoveragePlan | undefined): void {
    this.#plans.delete(key);
    if (plan === undefined || this.#isClosed) return;
    this.#plans.set(key, plan);
    if (this.#plans.size <= KEPT_PLANS_MAX) return;
    const [oldest] = this.#plans.keys();
    this.#plans.delete(oldest!);
  }
}

function closedError(): EngineError {
  return new EngineError('CLOSED', 'settlement is closed');
}

/**
 * Settlement of one epoch: hosts its chart, runs the effects, owns no rule. Every answer is one
 * event; an answer that comes after its state was left is dropped.
 */
import { createActor } from 'xstate';
import type { ActorRefFrom, InspectionEvent } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { deferred } from '../src/lib/wait.ts';
import type { Deferred } from '../src/lib/wait.ts';
import { CoveragePlan, streamOrder } from '../src/protocol/coverage.ts';
import { epochKey } from '../src/protocol/keys.ts';
import { encodeRecordValue, epochRecord, parseRecordValue } from '../src/protocol/records.ts';
import type { EpochRecord, RefRow } from '../src/protocol/records.ts';
import { settledRecord, settlementStep, sweptRecord } from '../src/protocol/settlement.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import type { MetaEntry, MetaVersion } from '../src/ports/metastore.ts';
import { settlementMachine } from '../machines/settlement.machine.ts';
import type { SettlementEvent } from '../machines/settlement.machine.ts';
import type { BucketSets } from './bucket-set.ts';
import { conditionalPut } from './conditional-write.ts';
import { CoverageWaiters } from './coverage-waiters.ts';
import type { StreamEnd } from './coverage-waiters.ts';
import { runEffect } from './effect.ts';
import type { StarPorts } from './ports.ts';
import { SeenRows } from './seen-rows.ts';
import { headUnavailable, readHeads } from './slot-heads.ts';
import { StreamCoverage } from './stream-coverage.ts';
import { sweepTail } from './tail-sweep.ts';

export interface SettlementLimits {
  /** Heads of slots read at a time. */
  readonly headReadsConcurrency: number;
  /** Streams whose rows are extended at a time. */
  readonly streamsConcurrency: number;
}

export type SettlementResult =
  | {
      readonly kind: 'settled';
      /** Streams that had entries between checkpoint and cut; 0 when somebody else covered them. */
      readonly streams: number;
      readonly headersRead: number;
      /** Whether the unratified tail is known to be gone; if not, a later settler resumes. */
      readonly swept: boolean;
      readonly millis: number;
    }
  /** The epoch stays unsettled: an older one must be settled first (S4). */
  | {
      readonly kind: 'gap';
      readonly streamId: string;
      readonly end: number;
      readonly next: number;
    };

export interface KnownEpoch {
  readonly record: EpochRecord;
  readonly version: MetaVersion;
}

export interface SettlementRunInput {
  readonly ports: StarPorts;
  readonly sets: BucketSets;
  readonly by: RefRow['builder'];
  readonly limits: SettlementLimits;
  readonly star: string;
  readonly epoch: number;
  /** The record as whoever published or read the cut knows it: spares the first read. */
  readonly known?: KnownEpoch | undefined;
  /** Headers that an earlier run of this process read. */
  readonly plan?: CoveragePlan | undefined;
  readonly inspect?: ((event: InspectionEvent) => void) | undefined;
  onEnd(run: SettlementRun): void;
}

const PROGRESS_EVERY = 64;
/** What the chart itself concludes; other failures carry the error of their effect. */
const CHART_CODES = ['ACKNOWLEDGED_SLOT_POISONED', 'DATA_LOSS', 'EPOCH_UNKNOWN'] as const;

export class SettlementRun {
  /** Settles with the run; never an unhandled rejection. */
  readonly result: Promise<SettlementResult>;
  readonly #input: SettlementRunInput;
  readonly #result: Deferred<SettlementResult>;
  readonly #actor: ActorRefFrom<typeof settlementMachine>;
  readonly #waiters: CoverageWaiters;
  readonly #requested: string[] = [];
  readonly #begunAt: number;
  #stored: KnownEpoch | undefined;
  #plan: CoveragePlan | undefined;
  #coverage: StreamCoverage | undefined;
  #headersRead = 0;
  #controller = new AbortController();
  #work: Promise<unknown> = Promise.resolve();
  #error: EngineError | undefined;
  #isOver = false;
  readonly #seenRows: SeenRows;
  readonly #over = forManyListeners(new AbortController());
  #known: KnownEpoch | undefined;

  constructor(input: SettlementRunInput) {
    this.#input = input;
    this.#plan = input.plan;
    this.#known = input.known;
    this.#seenRows = new SeenRows(input.ports, this.#over.signal);
    this.#waiters = new CoverageWaiters(input.ports);
    this.#begunAt = input.ports.clock.monotonic();
    this.#result = deferred();
    this.result = this.#result.promise;
    this.result.catch(() => undefined);
    const { star, epoch, ports } = input;
    const machine = settlementMachine.provide({
      actions: {
        readRecord: () => this.#effect((signal) => this.#readRecord(signal)),
        readHeads: (_, range) => this.#effect((signal) => this.#readHeads(range, signal)),
        extendStreams: () => this.#effect((signal) => this.#extendStreams(signal)),
        recordSettled: () => this.#effect((signal) => this.#updateRecord(settledRecord, signal)),
        sweepTail: (_, range) => this.#effect((signal) => this.#sweepTail(range, signal)),
        recordSwept: () => this.#effect((signal) => this.#updateRecord(sweptRecord, signal)),
        stopEffects: () => this.#controller.abort(),
      },
    });
    this.#actor = createActor(machine, {
      input: { star, epoch },
      clock: ports.clock,
      id: `star/${star}/epoch/${epoch}/settlement`,
      ...(input.inspect === undefined ? {} : { inspect: input.inspect }),
    });
    this.#actor.subscribe({
      complete: () => this.#finish(),
      error: (error) => this.#end(toEngineError(error, 'settlement failed')),
    });
  }

  start(): void {
    this.#actor.start();
  }

  /** Headers read so far: another run of this process need not read them again. */
  get plan(): CoveragePlan | undefined {
    return this.#plan;
  }

  /** Takes the stream before others that nobody waits for. */
  request(streamId: string): void {
    this.#requested.push(streamId);
    if (this.#coverage === undefined) this.#seenRows.look(streamId);
    else this.#coverage.request(streamId);
  }

  /** Resolves when the stream's rows reach the cut (S3). */
  covered(streamId: string): Promise<StreamEnd> {
    const promise = this.#waiters.wait(streamId);
    this.request(streamId);
    const outcome = this.#coverage?.outcome(streamId);
    if (outcome !== undefined) this.#waiters.answer(streamId, outcome);
    else this.#answerCovered(streamId);
    return promise;
  }

  /** Gives up; rows created so far stay and are right. */
  async close(): Promise<void> {
    this.#end(new EngineError('CLOSED', 'settlement was closed'));
    await this.#work;
  }

  #effect(run: (signal: AbortSignal) => Promise<SettlementEvent>): void {
    const controller = forManyListeners(new AbortController());
    this.#controller = controller;
    runEffect(
      this.#actor,
      controller.signal,
      (signal) => {
        const work = run(signal);
        this.#work = Promise.allSettled([this.#work, work]);
        return work;
      },
      (error) => this.#failed(error),
    );
  }

  #failed(failure: EngineError): SettlementEvent {
    this.#error = failure;
    const { retryable, code, message } = failure;
    return { type: 'effect.failed', retryable, code, message };
  }

  async #readRecord(signal: AbortSignal): Promise<SettlementEvent> {
    const { ports, star, epoch } = this.#input;
    const key = epochKey(star, epoch);
    const { missingSlot, failures } = this.#actor.getSnapshot().context;
    const known = this.#known;
    this.#known = undefined;
    if (known !== undefined && missingSlot === null && failures === 0) {
      // A state beyond open is final, and every write that follows is a CAS of this version.
      if (known.record.state !== 'open') return this.#hold(known.record, known.version);
    }
    // A missing slot is judged by a record that is as new as the miss.
    if (missingSlot !== null || failures > 0)
      await ports.metastore.barrier(partitionOf(key), { signal });
    let event = this.#adopt(await ports.metastore.get(key, { signal }));
    const isStale =
      event.type === 'record.absent' || settlementStep(event.record).kind === 'unfenced';
    if (isStale) {
      await ports.metastore.barrier(partitionOf(key), { signal });
      event = this.#adopt(await ports.metastore.get(key, { signal }));
    }
    return event;
  }

  #adopt(
    entry: MetaEntry | undefined,
  ): Extract<SettlementEvent, { type: 'record.read' | 'record.absent' }> {
    if (entry === undefined) return { type: 'record.absent' };
    const record = parseRecordValue(epochRecord, entry.key, entry.value);
    return this.#hold(record, entry.version);
  }

  #hold(record: EpochRecord, version: MetaVersion): { type: 'record.read'; record: EpochRecord } {
    this.#stored = { record, version };
    this.#answerAllCovered();
    return { type: 'record.read', record };
  }

  async #readHeads(
    range: { readonly from: number; readonly to: number },
    signal: AbortSignal,
  ): Promise<SettlementEvent> {
    const { ports, sets, limits } = this.#input;
    const { record } = this.#stored!;
    const set = await sets.resolve(record.set, signal);
    const plan = this.#planOf(range);
    let unreported = 0;
    const outcome = await readHeads(
      ports,
      { set, record, plan },
      {
        signal,
        concurrency: limits.headReadsConcurrency,
        onRead: () => {
          this.#headersRead++;
          ports.metrics.counter('settlement.headersRead').add();
          if (++unreported % PROGRESS_EVERY !== 0 || signal.aborted) return;
          this.#actor.send({ type: 'heads.progressed', headersRead: this.#headersRead });
        },
      },
    );
    if (outcome.kind === 'missing') {
      const { slot, poisonedIn } = outcome;
      return { type: 'slot.missing', slot, poisonedIn };
    }
    if (outcome.kind === 'unavailable') throw headUnavailable(record, outcome.slot, outcome.cause);
    this.#cover(plan, record);
    return { type: 'heads.read', streams: this.#coverage!.streamCount };
  }

  /** A plan that reaches further down serves as well: the checkpoint rose since. */
  #planOf(range: { readonly from: number; readonly to: number }): CoveragePlan {
    const known = this.#plan;
    if (known?.to === range.to && (known.isComplete || known.from === range.from)) return known;
    this.#plan = new CoveragePlan(range.from, range.to);
    return this.#plan;
  }

  #cover(plan: CoveragePlan, record: EpochRecord): void {
    if (this.#coverage !== undefined) return;
    const { ports, by, limits } = this.#input;
    const streams = plan.byStream();
    this.#coverage = new StreamCoverage(ports, {
      source: { star: record.star, epoch: record.epoch, set: record.set, builder: by },
      streams,
      order: streamOrder(streams.keys(), by.incarnation),
      concurrency: limits.streamsConcurrency,
      seenRow: (streamId) => this.#seenRows.take(streamId),
      onOutcome: (streamId, outcome) => {
        this.#waiters.answer(streamId, outcome);
        const covered = this.#coverage!.coveredCount;
        if (covered % PROGRESS_EVERY !== 0 || this.#controller.signal.aborted) return;
        this.#actor.send({ type: 'streams.progressed', covered });
      },
    });
    for (const streamId of this.#requested) this.#coverage.request(streamId);
    this.#answerAllCovered();
  }

  /** Answers for a stream that has no entry to be covered, or whose epoch somebody settled. */
  #answerCovered(streamId: string): void {
    const state = this.#stored?.record.state;
    const isSettled = state === 'settled' || state === 'retired';
    const hasNoEntry = this.#coverage?.has(streamId) === false;
    if (isSettled || hasNoEntry) this.#waiters.answerFromRows(streamId);
  }

  #answerAllCovered(): void {
    for (const streamId of this.#waiters.streamIds()) this.#answerCovered(streamId);
  }

  async #extendStreams(signal: AbortSignal): Promise<SettlementEvent> {
    const coverage = this.#coverage;
    assert(coverage !== undefined, 'rows are extended after all headers are read');
    await coverage.run(signal);
    const failure = coverage.failure();
    if (failure !== undefined) throw failure;
    const gap = coverage.gap();
    if (gap === undefined) return { type: 'streams.covered' };
    this.#input.ports.metrics.counter('settlement.gaps').add();
    return { type: 'stream.gapped', ...gap };
  }

  async #updateRecord(
    change: (record: EpochRecord) => EpochRecord | undefined,
    signal: AbortSignal,
  ): Promise<SettlementEvent> {
    const { ports, star, epoch } = this.#input;
    const { record, version } = this.#stored!;
    const next = change(record);
    if (next === undefined) return { type: 'record.read', record };
    let written = next;
    const put = await conditionalPut(
      ports.metastore,
      {
        key: epochKey(star, epoch),
        expected: version,
        encode: (attempt) => {
          written = { ...next, attempt };
          return encodeRecordValue(written);
        },
      },
      { clock: ports.clock, random: ports.random, signal },
    );
    return put.kind === 'applied' ? this.#hold(written, put.version) : this.#adopt(put.current);
  }

  async #sweepTail(
    range: { readonly from: number; readonly to: number },
    signal: AbortSignal,
  ): Promise<SettlementEvent> {
    const { ports, sets } = this.#input;
    const { record } = this.#stored!;
    const set = await sets.resolve(record.set, signal);
    const outcome = await sweepTail(ports, { set, record, ...range }, { signal });
    ports.metrics.counter('settlement.tailFlightsDeleted').add(outcome.deleted);
    const type = outcome.swept ? ('tail.swept' as const) : ('tail.unswept' as const);
    return { type, deleted: outcome.deleted };
  }

  #finish(): void {
    if (this.#isOver) return; // The actor of a run that was given up completes as well.
    const { value, context } = this.#actor.getSnapshot();
    if (value === 'settled') {
      const millis = this.#input.ports.clock.monotonic() - this.#begunAt;
      this.#input.ports.metrics.histogram('settlement.millis').record(millis);
      const { streams, swept } = context;
      const headersRead = this.#headersRead;
      this.#end({ kind: 'settled', streams, headersRead, swept, millis });
    } else if (value === 'gapped') {
      this.#end({ kind: 'gap', ...context.gap! });
    } else this.#end(this.#failureOf(context));
  }

  #failureOf(context: {
    readonly failure: { readonly code: string; readonly message: string } | null;
    readonly missingSlot: number | null;
    readonly poisonedIn: readonly string[];
  }): EngineError {
    const { star, epoch } = this.#input;
    const { failure, missingSlot, poisonedIn } = context;
    if (this.#error !== undefined && this.#error.code === failure?.code) return this.#error;
    const code = CHART_CODES.find((each) => each === failure?.code) ?? 'INVARIANT';
    if (code === 'ACKNOWLEDGED_SLOT_POISONED') {
      this.#input.ports.metrics.counter('settlement.acknowledgedPoisoned').add();
    }
    return new EngineError(code, failure?.message ?? 'settlement ended without a reason', {
      details: {
        star,
        epoch,
        slot: missingSlot ?? undefined,
        buckets: poisonedIn.length === 0 ? undefined : poisonedIn.join(','),
      },
    });
  }

  /** Ends the run once. Streams whose fate was known have been answered before. */
  #end(outcome: SettlementResult | EngineError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#controller.abort();
    this.#over.abort();
    this.#actor.stop();
    if (EngineError.is(outcome)) {
      this.#waiters.rejectAll(outcome);
      this.#result.reject(outcome);
    } else {
      this.#waiters.rejectAll(new EngineError('CLOSED', 'settlement ended'));
      this.#result.resolve(outcome);
    }
    this.#input.onEnd(this);
  }
}

/**
 * One fence actor: the machine, the effects it names, and everyone who waits for its cut. Owns no
 * rule; every answer is one event.
 */
import { createActor, type Actor, type InspectionEvent } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { deferred } from '../src/lib/wait.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { NO_EPOCH } from '../src/format/poison.ts';
import { hasBit } from '../src/protocol/fence-rows.ts';
import type { FenceState, FenceWave } from '../src/protocol/fence.ts';
import type { CutClaim } from '../src/protocol/publication.ts';
import { fenceMachine, type FenceEvent } from '../machines/fence.machine.ts';
import type { BucketPatience } from './bucket-patience.ts';
import type { BucketSets } from './bucket-set.ts';
import { CutPublisher, type PublishedCut } from './cut-publisher.ts';
import { runEffect } from './effect.ts';
import type {
  FencedBy,
  FencePhase,
  FenceProgress,
  FenceResult,
  UndecidedFence,
} from './fence-reports.ts';
import type { StarPorts } from './ports.ts';
import { observeWave, type FencedEpoch } from './slot-observer.ts';
import { SlotWriter } from './slot-writer.ts';
import { untilAvailable } from './until-available.ts';

export interface FenceRunOptions {
  readonly ports: StarPorts;
  readonly sets: BucketSets;
  readonly by: FencedBy;
  readonly star: string;
  readonly epoch: number;
  readonly own: boolean;
  readonly tailHint: number | null;
  readonly patienceOf: (bucketName: string) => BucketPatience;
  readonly inspect?: ((event: InspectionEvent) => void) | undefined;
}

export class FenceRun {
  readonly #options: FenceRunOptions;
  readonly #publisher: CutPublisher;
  readonly #actor: Actor<typeof fenceMachine>;
  readonly #result = deferred<FenceResult>();
  readonly #listeners = new Set<(progress: FenceProgress) => void>();
  readonly #begunAt: number;
  /**
   * Fires when the run ends: aborts what is still under way. That is much where a bucket is silent:
   * each wave leaves its unanswered reads there, until they are given up.
   */
  readonly #life = forManyListeners(new AbortController());
  #effect: AbortController | undefined;
  #fenced: FencedEpoch | undefined;
  #failure: EngineError | undefined;
  #reported: FenceState | null = null;
  #undecidedAt: number | undefined;

  constructor(options: FenceRunOptions) {
    const { ports, star, epoch, own, tailHint } = options;
    this.#options = options;
    this.#begunAt = ports.clock.monotonic();
    this.#publisher = new CutPublisher(ports, { star, epoch }, options.by);
    // Nobody may be waiting any more when it fails.
    this.#result.promise.catch(() => undefined);
    this.#actor = createActor(this.#machine(), {
      id: `star/${star}/epoch/${epoch}/fence`,
      input: { star, epoch, own, tailHint },
      clock: ports.clock,
      ...(options.inspect === undefined ? {} : { inspect: options.inspect }),
    });
    this.#actor.subscribe({
      next: () => {
        this.#moved();
      },
      error: (cause) => {
        this.#end(toEngineError(cause, 'a fence stopped on an unexpected event'));
      },
    });
  }

  get result(): Promise<FenceResult> {
    return this.#result.promise;
  }

  start(): void {
    this.#actor.start();
  }

  /** A caller that owns the epoch joined: no barrier from now on. */
  joinOwner(): void {
    if (!this.#life.signal.aborted) this.#actor.send({ type: 'owner.joined' });
  }

  listen(listener: (progress: FenceProgress) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  undecided(): UndecidedFence | undefined {
    const { walk, undecidedSinceMillis } = this.#actor.getSnapshot().context;
    if (this.#life.signal.aborted || walk === null || undecidedSinceMillis === null)
      return undefined;
    const { star, epoch } = this.#options;
    return {
      star,
      epoch,
      slot: walk.slot,
      buckets: this.#blockedNames(walk),
      sinceMillis: undecidedSinceMillis,
      refusal: this.#refusalOf(walk),
    };
  }

  /** Milliseconds for which the walk's slot could not be decided; 0 when it can. */
  undecidedAgeMillis(): number {
    if (this.#undecidedAt === undefined || this.#life.signal.aborted) return 0;
    return this.#options.ports.clock.monotonic() - this.#undecidedAt;
  }

  /** What a caller is told whose deadline passes now. */
  deadlineError(timeoutMillis: number): EngineError {
    const { star, epoch } = this.#options;
    const undecided = this.undecided();
    if (undecided === undefined) {
      return new EngineError('DEADLINE_EXCEEDED', 'the fence did not end before its deadline', {
        sideEffects: 'possible',
        details: { star, epoch, timeoutMillis, phase: this.#phase() },
      });
    }
    return new EngineError('FENCE_UNDECIDED', 'buckets that do not answer hold the deciding vote', {
      sideEffects: 'possible',
      cause: undecided.refusal,
      details: {
        star,
        epoch,
        slot: undecided.slot,
        buckets: undecided.buckets.join(','),
        ageMillis: Math.round(this.undecidedAgeMillis()),
      },
    });
  }

  close(): void {
    this.#end(new EngineError('CLOSED', 'the engine closed while a fence ran'));
  }

  #machine(): typeof fenceMachine {
    return fenceMachine.provide({
      actions: {
        readRecord: () => {
          this.#run(async (signal) => this.#readRecord(signal));
        },
        runWave: (_, { wave }) => {
          this.#run(async () => this.#runWave(wave));
        },
        publishCut: (_, { claim }) => {
          this.#run(async (signal) => this.#publishCut(claim, signal));
        },
        stopEffect: () => {
          this.#effect?.abort(STATE_LEFT);
          this.#effect = undefined;
        },
      },
    });
  }

  #run(effect: (signal: AbortSignal) => Promise<FenceEvent>): void {
    const controller = new AbortController();
    this.#effect = controller;
    runEffect<FenceEvent>(this.#actor, controller.signal, effect, (error) => {
      this.#failure = error;
      return { type: 'effect.failed', code: error.code, message: error.message };
    });
  }

  async #readRecord(signal: AbortSignal): Promise<FenceEvent> {
    const { record, version } = await this.#publisher.read(signal);
    const { by } = this.#options;
    // Whoever asked: the own writer needs no barrier, it has stopped or is about to.
    if (record.star === by.star && record.incarnation === by.incarnation) this.joinOwner();
    if (this.#fenced === undefined && record.state === 'open') {
      const { ports, sets, patienceOf } = this.#options;
      const set = await untilAvailable(ports, signal, () => sets.resolve(record.set, signal));
      assert(set.buckets.length === record.buckets, 'a set has the K buckets of its epochs');
      const patience = set.buckets.map((bucket, index) =>
        patienceOf(bucket?.store.name ?? `${set.id}/${index}`),
      );
      this.#fenced = { record, set, patience };
    }
    return { type: 'record.read', record, version };
  }

  async #runWave(wave: FenceWave): Promise<FenceEvent> {
    const { ports, by } = this.#options;
    const fenced = this.#fenced;
    assert(fenced !== undefined, 'waves follow the record');
    const fencer = { star: by.star, incarnation: by.incarnation, epoch: by.epoch ?? NO_EPOCH };
    const writer = new SlotWriter(ports, fenced, fencer, this.#life.signal);
    const writing = writer.write(wave);
    const observing = observeWave(ports, fenced, wave, this.#life.signal);
    const [written, observed] = await Promise.all([writing, observing]);
    // A repair reads its source before it writes.
    const rounds = wave.repairs.length > 0 ? 2 : 1;
    ports.metrics.counter('fence.rounds').add(rounds);
    return {
      type: 'wave.answered',
      answers: { puts: written.puts, reads: observed.reads, identities: observed.identities },
      cost: {
        rounds,
        gets: observed.gets + written.getCount,
        puts: written.putCount,
        repairs: written.repairs,
      },
      atMillis: ports.clock.now(),
    };
  }

  async #publishCut(claim: CutClaim, signal: AbortSignal): Promise<FenceEvent> {
    const walked = this.#actor.getSnapshot().context;
    assert(
      walked.record !== null && walked.version !== null,
      'a cut is published after the record',
    );
    const { kind, record, version } = await this.#publisher.publish(
      claim,
      { record: walked.record, version: walked.version },
      this.#bucketNames(claim.poisoned ?? []),
      signal,
    );
    if (kind === 'outdated') this.#options.ports.metrics.counter('fence.restarts').add();
    return { type: EVENT_OF[kind], record, version };
  }

  #moved(): void {
    const snapshot = this.#actor.getSnapshot();
    const { context } = snapshot;
    if (context.undecidedSinceMillis === null) this.#undecidedAt = undefined;
    else this.#undecidedAt ??= this.#options.ports.clock.monotonic();
    this.#report();
    if (snapshot.status !== 'done') return;
    if (snapshot.matches('failed')) {
      this.#end(this.#failure ?? new EngineError('INTERNAL', 'a fence failed'));
      return;
    }
    const { record, version, alreadyFenced, cost } = context;
    assert(record !== null && version !== null, 'a fence that ended read its record');
    assert(record.cut !== undefined, 'a fenced epoch has a cut');
    const millis = this.#options.ports.clock.monotonic() - this.#begunAt;
    this.#end({ record, version, cut: record.cut, alreadyFenced, ...cost, millis });
  }

  #end(outcome: FenceResult | EngineError): void {
    if (this.#life.signal.aborted) return;
    if (outcome instanceof Error) this.#result.reject(outcome);
    else this.#result.resolve(outcome);
    this.#life.abort(outcome instanceof Error ? outcome : undefined);
    this.#effect?.abort(STATE_LEFT);
    this.#listeners.clear();
    this.#actor.stop();
  }

  #phase(): FencePhase {
    const snapshot = this.#actor.getSnapshot();
    if (snapshot.matches('reading') || snapshot.matches('failed')) return 'reading';
    if (snapshot.matches('probing')) return 'probing';
    if (snapshot.matches('publishing')) return 'publishing';
    if (snapshot.matches('fenced')) return 'fenced';
    return snapshot.context.undecidedSinceMillis === null ? 'walking' : 'undecided';
  }

  #report(): void {
    const { walk, record, cost } = this.#actor.getSnapshot().context;
    // The slots of a step are told once; later reports of the same step carry none.
    const slots = walk === null || walk === this.#reported ? [] : walk.decided;
    this.#reported = walk;
    if (this.#listeners.size === 0) return;
    const { star, epoch, ports } = this.#options;
    const progress: FenceProgress = {
      star,
      epoch,
      phase: this.#phase(),
      slot: record?.cut ?? walk?.slot ?? record?.checkpoint ?? 0,
      rounds: cost.rounds,
      slots,
      ...(record?.cut === undefined ? {} : { cut: record.cut }),
      millis: ports.clock.monotonic() - this.#begunAt,
    };
    for (const listener of this.#listeners) listener(progress);
  }

  #blockedNames(walk: FenceState): string[] {
    return this.#bucketNames(this.#blocked(walk));
  }

  #refusalOf(walk: FenceState): EngineError | undefined {
    const refusals = this.#blocked(walk).map((at) => this.#fenced?.patience[at]?.refusal);
    return refusals.find((refusal) => refusal !== undefined);
  }

  #blocked(walk: FenceState): number[] {
    const buckets = this.#fenced?.set.buckets ?? [];
    return [...buckets.keys()].filter((at) => hasBit(walk.wave.blocked, at));
  }

  #bucketNames(indexes: readonly number[]): string[] {
    const buckets = this.#fenced?.set.buckets ?? [];
    return indexes.map((index) => buckets[index]?.store.name ?? `bucket ${index}`);
  }
}

/** One reason for all: a fresh one would take a stack trace for every wave. */
const STATE_LEFT = 'the state that asked was left';

const EVENT_OF = {
  published: 'cut.published',
  adopted: 'cut.adopted',
  outdated: 'walk.outdated',
} as const satisfies Record<PublishedCut['kind'], FenceEvent['type']>;

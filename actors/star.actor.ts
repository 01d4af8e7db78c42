/**
 * One star: registers, mints, recovers its predecessors, leads streams, drains.
 * Chart: machines/star.machine.ts. Source: DESIGN "Mint (M)", "Fence (F)", "Finish (N)".
 */
import { createActor, type ActorRefFrom } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { EngineError } from '../src/lib/errors.ts';
import { deferred, linkedSignal, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import type { StreamConfig, Tenure } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import { starMachine, type StarEvent } from '../machines/star.machine.ts';
import { Admission } from './admission.ts';
import { ArenaPool } from './arena-pool.ts';
import { BucketSets, type BucketSet } from './bucket-set.ts';
import { runEffect } from './effect.ts';
import { EpochActor, xstateClock } from './epoch.actor.ts';
import { FenceActors, type FenceProgress } from './fence.actor.ts';
import { Flight } from './flight.ts';
import { StarLease } from './lease.actor.ts';
import { ensureMetastoreId } from './metastore-id.ts';
import { mintEpoch } from './mint.ts';
import type { StarPorts } from './ports.ts';
import { recoverChain, type RecoveryResult } from './recovery.ts';
import { SettlementActors } from './settlement.actor.ts';
import { StreamActor, type StreamHost } from './stream.actor.ts';

/** Streams that one drain finishes at a time. */
const FINISH_PARALLEL = 32;
/** Copies beyond W are waited for so long when an epoch closes; then the next start fences it. */
const COPIES_MILLIS = 2_000;

export interface StarOptions {
  readonly onFenceProgress?: ((progress: FenceProgress) => void) | undefined;
}

export class StarActor implements StreamHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly defaultConfig: StreamConfig;
  readonly admission: Admission;
  readonly streams = new Map<string, StreamActor>();
  readonly #options: StarOptions;
  readonly #pool: ArenaPool;
  readonly #controller = forManyListeners(new AbortController());
  readonly #machine: ActorRefFrom<typeof starMachine>;
  readonly #serving = deferred<void>();
  readonly #ended = deferred<void>();
  readonly #recovered = deferred<RecoveryResult>();
  #lease: StarLease | undefined;
  #sets: BucketSets | undefined;
  #set: BucketSet | undefined;
  #fences: FenceActors | undefined;
  #settlements: SettlementActors | undefined;
  #epoch: EpochActor | undefined;
  #failure: EngineError | undefined;
  #drainDeadline: AbortSignal | undefined;

  constructor(ports: StarPorts, settings: ResolvedSettings, options: StarOptions = {}) {
    this.ports = ports;
    this.settings = settings;
    this.#options = options;
    this.defaultConfig = {
      mode: 'any',
      storageClass: settings.storageClass,
      timestamping: 'client-prefer',
      uncapped: false,
    };
    this.#pool = new ArenaPool(settings.poolBytes, Flight.arenaBytes(settings.flightBytes));
    this.admission = new Admission(ports.clock, settings.poolBytes);
    this.#pool.onRoom = () => this.admission.drain();
    this.#serving.promise.catch(() => undefined);
    this.#recovered.promise.catch(() => undefined);
    this.#machine = this.#createMachine();
    this.#registerGauges();
  }

  /**
   * Registers, mints and serves; recovery of predecessors goes on behind it.
   *
   * @throws EngineError STAR_IN_USE, BUCKET_IDENTITY, BUCKET_REFUSED, BUCKET_UNAVAILABLE,
   *   METASTORE_UNAVAILABLE, ABORTED, DEADLINE_EXCEEDED
   */
  async start(options: WaitOptions = {}): Promise<void> {
    this.#machine.start();
    try {
      await waitFor(this.ports.clock, this.#serving.promise, options, 'start');
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  get sets(): BucketSets {
    assert(this.#sets !== undefined, 'sets are known once the star has registered');
    return this.#sets;
  }

  get fences(): FenceActors {
    assert(this.#fences !== undefined, 'fences are known once the star has registered');
    return this.#fences;
  }

  get pool(): ArenaPool {
    return this.#pool;
  }

  epoch(): EpochActor {
    assert(this.#epoch !== undefined, 'M1 only a returned mint writes');
    return this.#epoch;
  }

  tenure(): Tenure {
    const { star, incarnation, class: storageClass, epoch } = this.epoch().record;
    return { star, incarnation, class: storageClass, epoch };
  }

  recovered(options: WaitOptions): Promise<RecoveryResult> {
    return waitFor(this.ports.clock, this.#recovered.promise, options, 'recovery');
  }

  /** Throws what the star answers when it does not serve. */
  throwIfNotServing(): void {
    const snapshot = this.#machine.getSnapshot();
    if (snapshot.matches('serving')) return;
    if (this.#failure !== undefined) throw this.#failure;
    if (snapshot.matches('halted') && this.#epoch !== undefined)
      throw this.#epoch.writer.fencedError();
    throw new EngineError('CLOSED', 'the engine was closed', {
      details: { star: this.settings.star },
    });
  }

  /** Opens a stream, or shares the actor that leads it already. */
  async open(name: string, options: WaitOptions): Promise<StreamActor> {
    for (;;) {
      this.throwIfNotServing();
      let actor = this.streams.get(name);
      if (actor?.isInLimbo === true) throw limboError(name);
      if (actor?.isFinishing === true) {
        await actor.ended(options);
        continue;
      }
      if (actor === undefined) {
        actor = new StreamActor(this, name);
        this.streams.set(name, actor);
        actor.start();
      }
      actor.handleCount++;
      try {
        await actor.opened(options);
        return actor;
      } catch (error) {
        this.leave(actor);
        throw error;
      }
    }
  }

  /** One handle less; the last one begins the Finish. */
  leave(actor: StreamActor): void {
    assert(actor.handleCount > 0, 'a handle is left once');
    actor.handleCount--;
    if (actor.handleCount > 0) return;
    if (actor.isLeading) actor.finish('released');
    // Still opening and nobody waits any more: Finish as soon as it leads.
    else {
      actor
        .opened({})
        .then(() => {
          if (actor.handleCount === 0 && actor.isLeading) actor.finish('released');
        })
        .catch(() => undefined);
    }
  }

  onEnded(actor: StreamActor): void {
    if (this.streams.get(actor.name) === actor) this.streams.delete(actor.name);
  }

  isRegistered(star: string, incarnation: string, signal: AbortSignal): Promise<boolean> {
    assert(this.#lease !== undefined, 'M0 a star registers before it judges others');
    return this.#lease.isRegistered(star, incarnation, signal);
  }

  async settleFor(
    streamId: string,
    star: string,
    epoch: number,
    signal: AbortSignal,
  ): Promise<void> {
    await this.fences.fence({ star, epoch }, { signal });
    assert(this.#settlements !== undefined, 'settlements are known once the star has registered');
    await this.#settlements.covered(star, epoch, streamId, { signal });
  }

  /** Finishes every stream, ends the epoch and the lease; past the deadline the rest is abandoned. */
  async close(options: WaitOptions): Promise<void> {
    if (this.#machine.getSnapshot().status !== 'active') return;
    const limited = linkedSignal(this.ports.clock, options, 'close');
    this.#drainDeadline = limited.signal;
    try {
      this.#machine.send({ type: 'drain.requested' });
      await this.#ended.promise;
    } finally {
      limited.release();
    }
    const left = [...this.streams.values()].filter((actor) => !actor.isLeading).length;
    await this.kill();
    if (limited.signal.aborted && left > 0) {
      throw new EngineError(
        'DEADLINE_EXCEEDED',
        'streams were abandoned: their next open settles them',
        {
          details: { abandonedStreams: left },
          sideEffects: 'possible',
        },
      );
    }
  }

  /** Ends at once: what was not acknowledged is indeterminate. Idempotent. */
  async kill(): Promise<void> {
    this.#controller.abort();
    const error = new EngineError('CLOSED', 'the engine was closed');
    this.admission.rejectAll(error);
    for (const actor of this.streams.values()) actor.stop(error);
    this.streams.clear();
    this.#epoch?.stop();
    this.#recovered.reject(error);
    this.#machine.stop();
    await Promise.all([this.#fences?.close(), this.#settlements?.close()]);
    await this.#lease?.end();
  }

  #send(event: StarEvent): void {
    this.#machine.send(event);
  }

  #createMachine(): ActorRefFrom<typeof starMachine> {
    const { signal } = this.#controller;
    const run = (
      self: { send(event: StarEvent): void },
      effect: () => Promise<StarEvent>,
    ): void => {
      runEffect<StarEvent>(self, signal, effect, (error) => {
        this.#failure = error;
        return { type: 'effect.failed', code: error.code };
      });
    };
    const machine = starMachine.provide({
      actions: {
        registerLease: ({ self }) => run(self, () => this.#register()),
        mintEpoch: ({ self }) => run(self, () => this.#mint()),
        settlePredecessors: ({ self }) =>
          runEffect<StarEvent>(
            self,
            signal,
            () => this.#recover(),
            (error) => {
              this.ports.log.warn(
                { code: error.code, message: error.message },
                'recovery did not end',
              );
              return { type: 'recovery.failed', code: error.code };
            },
          ),
        loseStreams: () => this.#loseStreams(),
        finishStreams: ({ self }) => run(self, () => this.#finishStreams()),
        closeEpoch: ({ self }) => run(self, () => this.#closeEpoch()),
        endLease: () => this.#ended.resolve(),
      },
    });
    const actor = createActor(machine, {
      input: { star: this.settings.star },
      clock: xstateClock(this.ports.clock),
      id: `star/${this.settings.star}`,
    });
    actor.subscribe((snapshot) => {
      if (snapshot.matches('serving')) this.#serving.resolve();
      else if (snapshot.matches('failed')) {
        this.#serving.reject(this.#failure ?? new EngineError('LEASE_LOST', 'the lease was lost'));
      }
    });
    return actor;
  }

  async #register(): Promise<StarEvent> {
    const { ports, settings } = this;
    const { signal } = this.#controller;
    const metastoreId = await ensureMetastoreId(ports, { signal });
    this.#sets = new BucketSets(ports, metastoreId);
    this.#set = await this.#sets.establish(settings.copyQuorum, signal);
    this.#lease = new StarLease(ports, {
      star: settings.star,
      timeoutMillis: settings.sessionTimeoutMillis,
      onLost: () => this.#leaseLost(),
    });
    const incarnation = await this.#lease.register({ supersede: settings.supersede, signal });
    const by = { star: settings.star, incarnation };
    this.#fences = new FenceActors(ports, this.#sets, by);
    this.#settlements = new SettlementActors(ports, this.#sets, by);
    return { type: 'lease.registered', incarnation };
  }

  async #mint(): Promise<StarEvent> {
    const { ports, settings } = this;
    assert(
      this.#lease !== undefined && this.#set !== undefined,
      'M0 a star registers before it mints',
    );
    const minted = await mintEpoch(
      ports,
      {
        star: settings.star,
        class: settings.storageClass,
        incarnation: this.#lease.incarnation,
        set: this.#set.id,
        buckets: this.#set.buckets.length,
        copyQuorum: settings.copyQuorum,
        window: settings.window,
      },
      { signal: this.#controller.signal },
    );
    assert(this.#settlements !== undefined, 'settlements are known once the star has registered');
    this.#epoch = new EpochActor({
      ports,
      settings,
      minted,
      set: this.#set,
      pool: this.#pool,
      fences: this.fences,
      settlements: this.#settlements,
      onLost: () => this.#send({ type: 'epoch.lost' }),
    });
    return { type: 'epoch.minted', epoch: minted.record.epoch };
  }

  async #recover(): Promise<StarEvent> {
    assert(this.#settlements !== undefined, 'settlements are known once the star has registered');
    const result = await recoverChain({
      ports: this.ports,
      fences: this.fences,
      settlements: this.#settlements,
      star: this.settings.star,
      below: this.epoch().record.epoch,
      signal: this.#controller.signal,
      onFenceProgress: this.#options.onFenceProgress,
    });
    this.#recovered.resolve(result);
    return { type: 'predecessors.settled' };
  }

  #leaseLost(): void {
    this.ports.log.error({ star: this.settings.star }, 'the lease of this star was lost');
    this.#failure = new EngineError(
      'LEASE_LOST',
      'the lease of this star was lost: open the engine again',
      {
        details: { star: this.settings.star },
      },
    );
    // The star halts; its epoch is fenced by whoever takes over, or by its own next start.
    this.#epoch?.writer.halt({ slot: this.#epoch.writer.next, bucket: '', found: 'fenced' });
    this.#send({ type: 'lease.lost' });
  }

  #loseStreams(): void {
    const error = this.#failure ?? this.epoch().writer.fencedError();
    this.admission.rejectAll(error);
    for (const actor of this.streams.values()) actor.lose(error);
  }

  /** Busiest first, as far as the deadline allows. */
  async #finishStreams(): Promise<StarEvent> {
    const signal = this.#drainDeadline ?? this.#controller.signal;
    const queue = [...this.streams.values()];
    const next = async (): Promise<void> => {
      for (let actor = queue.shift(); actor !== undefined; actor = queue.shift()) {
        if (signal.aborted) return;
        if (actor.isLeading) actor.finish('released');
        await actor.ended({ signal }).catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: FINISH_PARALLEL }, next));
    return { type: 'streams.finished' };
  }

  async #closeEpoch(): Promise<StarEvent> {
    const limited = linkedSignal(
      this.ports.clock,
      { signal: this.#drainDeadline, timeoutMillis: COPIES_MILLIS },
      'close',
    );
    try {
      // An abandoned stream's records wait in the epoch: only the next open may settle it.
      if (this.streams.size === 0) await this.#epoch?.close(limited.signal);
    } finally {
      limited.release();
    }
    return { type: 'epoch.closed' };
  }

  #registerGauges(): void {
    const { metrics } = this.ports;
    metrics.gauge('pool.usedBytes', () => this.#pool.usedBytes);
    metrics.gauge('pool.peakBytes', () => this.#pool.peakBytes);
    metrics.gauge('pool.waiting', () => this.admission.waitingCount);
    metrics.gauge('epoch.copyDebt', () => this.#epoch?.writer.debt.count ?? 0);
    metrics.gauge('epoch.lagSlots', () => this.#epoch?.absorber.lagSlots ?? 0);
    metrics.gauge('epoch.unacknowledgedSlots', () =>
      this.#epoch === undefined ? 0 : this.#epoch.writer.next - this.#epoch.writer.released,
    );
    metrics.gauge('checkpoint.stallMillis', () => this.#epoch?.writer.stallMillis ?? 0);
    metrics.gauge('streams.open', () => this.streams.size);
    metrics.gauge(
      'streams.limbo',
      () => [...this.streams.values()].filter((actor) => actor.isInLimbo).length,
    );
  }
}

function limboError(name: string): EngineError {
  return new EngineError(
    'STREAM_IN_LIMBO',
    'the last leadership of this stream is not released yet',
    {
      details: { name },
      retryAfterMillis: 5_000,
    },
  );
}

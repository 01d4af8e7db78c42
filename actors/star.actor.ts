/**
 * One star: registers, mints, recovers its predecessors, leads streams, rolls, drains.
 * Chart: machines/star.machine.ts. Source: DESIGN "Mint (M)", "Roll (R)", "Finish (N)".
 */
import type { ActorRefFrom } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { allocatePages } from '../src/lib/pages.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { deferred, linkedSignal, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import type { StreamConfig } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import type { starMachine, StarEvent } from '../machines/star.machine.ts';
import { Admission } from './admission.ts';
import { ArenaPool } from './arena-pool.ts';
import type { BucketSets } from './bucket-set.ts';
import { sendTo } from './effect.ts';
import { EpochActor } from './epoch.actor.ts';
import type { FenceProgress } from './fence.actor.ts';
import { Flight } from './flight.ts';
import type { StarPorts } from './ports.ts';
import { recoverChain, type RecoveryResult } from './recovery.ts';
import { createStarChart } from './star-chart.ts';
import { StarDepartures } from './star-departures.ts';
import { closeEpoch, finishStreams } from './star-drain.ts';
import {
  abandonedError,
  closedError,
  leaseLostError,
  limboError,
  undecidedError,
} from './star-errors.ts';
import { registerGauges } from './star-gauges.ts';
import type { HaltStatus } from './star-halt.ts';
import type { StarHolder } from './star-observer.ts';
import { mintForStar, registerStar, type Registered } from './star-registration.ts';
import type { RollRequest } from './star-roll.ts';
import { StarTurnover } from './star-turnover.ts';
import { StreamActor, type StreamHost } from './stream.actor.ts';
import type { IfAbsent } from './stream-gate.ts';

export interface StarOptions {
  readonly onFenceProgress?: ((progress: FenceProgress) => void) | undefined;
  /** Where other engines reach this one; goes into the lease record. */
  readonly address?: string | undefined;
}

export class StarActor implements StreamHost {
  readonly ports: StarPorts;
  readonly defaultConfig: StreamConfig;
  readonly admission: Admission;
  readonly pool: ArenaPool;
  /** Streams by name, from their open to the end of their leadership. */
  readonly streams = new Map<string, StreamActor>();
  readonly departures: StarDepartures;
  settings: ResolvedSettings;
  readonly #options: StarOptions;
  readonly #controller = forManyListeners(new AbortController());
  readonly #machine: ActorRefFrom<typeof starMachine>;
  readonly #serving = deferred<void>();
  readonly #ended = deferred<void>();
  readonly #recovered = deferred<RecoveryResult>();
  #registered: Registered | undefined;
  #buckets: readonly BucketStore[];
  #epoch: EpochActor | undefined;
  readonly #turnover: StarTurnover;
  #failure: EngineError | undefined;
  #drainDeadline: AbortSignal | undefined;

  constructor(ports: StarPorts, settings: ResolvedSettings, options: StarOptions = {}) {
    this.ports = ports;
    this.settings = settings;
    this.#options = options;
    this.#buckets = ports.buckets;
    this.defaultConfig = {
      mode: 'any',
      storageClass: settings.storageClass,
      timestamping: 'client-prefer',
      uncapped: false,
    };
    this.pool = new ArenaPool(
      settings.poolBytes,
      Flight.arenaBytes(settings.flightBytes),
      ports.buckets.some(({ wantsPages }) => wantsPages === true) ? allocatePages : undefined,
    );
    this.admission = new Admission(ports.clock, settings.poolBytes);
    this.pool.onRoom = () => this.admission.drain();
    this.#serving.promise.catch(() => undefined);
    this.#recovered.promise.catch(() => undefined);
    this.departures = new StarDepartures(this, this.#controller.signal);
    this.#turnover = new StarTurnover(this, {
      mint: () => this.#mint(),
      useEpoch: (epoch) => {
        this.#epoch = epoch;
      },
      checkBuckets: async (signal) => {
        await this.sets.establish(this.#buckets, this.settings.copyQuorum, signal);
      },
      tell: (event) => sendTo<StarEvent>(this.#machine, event),
    });
    this.#machine = this.#createMachine();
    registerGauges(this);
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

  get registered(): Registered {
    assert(this.#registered !== undefined, 'M0 a star registers before anything else');
    return this.#registered;
  }

  get sets(): BucketSets {
    return this.registered.sets;
  }

  get head(): EpochActor | undefined {
    return this.#epoch;
  }

  epoch(): EpochActor {
    assert(this.#epoch !== undefined, 'M1 only a returned mint writes');
    return this.#epoch;
  }

  get isAdmitting(): boolean {
    return !this.#turnover.isRolling;
  }

  rolled(): Promise<void> {
    return this.#turnover.rolled();
  }

  recovered(options: WaitOptions): Promise<RecoveryResult> {
    return waitFor(this.ports.clock, this.#recovered.promise, options, 'recovery');
  }

  /** Throws what the star answers when it does not serve. */
  throwIfNotServing(): void {
    const snapshot = this.#machine.getSnapshot();
    const isGoingOn = snapshot.matches('serving') || snapshot.matches('rolling');
    // A chart that was stopped keeps the state it was in.
    if (!isGoingOn || this.#controller.signal.aborted) throw this.#endedError();
    // A star that halts otherwise comes back: callers wait as long as their deadlines let them.
    if (this.#turnover.halt.refusal !== undefined) throw this.#turnover.halt.refusal;
  }

  /** Why and since when the star has no lease; undefined while it has one. */
  get halted(): HaltStatus | undefined {
    return this.#turnover.halt.status;
  }

  /**
   * Ends the current epoch on purpose and goes on in a new one: producers see delay only (R2).
   *
   * @throws EngineError CLOSED, LEASE_LOST, ABORTED, DEADLINE_EXCEEDED (the roll goes on)
   */
  async roll(request: RollRequest, options: WaitOptions): Promise<number> {
    this.throwIfNotServing();
    const { copyQuorum = this.settings.copyQuorum, window = this.settings.window } = request;
    // A set that cannot be used is refused before the epoch ends for it.
    if (request.buckets !== undefined) {
      const established = this.sets.establish(request.buckets, copyQuorum, options.signal);
      await waitFor(this.ports.clock, established, options, 'roll');
    }
    this.settings = { ...this.settings, copyQuorum, window };
    this.#buckets = request.buckets ?? this.#buckets;
    do {
      await this.epoch().halt();
      await waitFor(this.ports.clock, this.rolled(), options, 'roll');
      this.throwIfNotServing();
      // A roll that was under way already may have minted under the settings before.
    } while (!this.epoch().runsAs(this.settings, this.#buckets));
    return this.epoch().record.epoch;
  }

  /** Opens a stream, or shares the actor that leads it already. */
  async open(name: string, options: WaitOptions, ifAbsent?: IfAbsent): Promise<StreamActor> {
    for (;;) {
      this.throwIfNotServing();
      this.departures.throwIfDraining();
      if (this.#turnover.isRolling) {
        // T2: the cut of the old epoch has yet to place records; nobody may join a tenure in it.
        await waitFor(this.ports.clock, this.rolled(), options, 'open');
        continue;
      }
      if (!this.streams.has(name) && this.departures.isHandedOff(name)) {
        const admitted = this.departures.admitOpen(name, options.signal);
        await waitFor(this.ports.clock, admitted, options, 'open');
        continue;
      }
      let actor = this.streams.get(name);
      if (actor?.isInLimbo === true) throw limboError(name);
      if (actor?.isFinishing === true) {
        await actor.ended(options);
        continue;
      }
      if (actor === undefined) {
        actor = new StreamActor(this, name, ifAbsent);
        this.streams.set(name, actor);
        actor.start();
      }
      actor.handleCount++;
      try {
        await actor.opened(options, () => undecidedError(this.ports.clock, this.registered.fences));
        return actor;
      } catch (error) {
        this.leave(actor);
        throw error;
      }
    }
  }

  /** One handle less; the last one begins the Finish, as soon as the stream leads. */
  leave(actor: StreamActor): void {
    assert(actor.handleCount > 0, 'a handle is left once');
    actor.handleCount--;
    const finishIfUnused = (): void => {
      if (actor.handleCount === 0 && actor.isLeading) actor.finish('released');
    };
    if (actor.isLeading) finishIfUnused();
    else actor.opened({}).then(finishIfUnused, () => undefined);
  }

  onLimbo(actor: StreamActor): void {
    this.departures.noteLimbo(actor);
  }

  onEnded(actor: StreamActor): void {
    if (actor.wasInLimbo) this.departures.clearLimbo(actor);
    if (this.streams.get(actor.name) === actor) this.streams.delete(actor.name);
  }

  holderOf(
    star: string,
    incarnation: string,
    signal: AbortSignal,
  ): Promise<StarHolder | undefined> {
    return this.registered.observer.holder(star, incarnation, signal);
  }

  async settleFor(
    streamId: string,
    { star, epoch }: { readonly star: string; readonly epoch: number },
    { signal, onFenced }: { readonly signal: AbortSignal; readonly onFenced: () => void },
  ): Promise<void> {
    const { fences, settlements } = this.registered;
    const fenced = await fences.fence({ star, epoch }, { signal });
    onFenced();
    await settlements.covered(star, epoch, streamId, { signal }, fenced);
  }

  async coverFor(streamId: string, epoch: number, signal: AbortSignal): Promise<number> {
    const { settlements } = this.registered;
    return (await settlements.covered(this.settings.star, epoch, streamId, { signal })).end;
  }

  /** Finishes every stream, ends the epoch and the lease; past the deadline the rest is abandoned. */
  async close(options: WaitOptions): Promise<void> {
    if (this.#machine.getSnapshot().status !== 'active') return;
    const limited = linkedSignal(this.ports.clock, options, 'close');
    this.#drainDeadline = limited.signal;
    try {
      sendTo<StarEvent>(this.#machine, { type: 'drain.requested' });
      await this.#ended.promise;
    } finally {
      limited.release();
    }
    const abandonedStreams = this.streams.size;
    await this.kill();
    if (!limited.signal.aborted || abandonedStreams === 0) return;
    throw abandonedError(abandonedStreams);
  }

  /** Ends at once: what was not acknowledged is indeterminate. Idempotent. */
  async kill(): Promise<void> {
    this.#controller.abort();
    const error = closedError(this.settings.star);
    this.admission.rejectAll(error);
    for (const actor of this.streams.values()) actor.stop(error);
    this.streams.clear();
    this.#epoch?.stop();
    this.#turnover.stop(error);
    this.#recovered.reject(error);
    this.#machine.stop();
    const { collector, fences, settlements } = this.#registered ?? {};
    await Promise.all([collector?.close(), fences?.close(), settlements?.close()]);
    this.#registered?.observer.close();
    await this.#registered?.incarnations.end();
  }

  /** What ended the star, or is about to. */
  #endedError(): EngineError {
    return this.#failure ?? this.#turnover.halt.error ?? closedError(this.settings.star);
  }

  #createMachine(): ActorRefFrom<typeof starMachine> {
    const actor = createStarChart({
      ports: this.ports,
      star: this.settings.star,
      signal: this.#controller.signal,
      effects: {
        register: () => this.#register(),
        registerAgain: () => this.#turnover.registerAgain(this.#controller.signal),
        mint: () => this.#turnover.mintFirst(this.#controller.signal),
        recover: () => this.#recover(),
        roll: () => this.#turnover.roll(),
        finishStreams: () => this.#finishStreams(),
        closeEpoch: () => this.#closeEpoch(),
        failed: (error) => {
          this.#failure = error;
        },
        registrationFailed: (error) => this.#turnover.halt.failed(error),
        loseStreams: () => this.#turnover.loseStreams(this.#endedError()),
        yieldStreams: () => this.#turnover.yieldStreams(),
        giveUpLease: () => this.registered.incarnations.giveUp(),
        ended: () => this.#ended.resolve(),
      },
    });
    actor.subscribe((snapshot) => {
      if (snapshot.matches('serving')) this.#serving.resolve();
      else if (snapshot.matches('failed')) {
        const { refusal } = this.#turnover.halt;
        this.#serving.reject(this.#failure ?? refusal ?? leaseLostError(this.settings.star));
      }
    });
    return actor;
  }

  async #register(): Promise<StarEvent> {
    const { ports, settings } = this;
    this.#registered = await registerStar(ports, settings, {
      buckets: this.#buckets,
      address: this.#options.address,
      onLost: (reason) => this.#turnover.leaseLost(reason),
      onFenced: (epoch) => this.#epoch?.foundFenced(epoch),
      signal: this.#controller.signal,
    });
    return { type: 'lease.registered', incarnation: this.#registered.incarnations.current };
  }

  async #mint(): Promise<EpochActor> {
    const { ports, settings, pool } = this;
    const { signal } = this.#controller;
    const set = await this.sets.establish(this.#buckets, settings.copyQuorum, signal);
    const { fences, settlements, incarnations } = this.registered;
    const incarnation = incarnations.current;
    const minted = await mintForStar(ports, settings, { incarnation, set, signal });
    const onLost = (): void => this.#turnover.epochLost();
    return new EpochActor({ ports, settings, minted, set, pool, fences, settlements, onLost });
  }

  async #recover(): Promise<StarEvent> {
    const { fences, settlements } = this.registered;
    const result = await recoverChain({
      ports: this.ports,
      fences,
      settlements,
      star: this.settings.star,
      below: this.epoch().record.epoch,
      signal: this.#controller.signal,
      onFenceProgress: this.#options.onFenceProgress,
    });
    this.#recovered.resolve(result);
    this.registered.collector.start();
    this.departures.sweepNotes(this.registered.incarnations.current);
    return { type: 'predecessors.settled' };
  }

  async #finishStreams(): Promise<StarEvent> {
    await finishStreams(this.streams, this.#drainDeadline ?? this.#controller.signal);
    return { type: 'streams.finished' };
  }

  async #closeEpoch(): Promise<StarEvent> {
    // An abandoned stream's records wait in the epoch: only the next open may settle it.
    if (this.#epoch !== undefined && this.streams.size === 0) {
      await closeEpoch(this.ports, this.#epoch, this.#drainDeadline);
    }
    return { type: 'epoch.closed' };
  }
}

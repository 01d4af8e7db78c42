/**
 * From one epoch of a star to the next: after a lost slot, on demand, and after the loss of the lease,
 * then under a new incarnation. Streams whose `writer` still has the version under which this star
 * led them go on in the new epoch with all their batches, whatever the incarnation (R4): nobody led
 * them meanwhile, so that no sequence number was given to anybody else.
 * Source: DESIGN "Mint (M)", "Roll (R)".
 */
import { assert } from '../src/lib/assert.ts';
import type { EngineError } from '../src/lib/errors.ts';
import type { ProgressLook } from '../src/protocol/stall.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { StarEvent } from '../machines/star.machine.ts';
import type { Admission } from './admission.ts';
import type { EpochActor } from './epoch.actor.ts';
import type { LossReason } from './lease.actor.ts';
import type { StarPorts } from './ports.ts';
import { replacedError } from './star-errors.ts';
import { StarHalt } from './star-halt.ts';
import type { Registered } from './star-registration.ts';
import { StarRoll } from './star-roll.ts';
import { StarWatchdog } from './star-watchdog.ts';
import type { StreamActor } from './stream.actor.ts';

/** The star, as far as a turnover looks at it. */
export interface TurnoverHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly admission: Admission;
  readonly streams: ReadonlyMap<string, StreamActor>;
  readonly registered: Registered;
  readonly head: EpochActor | undefined;
  epoch(): EpochActor;
}

export interface TurnoverEffects {
  mint(): Promise<EpochActor>;
  /** The epoch is the star's from now on. */
  useEpoch(epoch: EpochActor): void;
  /** Checks that enough buckets of the set can be written. */
  checkBuckets(signal: AbortSignal): Promise<void>;
  tell(event: StarEvent): void;
}

export class StarTurnover {
  readonly halt: StarHalt;
  readonly #host: TurnoverHost;
  readonly #effects: TurnoverEffects;
  readonly #roll: StarRoll;
  readonly #watchdog: StarWatchdog;

  constructor(host: TurnoverHost, effects: TurnoverEffects) {
    const { ports, settings, streams } = host;
    this.#host = host;
    this.#effects = effects;
    this.halt = new StarHalt(ports, settings.star);
    this.#roll = new StarRoll({
      ports,
      streams,
      epoch: () => host.epoch(),
      mint: async (signal) => {
        await host.registered.incarnations.held(signal);
        return effects.mint();
      },
      useEpoch: (epoch) => this.#useEpoch(epoch),
    });
    this.#watchdog = new StarWatchdog({
      ports,
      look: () => this.#look(),
      roll: () => haltEpoch(host.head, 'rolled'),
      giveUp: () => host.registered.incarnations.giveUp(),
    });
    this.#watchdog.start();
  }

  /** Nothing is admitted meanwhile: batches wait, they do not fail (R2). */
  get isRolling(): boolean {
    return this.#roll.isRolling;
  }

  rolled(): Promise<void> {
    return this.#roll.rolled();
  }

  /** Runs before any caller's continuation (A3): nothing is admitted until the star has rolled. */
  epochLost(): void {
    if (this.#roll.begin()) this.#effects.tell({ type: 'epoch.lost' });
  }

  leaseLost(reason: LossReason): void {
    this.halt.lost(reason);
    // Before the first mint there is nothing to roll: that goes on under the next incarnation.
    if (this.#host.head !== undefined) this.#roll.begin();
    this.#effects.tell({ type: 'lease.lost' });
    haltEpoch(this.#host.head);
  }

  /** Effect of the chart's minting: over when the star has an epoch of an incarnation that is held. */
  async mintFirst(signal: AbortSignal): Promise<undefined> {
    const { incarnations } = this.#host.registered;
    let minted = await this.#effects.mint();
    while (!incarnations.isHeld(minted.record.incarnation)) {
      // Lost meanwhile: recovery settles this one, in which nothing was written.
      minted.stop();
      await incarnations.held(signal);
      minted = await this.#effects.mint();
    }
    // In one turn: what is lost from here on begins a roll.
    this.#effects.useEpoch(minted);
    this.#effects.tell({ type: 'epoch.minted', epoch: minted.record.epoch });
  }

  /** Effect of the chart's rolling: over when the star has an epoch that lives. */
  async roll(): Promise<undefined> {
    const before = this.#host.epoch().record.incarnation;
    do {
      await this.#roll.run();
      // Lost again after the roll's last look: nobody else rolls for it.
    } while (this.#host.epoch().writer.lost !== undefined);
    const { epoch, incarnation } = this.#host.epoch().record;
    // In one turn: what is lost from here on begins another roll.
    this.#roll.end();
    this.#effects.tell({ type: 'roll.done', epoch });
    this.#host.admission.drain();
    if (incarnation !== before) await this.#roll.enterAll();
  }

  /** Effect of the chart's halted state. A star that cannot write leaves its name to one that can. */
  async registerAgain(signal: AbortSignal): Promise<StarEvent> {
    await this.#effects.checkBuckets(signal);
    const incarnation = await this.#host.registered.incarnations.register(signal);
    this.halt.registered(incarnation);
    return { type: 'lease.registered', incarnation };
  }

  /** Another process runs the star: its streams are served there, this one waits for the name. */
  yieldStreams(): void {
    const { refusal } = this.halt;
    assert(refusal !== undefined, 'streams are yielded to a holder of the name');
    const error = replacedError(this.#host.settings.star, refusal);
    this.#endStreams(error);
    this.#roll.wakeWaiters();
    void this.#roll.drop(this.#host.epoch(), error);
  }

  /** The star does not go on: below the cut batches are acknowledged all the same, the rest is dropped. */
  loseStreams(error: EngineError): void {
    this.#endStreams(error);
    this.stop(error);
  }

  stop(error: EngineError): void {
    this.#watchdog.stop();
    void this.#roll.stop(this.#host.head, error);
  }

  #look(): ProgressLook | undefined {
    const { head } = this.#host;
    if (head === undefined || this.halt.isHalted) return undefined;
    const { next, released } = head.writer;
    const isWaiting = next > released || this.isRolling;
    return { epoch: head.record.epoch, released, isWaiting };
  }

  #endStreams(error: EngineError): void {
    this.#host.admission.rejectAll(error);
    for (const actor of this.#host.streams.values()) actor.lose(error);
  }

  #useEpoch(epoch: EpochActor): void {
    this.#effects.useEpoch(epoch);
    // Lost while it was minted: the roll goes on.
    if (!this.#host.registered.incarnations.isHeld(epoch.record.incarnation)) haltEpoch(epoch);
  }
}

/** It accepts nothing more, for ever; its cut places what is under way. */
function haltEpoch(epoch: EpochActor | undefined, found: 'fenced' | 'rolled' = 'fenced'): void {
  epoch?.writer.halt({ slot: epoch.writer.next, bucket: '', found });
}

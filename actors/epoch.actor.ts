/**
 * Hosts one epoch of the own chain: the data plane, absorb, confirmations, and what happens when a
 * slot is lost. Chart: machines/epoch.machine.ts. Source: DESIGN "Append (A)", "Absorb (B)".
 */
import { createActor, type ActorRefFrom } from 'xstate';
import { EngineError } from '../src/lib/errors.ts';
import { assert } from '../src/lib/assert.ts';
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { deferred, linkedSignal } from '../src/lib/wait.ts';
import { epochKey } from '../src/protocol/keys.ts';
import { encodeRecordValue, epochRecord, parseRecordValue } from '../src/protocol/records.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { epochMachine, type EpochEvent } from '../machines/epoch.machine.ts';
import { Absorber } from './absorber.ts';
import type { ArenaPool } from './arena-pool.ts';
import type { BucketSet, SetBucket } from './bucket-set.ts';
import { conditionalPut } from './conditional-write.ts';
import { Confirmation } from './confirmation.ts';
import { runEffect, sendTo } from './effect.ts';
import { EpochWriter, type StrandedFlight } from './epoch-writer.ts';
import type { FenceActors } from './fence.actor.ts';
import type { Flight } from './flight.ts';
import type { MintedEpoch } from './mint.ts';
import type { StarPorts } from './ports.ts';
import type { SettlementActors } from './settlement.actor.ts';
import type { StreamTail } from './stream-tail.ts';

/** A planned roll drains its window for so long; then its own flights meet the poison too. */
const DRAIN_WINDOW_MILLIS = 5_000;

export interface EpochInput {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly minted: MintedEpoch;
  readonly set: BucketSet;
  readonly pool: ArenaPool;
  readonly fences: FenceActors;
  readonly settlements: SettlementActors;
  /** The first lost slot; runs before any caller's continuation. */
  onLost(): void;
}

export class EpochActor {
  readonly writer: EpochWriter;
  readonly absorber: Absorber;
  readonly confirmation: Confirmation;
  readonly #input: EpochInput;
  readonly #tails = new Map<string, StreamTail>();
  readonly #machine: ActorRefFrom<typeof epochMachine>;
  readonly #controller = forManyListeners(new AbortController());
  readonly #placed = deferred<void>();
  readonly #stranded: StrandedFlight[] = [];

  constructor(input: EpochInput) {
    this.#input = input;
    const { ports, settings, minted } = input;
    const buckets = input.set.buckets.map((bucket): SetBucket => {
      assert(bucket !== undefined, 'the set of a new epoch is configured');
      return bucket;
    });
    this.writer = new EpochWriter({
      ports,
      settings,
      record: minted.record,
      buckets,
      pool: input.pool,
      onAcknowledged: (flight) => this.#acknowledged(flight),
      onLost: (lost) => {
        this.absorber.stop();
        ports.metrics.counter('epoch.lostSlots').add();
        ports.log.error(
          { ...lost, star: minted.record.star, epoch: minted.record.epoch },
          'a slot was lost',
        );
        this.#send({ type: 'slot.lost', slot: lost.slot, found: lost.found });
        input.onLost();
      },
      onStall: (stalled) =>
        this.#send({ type: stalled ? 'checkpoint.stalled' : 'checkpoint.resumed' }),
    });
    this.absorber = new Absorber({
      ports,
      settings,
      record: minted.record,
      version: minted.version,
      released: () => this.writer.released,
      onCovered: (streamId, end) => this.#tails.get(streamId)?.setCovered(end),
      onCheckpoint: (checkpoint) => this.writer.setCheckpoint(checkpoint),
      onFenced: () => this.writer.halt({ slot: this.writer.next, bucket: '', found: 'fenced' }),
    });
    this.confirmation = new Confirmation(ports, this.writer, buckets);
    this.#placed.promise.catch(() => undefined);
    this.#machine = this.#createMachine();
    this.#machine.start();
  }

  /** Whether the epoch was minted under these constants, for exactly these buckets. */
  runsAs(
    { copyQuorum, window }: Pick<ResolvedSettings, 'copyQuorum' | 'window'>,
    stores: readonly BucketStore[],
  ): boolean {
    const { buckets } = this.#input.set;
    return (
      this.record.copyQuorum === copyQuorum &&
      this.record.window === window &&
      buckets.length === stores.length &&
      buckets.every((bucket, index) => bucket?.store === stores[index])
    );
  }

  get record(): EpochRecord {
    return this.absorber.record;
  }

  /** Acknowledged entries of the stream go to its tail from now on. */
  addTail(streamId: string, tail: StreamTail): void {
    this.#tails.set(streamId, tail);
  }

  removeTail(streamId: string): void {
    this.#tails.delete(streamId);
  }

  /** Flights that the published cut of this lost epoch leaves over, in order; handed out once. */
  async takeStranded(): Promise<readonly StrandedFlight[]> {
    await this.#placed.promise;
    return this.#stranded.splice(0);
  }

  /** Stops assigning, drains the window for a while, then ends the epoch as if a slot were lost. */
  async halt(): Promise<void> {
    const { writer } = this;
    const { clock } = this.#input.ports;
    const limited = linkedSignal(clock, { timeoutMillis: DRAIN_WINDOW_MILLIS }, 'roll');
    writer.pause();
    while (writer.next > writer.released && writer.lost === undefined && !limited.signal.aborted) {
      await writer.progress.next(limited.signal);
    }
    limited.release();
    writer.halt({ slot: writer.next, bucket: '', found: 'rolled' });
  }

  /** A3: somebody was told that an epoch is fenced; if it is this one, the writer has ended. */
  foundFenced({ star, epoch }: Pick<EpochRecord, 'star' | 'epoch'>): void {
    const { writer, record } = this;
    if (record.star !== star || record.epoch !== epoch) return;
    writer.halt({ slot: writer.next, bucket: '', found: 'fenced' });
  }

  /** Resolves when a lost epoch is settled as far as it goes, or the epoch was closed. */
  async ended(signal: AbortSignal): Promise<void> {
    if (this.#machine.getSnapshot().status !== 'active') return;
    await new Promise<void>((resolve) => {
      const subscription = this.#machine.subscribe({ complete: resolve });
      signal.addEventListener(
        'abort',
        () => {
          subscription.unsubscribe();
          resolve();
        },
        { once: true },
      );
    });
  }

  /**
   * Ends the epoch cleanly: with every stream finished and no request under way, the cut is the next
   * slot, and publishing it spares the next start a walk. Best effort: otherwise the next start fences.
   */
  async close(signal: AbortSignal): Promise<void> {
    if (await this.writer.copiesEnded(signal)) await this.absorber.checkpoint();
    else this.#controller.abort();
    this.#send({ type: 'close.requested' });
    await this.ended(signal);
    this.stop();
  }

  /** Ends everything at once; unacknowledged batches become indeterminate. */
  stop(): void {
    this.#controller.abort();
    this.absorber.stop();
    const error = new EngineError('CLOSED', 'the engine was closed');
    this.confirmation.stop(error);
    this.#placed.reject(error);
    this.writer.abandon(error);
    this.#machine.stop();
  }

  #send(event: EpochEvent): void {
    sendTo<EpochEvent>(this.#machine, event);
  }

  #acknowledged(flight: Flight): void {
    const { star, epoch, set } = this.writer.record;
    const source = { star, epoch, set };
    for (const entry of flight.entries) this.#tails.get(entry.streamId)?.add(flight, entry, source);
    // A lost epoch is covered by its settlement, from the headers.
    if (this.writer.lost === undefined) this.absorber.add(flight);
  }

  #createMachine(): ActorRefFrom<typeof epochMachine> {
    const { ports, minted, fences, settlements } = this.#input;
    const { star, epoch } = minted.record;
    const { signal } = this.#controller;
    const failed = (cause: EngineError): EpochEvent => ({
      type: 'effect.failed',
      code: cause.code,
    });
    const machine = epochMachine.provide({
      actions: {
        hurryCheckpoint: () => this.absorber.hurry(),
        fenceOwnEpoch: ({ self }) =>
          runEffect<EpochEvent>(
            self,
            signal,
            async () => {
              const request = { star, epoch, own: true, tailHint: this.writer.next };
              const { cut } = await fences.fence(request, { signal });
              return { type: 'cut.published', cut };
            },
            failed,
          ),
        placeFlights: ({ event }) => {
          assert(event.type === 'cut.published', 'flights are placed by a published cut');
          this.#stranded.push(...this.writer.placeByCut(event.cut));
          this.#placed.resolve();
        },
        settleOwnEpoch: ({ self }) =>
          runEffect<EpochEvent>(
            self,
            signal,
            async () => {
              await settlements.settle({ star, epoch }, { signal });
              return { type: 'epoch.settled' };
            },
            failed,
          ),
        publishOwnCut: ({ self }) =>
          runEffect<EpochEvent>(self, signal, () => this.#publishOwnCut(), failed),
        end: () => {
          ports.metrics.counter('epoch.ended').add();
        },
      },
    });
    return createActor(machine, {
      input: { star, epoch },
      clock: xstateClock(ports.clock),
      id: `star/${star}/epoch/${epoch}`,
    });
  }

  async #publishOwnCut(): Promise<EpochEvent> {
    const { ports } = this.#input;
    const { writer, absorber } = this;
    const cut = writer.next;
    if (writer.lost !== undefined || !writer.isIdle || absorber.record.checkpoint !== cut) {
      return { type: 'effect.failed', code: 'FENCED' };
    }
    writer.end();
    const { star, epoch, incarnation } = absorber.record;
    const key = epochKey(star, epoch);
    // Nothing was ever assigned at or above the cut and nothing will be: there is no tail to sweep.
    const closed = {
      ...absorber.record,
      state: 'settled' as const,
      cut,
      tailSwept: true,
      fencedBy: { star, incarnation, atMillis: ports.clock.now() },
    };
    const put = await conditionalPut(
      ports.metastore,
      {
        key,
        expected: absorber.version,
        encode: (attempt: string) => encodeRecordValue({ ...closed, attempt }),
      },
      { clock: ports.clock, random: ports.random, signal: this.#controller.signal },
    );
    if (put.kind === 'applied') return { type: 'cut.published', cut };
    assert(put.current !== undefined, 'an epoch record is never deleted');
    const current = parseRecordValue(epochRecord, key, put.current.value);
    assert(
      current.cut === undefined || current.cut === cut,
      'F3 every fencer derives the same cut',
    );
    return { type: 'effect.failed', code: 'FENCED' };
  }
}

/** XState's clock is the port's, under its own types. */
export function xstateClock(clock: StarPorts['clock']): {
  setTimeout(run: (...args: unknown[]) => void, millis: number): unknown;
  clearTimeout(handle: unknown): void;
} {
  return {
    setTimeout: (run, millis) => clock.setTimeout(run, millis),
    clearTimeout: (handle) => {
      if (handle !== undefined) clock.clearTimeout(handle as number | object);
    },
  };
}

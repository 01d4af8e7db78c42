/**
 * The data plane of an epoch: flights get slots, go to K buckets, are acknowledged in slot order
 * when W hold them. Plain code, no statechart per record or per flight.
 * Source: DESIGN "Append (A)"; invariants A1-A5.
 */
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { deferred, type Deferred } from '../src/lib/wait.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import type { ArenaPool } from './arena-pool.ts';
import type { SetBucket } from './bucket-set.ts';
import { CopyDebt } from './copy-debt.ts';
import { FlightQueue } from './flight-queue.ts';
import type { Flight, FlightPart } from './flight.ts';
import type { StarPorts } from './ports.ts';
import { Progress } from './progress.ts';
import { storeCopy } from './slot-copies.ts';
import { TurnBudget } from './turn-budget.ts';

export interface LostSlot {
  readonly slot: number;
  readonly bucket: string;
  /** `fenced`: the record says so; `rolled`: on demand; the others were found in the slot. */
  readonly found: 'poison' | 'foreign' | 'corrupt' | 'fenced' | 'rolled';
}

export interface EpochWriterInput {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly record: EpochRecord;
  readonly buckets: readonly SetBucket[];
  readonly pool: ArenaPool;
  /** A flight was acknowledged; runs before its callers learn of it. */
  onAcknowledged(flight: Flight): void;
  /** The first lost slot; nothing is assigned any more. Runs before any caller's continuation (A3). */
  onLost(lost: LostSlot): void;
  /** Assignment waits for the checkpoint, or goes on again. */
  onStall(stalled: boolean): void;
}

interface SlotState {
  readonly flight: Flight;
  readonly key: string;
  /** One array for all buckets: what one of them computes of it serves the others. */
  readonly bytes: Uint8Array;
  readonly controller: AbortController;
  readonly assignedAt: number;
  counted: number;
  /** Requests under way. */
  pending: number;
  /** Resolves when the last request has ended; made when somebody waits for it. */
  ended: Deferred<void> | undefined;
}

/** A flight that the cut left over: it goes on in the next epoch, or its batches are dropped (R1). */
export interface StrandedFlight {
  readonly flight: Flight;
  /** No request reads its memory any more. */
  readonly ended: Promise<void>;
}

/** A copy that takes longer than this is given up when memory is short. */
const LAGGING_COPY_MILLIS = 1_000;

export class EpochWriter {
  readonly record: EpochRecord;
  readonly debt: CopyDebt;
  readonly queue: FlightQueue;
  readonly progress = new Progress();
  readonly #input: EpochWriterInput;
  readonly #slots = new Map<number, SlotState>();
  /** Whoever was answered appends again: a few flights at a time, or nobody looks after the rest. */
  readonly #turn: TurnBudget;
  #next = 0;
  #released = 0;
  #checkpoint = 0;
  #lost: LostSlot | undefined;
  #isPaused = false;
  #stalledSince: number | undefined;
  #lastTrouble: EngineError | undefined;

  constructor(input: EpochWriterInput) {
    this.#input = input;
    this.record = input.record;
    this.#turn = new TurnBudget(input.ports.clock, () => this.#release());
    assert(input.buckets.length === input.record.buckets, 'an epoch has the K buckets of its set');
    this.debt = new CopyDebt(input.ports, input.record, input.buckets);
    this.queue = new FlightQueue({
      ports: input.ports,
      settings: input.settings,
      pool: input.pool,
      sealsWhenIdle: input.record.class === 'express',
      isQuiet: () => this.#next === this.#released,
      onReady: () => this.#pump(),
      onShort: () => this.#giveUpCopies(),
    });
  }

  /** The next slot to be assigned. */
  get next(): number {
    return this.#next;
  }

  /** The first slot not yet acknowledged in order. */
  get released(): number {
    return this.#released;
  }

  get checkpoint(): number {
    return this.#checkpoint;
  }

  get lost(): LostSlot | undefined {
    return this.#lost;
  }

  /** What a bucket last answered instead of storing; the cause behind a passed deadline. */
  get lastTrouble(): EngineError | undefined {
    return this.#lastTrouble;
  }

  /** Nothing is open, sealed or unacknowledged. */
  get isIdle(): boolean {
    return this.#next === this.#released && this.queue.isEmpty;
  }

  /** Milliseconds for which the checkpoint has kept assignment waiting; 0 when it does not. */
  get stallMillis(): number {
    return this.#stalledSince === undefined
      ? 0
      : this.#input.ports.clock.monotonic() - this.#stalledSince;
  }

  /** The checkpoint is durable: slots up to `checkpoint + lag` may be assigned. */
  setCheckpoint(checkpoint: number): void {
    assert(checkpoint >= this.#checkpoint, 'B the checkpoint never goes back');
    assert(checkpoint <= this.#released, 'B the checkpoint covers acknowledged slots only');
    this.#checkpoint = checkpoint;
    this.#pump();
  }

  /** Assigns no slot any more, so that what is under way drains; a halt follows. */
  pause(): void {
    this.#isPaused = true;
  }

  /** Stops assigning for good. What has no place yet is placed by the cut. */
  halt(lost: LostSlot): void {
    if (this.#lost !== undefined) return;
    this.#lost = lost;
    this.#setStalled(false);
    this.#input.onLost(lost);
    this.progress.tell();
  }

  /** Ends an idle epoch: nothing was lost and nothing is assigned any more. */
  end(): void {
    assert(this.isIdle, 'an epoch ends with nothing under way');
    this.#lost ??= { slot: this.#next, bucket: '', found: 'fenced' };
    this.progress.tell();
  }

  /**
   * Places every flight by the published cut: below it acknowledged, the rest answered in order, to
   * go on in the next epoch or to be dropped (R1).
   */
  placeByCut(cut: number): readonly StrandedFlight[] {
    assert(this.#lost !== undefined, 'only a halted epoch is placed by its cut');
    assert(cut >= this.#released, 'F1 no acknowledged slot lies at or above the cut');
    this.debt.stop();
    const stranded: StrandedFlight[] = [];
    for (let slot = this.#released; slot < this.#next; slot++) {
      const state = this.#slots.get(slot);
      assert(state !== undefined, 'an unacknowledged slot has its flight');
      state.controller.abort();
      if (slot < cut) {
        this.#released = slot + 1;
        this.#acknowledge(state);
      } else {
        stranded.push({ flight: state.flight, ended: requestsEnded(state) });
        this.#slots.delete(slot);
      }
    }
    for (const flight of this.queue.close()) stranded.push({ flight, ended: Promise.resolve() });
    this.progress.tell();
    return stranded;
  }

  /** Gives up every request: batches in slots end indeterminate, what was never sent with `closed`. */
  abandon(closed: EngineError): void {
    this.#lost ??= { slot: this.#next, bucket: '', found: 'fenced' };
    this.debt.stop();
    for (const flight of this.queue.close()) dropFlight(flight, () => closed);
    for (const [slot, state] of this.#slots) {
      state.controller.abort();
      if (slot >= this.#released) dropFlight(state.flight, indeterminateError);
    }
    this.#slots.clear();
    this.progress.tell();
  }

  /** Resolves when no request of this epoch is under way any more; false when the signal fired. */
  async copiesEnded(signal: AbortSignal): Promise<boolean> {
    while ([...this.#slots.values()].some((state) => state.pending > 0)) {
      if (signal.aborted) return false;
      await this.progress.next(signal);
    }
    return true;
  }

  fencedError(): EngineError {
    const { star, epoch } = this.record;
    const { slot, bucket, found } = this.#lost ?? {};
    return new EngineError('FENCED', 'this epoch has ended: open the engine again', {
      details: { star, epoch, slot, bucket, found },
    });
  }

  #pump(): void {
    while (this.#lost === undefined && !this.#isPaused) {
      if (this.#next >= this.#released + this.record.window) return;
      const flight = this.queue.head();
      if (flight === undefined) return;
      if (this.#next - this.#checkpoint >= this.#input.settings.checkpointLagSlots) {
        this.#setStalled(true);
        return;
      }
      this.#setStalled(false);
      this.queue.take();
      this.#assign(flight);
    }
  }

  #assign(flight: Flight): void {
    const { record } = this;
    assert(this.#lost === undefined, 'A3 a halted epoch assigns nothing');
    const slot = this.#next++;
    assert(slot < this.#released + record.window, 'A slots are assigned inside the window');
    flight.assign({
      star: record.star,
      epoch: record.epoch,
      slot,
      nonce: record.nonce,
      released: this.#released,
    });
    const state: SlotState = {
      flight,
      key: slotKey(record.star, record.epoch, slot),
      bytes: flight.objectBytes(),
      controller: new AbortController(),
      assignedAt: this.#input.ports.clock.monotonic(),
      counted: 0,
      pending: this.#input.buckets.length,
      ended: undefined,
    };
    this.#slots.set(slot, state);
    for (const [index, bucket] of this.#input.buckets.entries()) this.#store(state, index, bucket);
  }

  #store(state: SlotState, index: number, bucket: SetBucket): void {
    const { record } = this;
    const { flight } = state;
    const { slot } = flight;
    flight.hold();
    void storeCopy(this.#input.ports, {
      bucket,
      key: state.key,
      bytes: state.bytes,
      expected: { star: record.star, epoch: record.epoch, slot, nonce: record.nonce },
      signal: state.controller.signal,
      onTrouble: (store, cause) => this.#noteTrouble(store, cause),
    }).then((result) => {
      state.pending--;
      if (result.kind === 'lost') {
        this.halt({ slot, bucket: bucket.store.name, found: result.found });
      } else if (result.kind === 'stored') {
        state.counted++;
        if (state.counted === record.copyQuorum) this.#release();
      } else if (slot < this.#released) this.debt.owe(index, slot);
      flight.letGo();
      if (state.pending > 0) return;
      if (slot < this.#released) this.#slots.delete(slot);
      state.ended?.resolve();
      this.progress.tell();
    });
  }

  /** A1: acknowledges in slot order what W buckets hold. */
  #release(): void {
    const before = this.#released;
    // Of a lost epoch the cut decides, even about slots that W copies exist of.
    while (this.#lost === undefined && !this.#turn.isSpent) {
      const state = this.#slots.get(this.#released);
      if (state === undefined || state.counted < this.record.copyQuorum) break;
      this.#released++;
      this.#turn.spend(state.flight.bodyBytes);
      this.#acknowledge(state);
      if (state.pending === 0) this.#slots.delete(state.flight.slot);
    }
    if (this.#released === before) return;
    this.#pump();
    this.progress.tell();
  }

  #acknowledge(state: SlotState): void {
    const { flight, assignedAt } = state;
    assert(flight.slot === this.#released - 1, 'A1 acknowledgements are in slot order');
    const { metrics, clock } = this.#input.ports;
    const now = clock.monotonic();
    metrics.histogram('flight.storedMillis').record(now - assignedAt);
    metrics.counter('flight.acknowledged').add();
    metrics.counter('flight.acknowledgedBytes').add(flight.bodyBytes);
    this.#input.onAcknowledged(flight);
    for (const part of flight.parts) part.acknowledged(now);
    // The flight stays in the cache for readers, who want its bytes alone.
    flight.parts.length = 0;
    flight.letGo();
  }

  #noteTrouble(store: BucketStore, cause: EngineError): void {
    const { metrics, log } = this.#input.ports;
    metrics.counter('bucket.putTroubles').add();
    if (this.#lastTrouble?.code !== cause.code) {
      const { code, message } = cause;
      log.warn({ bucket: store.name, code, message }, 'a copy was not stored');
    }
    this.#lastTrouble = cause;
  }

  /**
   * Copies beyond W of acknowledged flights that a bucket has kept waiting for long, so that their
   * memory can be used again; they are made up later.
   */
  #giveUpCopies(): void {
    const oldest = this.#input.ports.clock.monotonic() - LAGGING_COPY_MILLIS;
    for (const [slot, state] of this.#slots) {
      if (slot >= this.#released || state.assignedAt > oldest) return;
      if (!state.controller.signal.aborted) {
        this.#input.ports.metrics.counter('flight.copiesGivenUp').add(state.pending);
        state.controller.abort();
      }
    }
  }

  #setStalled(stalled: boolean): void {
    if (stalled === (this.#stalledSince !== undefined)) return;
    const now = this.#input.ports.clock.monotonic();
    if (this.#stalledSince !== undefined) {
      const stallMillis = now - this.#stalledSince;
      this.#input.ports.metrics.histogram('checkpoint.stallMillis').record(stallMillis);
    }
    this.#stalledSince = stalled ? now : undefined;
    this.#input.onStall(stalled);
  }
}

/** Ends every batch of a flight that will not be acknowledged, and lets its memory go. */
export function dropFlight(flight: Flight, error: (part: FlightPart) => EngineError): void {
  for (const part of flight.parts) part.dropped(error(part));
  flight.letGo();
}

function indeterminateError({ startSeqNum, endSeqNum }: FlightPart): EngineError {
  return new EngineError('INDETERMINATE', 'the engine ended before the batch was acknowledged', {
    sideEffects: 'possible',
    details: { startSeqNum, endSeqNum },
  });
}

function requestsEnded(state: SlotState): Promise<void> {
  if (state.pending === 0) return Promise.resolve();
  state.ended = deferred<void>();
  return state.ended.promise;
}

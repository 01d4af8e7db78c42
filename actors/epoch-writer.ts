/**
 * The data plane of an epoch: flights get slots, go to K buckets, are acknowledged in slot order
 * when W hold them. Plain code, no statechart per record or per flight.
 * Source: DESIGN "Append (A)"; invariants A1-A5.
 */
import { assert } from '../src/lib/assert.ts';
import type { TimerHandle } from '../src/lib/clock.ts';
import { EngineError } from '../src/lib/errors.ts';
import { slotKey } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import type { ArenaPool } from './arena-pool.ts';
import type { SetBucket } from './bucket-set.ts';
import { CopyDebt } from './copy-debt.ts';
import { Flight, type BatchShape, type FlightPart } from './flight.ts';
import type { StarPorts } from './ports.ts';
import { storeCopy } from './slot-copies.ts';

export interface LostSlot {
  readonly slot: number;
  readonly bucket: string;
  readonly found: 'poison' | 'foreign' | 'corrupt' | 'fenced';
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

/** A copy that takes longer than this is given up when memory is short. */
const LAGGING_COPY_MILLIS = 1_000;

interface SlotState {
  readonly flight: Flight;
  readonly controller: AbortController;
  readonly assignedAt: number;
  counted: number;
  pending: number;
}

export class EpochWriter {
  readonly record: EpochRecord;
  readonly debt: CopyDebt;
  readonly #input: EpochWriterInput;
  readonly #slots = new Map<number, SlotState>();
  readonly #ready: Flight[] = [];
  #open: Flight | undefined;
  /** Flights whose checksums are being computed; they keep their place in `#ready`. */
  readonly #sealing = new Set<Flight>();
  #linger: TimerHandle | undefined;
  #sealSoon = false;
  #next = 0;
  #released = 0;
  #checkpoint = 0;
  #lost: LostSlot | undefined;
  #stalledSince: number | undefined;
  #lastTrouble: EngineError | undefined;
  readonly #releaseListeners = new Set<() => void>();

  constructor(input: EpochWriterInput) {
    this.#input = input;
    this.record = input.record;
    assert(input.buckets.length === input.record.buckets, 'an epoch has the K buckets of its set');
    this.debt = new CopyDebt(input.ports, input.record, input.buckets);
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
    return this.#next === this.#released && this.#ready.length === 0 && (this.#open?.isEmpty ?? true);
  }

  /** Milliseconds for which the checkpoint has kept assignment waiting; 0 when it does not. */
  get stallMillis(): number {
    return this.#stalledSince === undefined ? 0 : this.#input.ports.clock.monotonic() - this.#stalledSince;
  }

  /** Calls `listener` after each acknowledgement and at a halt, until the returned function is called. */
  onProgress(listener: () => void): () => void {
    this.#releaseListeners.add(listener);
    return () => this.#releaseListeners.delete(listener);
  }

  /** A flight with room for `bodyBytes`, or undefined while the pool is exhausted. */
  prepare(bodyBytes: number): Flight | undefined {
    assert(this.#lost === undefined, 'A3 a halted epoch accepts nothing');
    if (this.#open?.hasRoom(bodyBytes) === true) return this.#open;
    const arena = this.#input.pool.acquire(Flight.arenaBytes(bodyBytes));
    if (arena === undefined) {
      // Memory is short: what waits is sent as it is, and copies that nobody waits for are given up.
      this.#giveUpCopies();
      this.#seal();
      return undefined;
    }
    this.#seal();
    this.#open = new Flight(this.#input.pool, arena);
    return this.#open;
  }

  /** Takes over a batch encoded into the flight that `prepare` returned. */
  commit(flight: Flight, batch: BatchShape, end: number, part: FlightPart): void {
    flight.add(batch, end, part);
    if (flight.bodyBytes >= this.#input.settings.flightBytes) {
      this.#seal();
      return;
    }
    if (this.#linger !== undefined || this.#sealSoon) return;
    if (this.#sealsWhenIdle() && this.#isQuiet()) this.#sealInNextTurn();
    else {
      this.#linger = this.#input.ports.clock.setTimeout(() => {
        this.#linger = undefined;
        if (this.#open === undefined) return;
        this.#open.lingered = true;
        this.#pump();
      }, this.#input.settings.lingerMillis);
    }
  }

  /** Seals whatever is open: used by close and by whoever waits for the batch to be durable soon. */
  flush(): void {
    this.#seal();
  }

  /** The checkpoint is durable: slots up to `checkpoint + lag` may be assigned. */
  setCheckpoint(checkpoint: number): void {
    assert(checkpoint >= this.#checkpoint, 'the checkpoint never goes back');
    assert(checkpoint <= this.#released, 'the checkpoint covers acknowledged slots only');
    this.#checkpoint = checkpoint;
    this.#pump();
  }

  /** Stops assigning for good; what has no slot yet is dropped as never stored. */
  halt(lost: LostSlot): void {
    if (this.#lost !== undefined) return;
    this.#lost = lost;
    this.#setStalled(false);
    if (this.#linger !== undefined) this.#input.ports.clock.clearTimeout(this.#linger);
    this.#linger = undefined;
    this.#input.onLost(lost);
    const unassigned = this.#ready.splice(0);
    if (this.#open !== undefined) unassigned.push(this.#open);
    this.#open = undefined;
    for (const flight of unassigned) this.#drop(flight);
    this.#tellProgress();
  }

  /** Ends an idle epoch: nothing was lost and nothing is assigned any more. */
  end(): void {
    assert(this.isIdle, 'an epoch ends with nothing under way');
    this.#lost ??= { slot: this.#next, bucket: '', found: 'fenced' };
    this.#tellProgress();
  }

  /** Places every flight by the published cut: below it acknowledged, the rest dropped (R1). */
  resolveByCut(cut: number): void {
    assert(this.#lost !== undefined, 'only a halted epoch is resolved by its cut');
    assert(cut >= this.#released, 'F1 no acknowledged slot lies at or above the cut');
    const end = this.#next;
    for (let slot = this.#released; slot < end; slot++) {
      const state = this.#slots.get(slot);
      assert(state !== undefined, 'an unacknowledged slot has its flight');
      state.controller.abort();
      if (slot < cut) {
        this.#released = slot + 1;
        this.#acknowledge(state);
      } else this.#drop(state.flight);
      this.#slots.delete(slot);
    }
    this.#tellProgress();
  }

  /** Gives up every request; flights that are not acknowledged end as `error`. */
  abandon(error: (part: FlightPart) => EngineError): void {
    this.#lost ??= { slot: this.#next, bucket: '', found: 'fenced' };
    if (this.#linger !== undefined) this.#input.ports.clock.clearTimeout(this.#linger);
    this.debt.stop();
    const flights = [...this.#ready.splice(0), ...(this.#open === undefined ? [] : [this.#open])];
    this.#open = undefined;
    for (const flight of flights) this.#drop(flight);
    for (const [slot, state] of this.#slots) {
      state.controller.abort();
      if (slot < this.#released) continue;
      for (const part of state.flight.parts) part.dropped(error(part));
      state.flight.letGo();
      this.#slots.delete(slot);
    }
    this.#tellProgress();
  }

  /** Resolves when no request of this epoch is under way any more. */
  async copiesEnded(signal: AbortSignal): Promise<boolean> {
    while ([...this.#slots.values()].some((state) => state.pending > 0)) {
      if (signal.aborted) return false;
      await this.nextProgress(signal);
    }
    return true;
  }

  /** Resolves at the next acknowledgement, ended copy, halt or abort. */
  nextProgress(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        off();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const off = this.onProgress(done);
      if (signal.aborted) done();
      else signal.addEventListener('abort', done, { once: true });
    });
  }

  #sealsWhenIdle(): boolean {
    return this.record.class === 'express';
  }

  #isQuiet(): boolean {
    return this.#next === this.#released && this.#ready.length === 0;
  }

  /** Batches of the same turn share the flight. */
  #sealInNextTurn(): void {
    this.#sealSoon = true;
    this.#input.ports.clock.setImmediate(() => {
      this.#sealSoon = false;
      this.#seal();
    });
  }

  #seal(): void {
    const flight = this.#open;
    if (flight === undefined || flight.isEmpty) return;
    this.#open = undefined;
    if (this.#linger !== undefined) this.#input.ports.clock.clearTimeout(this.#linger);
    this.#linger = undefined;
    this.#ready.push(flight);
    const checksums = this.#input.ports.compute.checksums(flight.arena.bytes, flight.checksumRanges());
    if (checksums instanceof Uint32Array) flight.setChecksums(checksums);
    else {
      this.#sealing.add(flight);
      void checksums.then((values) => {
        flight.setChecksums(values);
        this.#sealing.delete(flight);
        this.#pump();
      });
    }
    this.#pump();
  }

  #pump(): void {
    while (this.#lost === undefined) {
      if (this.#next >= this.#released + this.record.window) return;
      if (this.#ready.length === 0 && !this.#sealIfDue()) return;
      const flight = this.#ready[0];
      if (flight === undefined || this.#sealing.has(flight)) return;
      if (this.#next - this.#checkpoint >= this.#input.settings.checkpointLagSlots) {
        this.#setStalled(true);
        return;
      }
      this.#setStalled(false);
      this.#ready.shift();
      this.#assign(flight);
    }
  }

  /** Seals the open flight when its linger has passed or nothing else is under way. */
  #sealIfDue(): boolean {
    const open = this.#open;
    if (open === undefined || open.isEmpty || this.#sealSoon) return false;
    if (open.lingered) this.#seal();
    else if (this.#sealsWhenIdle() && this.#isQuiet()) this.#sealInNextTurn();
    return this.#ready.length > 0;
  }

  #assign(flight: Flight): void {
    const { record } = this;
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
      controller: new AbortController(),
      assignedAt: this.#input.ports.clock.monotonic(),
      counted: 0,
      pending: this.#input.buckets.length,
    };
    this.#slots.set(slot, state);
    for (const [index, bucket] of this.#input.buckets.entries()) this.#store(state, index, bucket);
  }

  #store(state: SlotState, index: number, bucket: SetBucket): void {
    const { record } = this;
    const { slot } = state.flight;
    state.flight.hold();
    void storeCopy(this.#input.ports, {
      bucket,
      key: slotKey(record.star, record.epoch, slot),
      bytes: state.flight.objectBytes(),
      expected: { star: record.star, epoch: record.epoch, slot, nonce: record.nonce },
      signal: state.controller.signal,
      onTrouble: (store, cause) => this.#noteTrouble(store, cause),
    }).then((result) => {
      state.pending--;
      if (result.kind === 'lost') this.halt({ slot, bucket: bucket.store.name, found: result.found });
      else if (result.kind === 'stored') {
        state.counted++;
        if (state.counted === record.copyQuorum) this.#release();
      } else if (slot < this.#released) this.debt.owe(index, slot);
      state.flight.letGo();
      if (state.pending === 0 && slot < this.#released) this.#slots.delete(slot);
      if (state.pending === 0) this.#tellProgress();
    });
  }

  /** A1: acknowledges in slot order what W buckets hold. */
  #release(): void {
    const before = this.#released;
    for (;;) {
      const state = this.#slots.get(this.#released);
      if (state === undefined || state.counted < this.record.copyQuorum) break;
      // A lost slot is decided by the cut, even if W copies of it exist.
      if (this.#lost !== undefined && this.#released >= this.#lost.slot) break;
      this.#released++;
      this.#acknowledge(state);
      if (state.pending === 0) this.#slots.delete(state.flight.slot);
    }
    if (this.#released === before) return;
    this.#pump();
    this.#tellProgress();
  }

  #acknowledge(state: SlotState): void {
    const { flight, assignedAt } = state;
    assert(flight.slot === this.#released - 1, 'A1 acknowledgements are in slot order');
    const { metrics, clock } = this.#input.ports;
    metrics.histogram('flight.storedMillis').record(clock.monotonic() - assignedAt);
    metrics.counter('flight.acknowledged').add();
    metrics.counter('flight.acknowledgedBytes').add(flight.bodyBytes);
    this.#input.onAcknowledged(flight);
    for (const part of flight.parts) part.acknowledged();
    flight.letGo();
  }

  /** The flight was never stored, or lies at or above the cut: its records are not in the stream. */
  #drop(flight: Flight): void {
    const error = this.fencedError();
    for (const part of flight.parts) part.dropped(error);
    flight.letGo();
  }

  fencedError(): EngineError {
    const { star, epoch } = this.record;
    const { slot, bucket, found } = this.#lost ?? {};
    return new EngineError('FENCED', 'this epoch has ended: open the engine again', {
      details: { star, epoch, slot, bucket, found },
    });
  }

  #noteTrouble(store: BucketStore, cause: EngineError): void {
    const { metrics, log } = this.#input.ports;
    metrics.counter('bucket.putTroubles').add();
    if (this.#lastTrouble?.code !== cause.code) {
      log.warn({ bucket: store.name, code: cause.code, message: cause.message }, 'a copy was not stored');
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
      this.#input.ports.metrics.histogram('checkpoint.stallMillis').record(now - this.#stalledSince);
    }
    this.#stalledSince = stalled ? now : undefined;
    this.#input.onStall(stalled);
  }

  #tellProgress(): void {
    for (const listener of [...this.#releaseListeners]) listener();
  }
}

/**
 * Flights before they have a slot: the open one grows, sealed ones wait in order. A flight seals when
 * it is full, at its linger, or as soon as nothing else is under way. Source: DESIGN "Append (A)".
 */
import { assert } from '../src/lib/assert.ts';
import type { TimerHandle } from '../src/lib/clock.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { ArenaPool } from './arena-pool.ts';
import { Flight, type BatchShape, type FlightPart } from './flight.ts';
import type { StarPorts } from './ports.ts';

export interface FlightQueueInput {
  readonly ports: Pick<StarPorts, 'clock' | 'compute'>;
  readonly settings: Pick<ResolvedSettings, 'flightBytes' | 'lingerMillis'>;
  readonly pool: ArenaPool;
  /** Small flights go out at once when nothing is under way. */
  readonly sealsWhenIdle: boolean;
  /** Nothing is in a slot and unacknowledged. */
  isQuiet(): boolean;
  /** A flight may be ready. */
  onReady(): void;
  /** The pool is exhausted: give up what nobody waits for. */
  onShort(): void;
}

export class FlightQueue {
  readonly #input: FlightQueueInput;
  readonly #ready: Flight[] = [];
  #open: Flight | undefined;
  #linger: TimerHandle | undefined;
  #sealSoon = false;
  #isClosed = false;

  constructor(input: FlightQueueInput) {
    this.#input = input;
  }

  /** Takes nothing any more. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isEmpty(): boolean {
    return this.#ready.length === 0 && (this.#open?.isEmpty ?? true);
  }

  /** A flight with room for `bodyBytes`, or undefined while the pool is exhausted. */
  prepare(bodyBytes: number): Flight | undefined {
    if (this.#open?.hasRoom(bodyBytes) === true) return this.#open;
    const { pool } = this.#input;
    const arena = pool.acquire(Flight.arenaBytes(bodyBytes));
    if (arena === undefined) {
      // What waits is sent as it is: only acknowledged flights free memory.
      this.#input.onShort();
      this.seal();
      return undefined;
    }
    this.seal();
    // Empty, and too small for this batch: its memory goes back.
    this.#open?.letGo();
    this.#open = new Flight(pool, arena);
    return this.#open;
  }

  /** Takes over a batch encoded into the flight that `prepare` returned. */
  commit(flight: Flight, batch: BatchShape, end: number, part: FlightPart): void {
    flight.add(batch, end, part);
    const { settings, ports } = this.#input;
    if (flight.bodyBytes >= settings.flightBytes) {
      this.seal();
      return;
    }
    if (this.#linger !== undefined || this.#sealSoon) return;
    if (this.#sealsNow()) this.#sealInNextTurn();
    else {
      this.#linger = ports.clock.setTimeout(() => {
        this.#linger = undefined;
        if (this.#open === undefined) return;
        this.#open.lingered = true;
        this.#input.onReady();
      }, settings.lingerMillis);
    }
  }

  /** Seals whatever is open. */
  seal(): void {
    const flight = this.#open;
    if (flight === undefined || flight.isEmpty) return;
    this.#open = undefined;
    this.#stopLinger();
    this.#enqueue(flight);
  }

  /** A flight of the epoch before, ahead of everything of this one. */
  adopt(flight: Flight): void {
    assert(flight.slot === -1, 'R1 a flight that goes on has left its slot');
    this.#enqueue(flight);
  }

  /** The next flight to be sent, left in place; undefined while there is none. */
  head(): Flight | undefined {
    if (this.#ready.length === 0) this.#sealIfDue();
    return this.#ready[0];
  }

  take(): Flight {
    const flight = this.#ready.shift();
    assert(flight !== undefined, 'what is taken was there');
    return flight;
  }

  /** Everything that has no slot, in order; the queue takes nothing any more. */
  close(): readonly Flight[] {
    this.#isClosed = true;
    this.#stopLinger();
    const open = this.#open;
    this.#open = undefined;
    if (open?.isEmpty === true) open.letGo();
    return [...this.#ready.splice(0), ...(open === undefined || open.isEmpty ? [] : [open])];
  }

  #enqueue(flight: Flight): void {
    this.#ready.push(flight);
    this.#input.onReady();
  }

  #sealsNow(): boolean {
    return this.#input.sealsWhenIdle && this.#ready.length === 0 && this.#input.isQuiet();
  }

  /** Batches of the same turn share the flight. */
  #sealInNextTurn(): void {
    this.#sealSoon = true;
    this.#input.ports.clock.setImmediate(() => {
      this.#sealSoon = false;
      if (!this.#isClosed) this.seal();
    });
  }

  #sealIfDue(): void {
    const open = this.#open;
    if (open === undefined || open.isEmpty || this.#sealSoon) return;
    if (open.lingered) this.seal();
    else if (this.#sealsNow()) this.#sealInNextTurn();
  }

  #stopLinger(): void {
    if (this.#linger !== undefined) this.#input.ports.clock.clearTimeout(this.#linger);
    this.#linger = undefined;
  }
}

/**
 * After so many bytes appends let the event loop turn once. Without that, producers that never wait, or
 * that are all answered at once, encode for as long as there is memory while the answers of storage wait:
 * encoding and storing take turns instead of going on side by side.
 */
import type { Clock } from '../src/lib/clock.ts';
import { deferred, type Deferred } from '../src/lib/wait.ts';

/** About half a millisecond of encoding. */
const TURN_BYTES = 256 * 1024;

export class TurnBudget {
  readonly #clock: Clock;
  readonly #onTurn: () => void;
  #spentBytes = 0;
  #next: Deferred<void> | undefined;

  /** @param onTurn - called in the turn after the budget was spent. */
  constructor(clock: Clock, onTurn: () => void) {
    this.#clock = clock;
    this.#onTurn = onTurn;
  }

  /** Nothing more until the next turn. */
  get isSpent(): boolean {
    return this.#next !== undefined;
  }

  spend(bytes: number): void {
    this.#spentBytes += bytes;
    if (this.#spentBytes < TURN_BYTES || this.#next !== undefined) return;
    this.#next = deferred();
    this.#clock.setImmediate(() => this.#turn());
  }

  /** Resolves in the next turn, or at once while there is something left. */
  next(): Promise<void> {
    return this.#next?.promise ?? Promise.resolve();
  }

  #turn(): void {
    this.#spentBytes = 0;
    const next = this.#next;
    this.#next = undefined;
    next?.resolve();
    this.#onTurn();
  }
}

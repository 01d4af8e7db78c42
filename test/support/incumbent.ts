/**
 * A writer for fence tests: assigns slots up to released + P, sends each flight to every bucket at
 * once, acknowledges in slot order as soon as W buckets hold a copy. Knows nothing of fences but A3.
 */
import type { BucketSet, SetBucket } from '../../actors/bucket-set.ts';
import { sleep } from '../../src/lib/wait.ts';
import { parsePreamble } from '../../src/format/preamble.ts';
import { slotKey } from '../../src/protocol/keys.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import { EPOCH, STAR, type FenceWorld } from './fence-world.ts';

export interface IncumbentOptions {
  /** Milliseconds between two assignments; 0: as fast as the window lets it. */
  readonly paceMillis?: () => number;
  /** Goes on after poison for as long as W copies of a slot may still come together. */
  readonly stubborn?: boolean;
  readonly from?: number;
}

export class Incumbent {
  readonly process: SimulatedProcess;
  /** Slots below are acknowledged. */
  released: number;
  next: number;
  /** Slots that are acknowledged out of order yet. */
  readonly #durable = new Set<number>();
  readonly #world: FenceWorld;
  readonly #options: IncumbentOptions;
  readonly #set: BucketSet;
  /** Why it assigns no more. */
  halted: string | undefined;

  constructor(
    world: FenceWorld,
    process: SimulatedProcess,
    set: BucketSet,
    options: IncumbentOptions = {},
  ) {
    this.#world = world;
    this.process = process;
    this.#set = set;
    this.#options = options;
    this.released = options.from ?? 0;
    this.next = this.released;
  }

  async run(): Promise<void> {
    const { clock } = this.process.ports;
    while (this.halted === undefined) {
      await sleep(clock, this.#options.paceMillis?.() ?? 0.1);
      if (this.next >= this.released + this.#world.window) continue;
      void this.#write(this.next++);
    }
  }

  stop(): void {
    this.halted ??= 'stopped';
  }

  async #write(slot: number): Promise<void> {
    const bytes = this.#world.flightBytes(slot, { released: this.released });
    let copies = 0;
    await Promise.all(
      this.#set.buckets.map(async (bucket) => {
        if (!(await this.#copy(bucket!, slot, bytes))) return;
        copies++;
        if (copies === this.#world.copies) this.#acknowledge(slot);
      }),
    );
  }

  /** Until it is known whether the bucket holds a copy; A4. */
  async #copy(bucket: SetBucket, slot: number, bytes: Uint8Array): Promise<boolean> {
    for (;;) {
      const outcome = await bucket.store.createOnly(slotKey(STAR, EPOCH, slot), bytes);
      if (outcome.kind === 'refused') return false;
      if (outcome.kind === 'unknown') {
        await sleep(this.process.ports.clock, 20);
        continue;
      }
      if (outcome.kind === 'exists') {
        const head = parsePreamble(outcome.head);
        if (!head.ok || head.preamble.kind !== 'flight') {
          if (this.#options.stubborn !== true) this.halted ??= `poison at ${slot}`;
          return false;
        }
      }
      // A copy counts in a bucket whose identity was confirmed after it.
      const verdict = await bucket.confirm();
      if (verdict === 'lost') return false;
      if (verdict === 'confirmed') return true;
    }
  }

  #acknowledge(slot: number): void {
    this.#durable.add(slot);
    while (this.#durable.delete(this.released)) this.released++;
  }
}

/**
 * A chain of any length without its objects: slots below the tail hold a flight in every bucket,
 * everything else is kept one by one. Answers waves of the pure fence walk, one request after the
 * other, and lets an incumbent write on between two answers.
 */
import { hasBit } from '../src/protocol/fence-rows.ts';
import type { SlotSeen } from '../src/protocol/fence-rows.ts';
import {
  beginFence,
  revalidateFence,
  stepFence,
  type FenceAnswers,
  type FenceOptions,
  type FenceStart,
  type FenceState,
  type FenceWave,
  type PutAnswer,
} from '../src/protocol/fence.ts';
import { EMPTY, FLIGHT, POISON, UNKNOWN, type CellCode } from '../src/protocol/slot.ts';

export interface WalkCost {
  readonly cut: number;
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  readonly steps: number;
}

export class SparseChain {
  readonly buckets: number;
  readonly copies: number;
  readonly window: number;
  /** Slots below are complete. */
  tail: number;
  /** Slots that the incumbent completes after every answer; it stops at the first poison. */
  incumbentSteps = 0;
  /** What a bucket holds at or above the tail, or differently from the rest below it. */
  readonly #cells = new Map<number, CellCode[]>();

  constructor(options: { buckets: number; copies: number; window: number; tail: number }) {
    this.buckets = options.buckets;
    this.copies = options.copies;
    this.window = options.window;
    this.tail = options.tail;
  }

  setCell(slot: number, bucket: number, code: CellCode): void {
    const cells = this.#cells.get(slot) ?? this.#standing(slot);
    cells[bucket] = code;
    this.#cells.set(slot, cells);
  }

  cell(slot: number, bucket: number): CellCode {
    return this.#cells.get(slot)?.[bucket] ?? (slot < this.tail ? FLIGHT : EMPTY);
  }

  #standing(slot: number): CellCode[] {
    return new Array<CellCode>(this.buckets).fill(slot < this.tail ? FLIGHT : EMPTY);
  }

  /** A request was answered: the incumbent makes its steps. */
  answered(): void {
    for (let step = 0; step < this.incumbentSteps; step++) {
      const cells = this.#cells.get(this.tail);
      if (cells !== undefined) {
        const poisons = cells.filter((code) => code === POISON).length;
        cells.forEach((code, bucket) => {
          if (code === EMPTY) cells[bucket] = FLIGHT;
        });
        // The adversary goes on as long as it can assemble W copies.
        if (poisons > this.buckets - this.copies) {
          this.incumbentSteps = 0;
          return;
        }
      }
      this.tail++;
    }
  }

  create(slot: number, bucket: number, code: CellCode): PutAnswer {
    const found = this.cell(slot, bucket);
    if (found === EMPTY) this.setCell(slot, bucket, code);
    this.answered();
    const held = found === FLIGHT;
    return {
      slot,
      bucket,
      outcome: found === EMPTY ? 'created' : 'held',
      cell: found,
      print: held ? slot + 1 : 0,
      released: held ? this.releasedAt(slot) : -1,
      sizeBytes: held ? 1_000 : 0,
    };
  }

  /** Watermark of a flight: everything below was acknowledged but for the last window. */
  releasedAt(slot: number): number {
    return Math.max(0, Math.min(slot, this.tail) - this.window + 1);
  }

  read(slot: number, ask: number): SlotSeen {
    const cells: CellCode[] = [];
    const prints: number[] = [];
    let flights = 0;
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      const code = hasBit(ask, bucket) ? this.cell(slot, bucket) : UNKNOWN;
      if (hasBit(ask, bucket)) this.answered();
      cells.push(code);
      prints.push(code === FLIGHT ? slot + 1 : 0);
      if (code === FLIGHT) flights++;
    }
    return {
      slot,
      cells,
      prints,
      released: flights > 0 ? this.releasedAt(slot) : -1,
      sizeBytes: flights > 0 ? 1_000 : 0,
    };
  }

  answer(wave: FenceWave): FenceAnswers {
    const puts: PutAnswer[] = [];
    for (const { slot, bucket } of wave.poisons) puts.push(this.create(slot, bucket, POISON));
    for (const { slot, targets } of wave.repairs) {
      for (const bucket of targets) puts.push(this.create(slot, bucket, FLIGHT));
    }
    const reads = wave.reads.map(({ slot, ask }) => this.read(slot, ask));
    const identities: { bucket: number; verdict: 'confirmed' }[] = [];
    for (let bucket = 0; bucket < this.buckets; bucket++) {
      if (!hasBit(wave.identities, bucket)) continue;
      identities.push({ bucket, verdict: 'confirmed' });
      this.answered();
    }
    return { reads, puts, identities };
  }
}

export function costOf(wave: FenceWave): { rounds: number; gets: number; puts: number } {
  let gets = bitCount(wave.identities);
  let puts = wave.poisons.length;
  for (const { ask } of wave.reads) gets += bitCount(ask);
  for (const { targets } of wave.repairs) {
    gets++;
    puts += targets.length;
  }
  // Repairs read the source before they write.
  const rounds =
    wave.kind === 'revalidate' || wave.kind === 'cut' ? 0 : wave.kind === 'repair' ? 2 : 1;
  return { rounds, gets, puts };
}

function bitCount(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count++;
  return count;
}

/** Steps a walk to its cut. */
export function walk(
  chain: SparseChain,
  start: Partial<FenceStart> = {},
  options?: FenceOptions,
  onWave?: (wave: FenceWave, state: FenceState) => void,
): WalkCost {
  let state = beginFence(
    {
      quorum: { buckets: chain.buckets, copies: chain.copies },
      window: chain.window,
      checkpoint: 0,
      own: false,
      ...start,
    },
    options,
  );
  let rounds = 0;
  let gets = 0;
  let puts = 0;
  let steps = 0;
  while (state.wave.kind !== 'cut') {
    if (steps++ > 10_000) throw new Error('the walk does not end');
    const cost = costOf(state.wave);
    rounds += cost.rounds;
    gets += cost.gets;
    puts += cost.puts;
    onWave?.(state.wave, state);
    state =
      state.wave.kind === 'revalidate'
        ? revalidateFence(state, state.checkpoint, options)
        : stepFence(state, chain.answer(state.wave), options);
  }
  return { cut: state.slot, rounds, gets, puts, steps };
}

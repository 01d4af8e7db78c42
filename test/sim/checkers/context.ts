import type { World, WorldObserver } from '../../../src/testing/world.ts';
import type { MetaIndex, MetaListener } from '../meta-index.ts';
import type { OperationListener, OperationLog, SeenRecord } from '../operations.ts';
import type { SlotContent, SlotIndex, SlotState } from '../slot-index.ts';
import { epochName } from '../slot-index.ts';

/** What a checker sees; nothing of it comes from the engine but what it did through its ports. */
export interface CheckContext {
  readonly world: World;
  readonly slots: SlotIndex;
  readonly meta: MetaIndex;
  readonly log: OperationLog;
  readonly acks: AckView;
  /** Ends the run: the invariant does not hold. */
  readonly fail: (rule: string, text: string) => void;
}

/** Everything acknowledged so far, with where it stood. */
export interface AckView {
  /** End of the highest acknowledged record of the stream. */
  ackedEnd(streamId: string): number;
  /** Acknowledged slots of the epoch at or above `slot` that nothing else carries. */
  ackedFrom(star: string, epoch: number, slot: number): number | undefined;
}

export interface Checker extends WorldObserver, MetaListener, OperationListener {
  /** The world is at rest: every caller should have been answered. */
  rested?(): void;
  /** What a stream holds in the end, read by a process that saw nothing of it before. */
  finished?(streamId: string, first: number, records: readonly SeenRecord[]): void;
}

/** W of the epoch; undefined before its mint. */
export function copyQuorumOf(
  context: CheckContext,
  star: string,
  epoch: number,
): number | undefined {
  return context.meta.epoch(star, epoch)?.record.copyQuorum;
}

export function countCopies(
  held: ReadonlyMap<string, SlotContent>,
  content: SlotContent | undefined,
): number {
  let count = 0;
  for (const other of held.values()) if (other === content) count++;
  return count;
}

/** The content that the epoch's own writer gave the slot. */
export function ownContent(context: CheckContext, state: SlotState): SlotContent | undefined {
  const nonce = context.meta.epoch(state.star, state.epoch)?.record.nonce;
  return state.contents.find((content) => content.preamble.nonce === nonce);
}

/** First slots of each epoch that never had W copies; grows, and is therefore cheap to ask for. */
export class DurablePrefixes {
  readonly #context: CheckContext;
  readonly #prefixes = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  of(star: string, epoch: number): number {
    const name = epochName({ star, epoch });
    const copyQuorum = copyQuorumOf(this.#context, star, epoch);
    let prefix = this.#prefixes.get(name) ?? 0;
    if (copyQuorum === undefined) return prefix;
    const slots = this.#context.slots.slotsOf(star, epoch);
    for (;;) {
      const state = slots.get(prefix);
      if (state === undefined) break;
      if (countCopies(state.held, ownContent(this.#context, state)) < copyQuorum) break;
      prefix++;
    }
    this.#prefixes.set(name, prefix);
    return prefix;
  }
}

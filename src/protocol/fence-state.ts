/**
 * State, waves and rules of the fence walk: plain values that machine, model and benchmark share.
 */
import type { SlotRead, SlotRow, SlotSeen } from './fence-rows.ts';
import { PROBE_TUNING, type ProbeTuning } from './probe.ts';
import { blockingSet, type Quorum } from './quorum.ts';
import { classify, FLIGHT, type CellCode } from './slot.ts';

export interface FenceStart {
  readonly quorum: Quorum;
  /** P of the epoch. */
  readonly window: number;
  readonly checkpoint: number;
  /** A fence of this incarnation's own epoch never sets a barrier. */
  readonly own: boolean;
  /** Where the chain may end; advisory. */
  readonly tailHint?: number | undefined;
}

export type WaveKind =
  /** Looks for the end of the chain. */
  | 'probe'
  /** Reads what the class of the walk's slot needs. */
  | 'observe'
  | 'repair'
  | 'poison'
  /** Poisons ahead of an incumbent that outran the walk. */
  | 'barrier'
  /** Reads the epoch record: was the slot deleted rather than never written? */
  | 'revalidate'
  /** Like `observe`, after a pause. */
  | 'undecided'
  /** The walk is over: `slot` is the cut. */
  | 'cut';

export interface SlotRepair {
  readonly slot: number;
  /** Buckets that show the flight, and those that lack it. */
  readonly sources: readonly number[];
  readonly targets: readonly number[];
  readonly sizeBytes: number;
  readonly print: number;
}

/** Everything of a wave goes out at once: writes first, then reads and identity reads. */
export interface FenceWave {
  readonly kind: WaveKind;
  readonly slot: number;
  readonly reads: readonly SlotRead[];
  readonly poisons: readonly { readonly slot: number; readonly bucket: number }[];
  readonly repairs: readonly SlotRepair[];
  /** Bit mask of buckets whose identity is read. */
  readonly identities: number;
  /** Bit mask of buckets that hold the deciding vote, in an `undecided` wave. */
  readonly blocked: number;
}

export interface PutAnswer {
  readonly slot: number;
  readonly bucket: number;
  /** `held`: the key is taken, `cell` says by what. `failed`: unknown or refused. */
  readonly outcome: 'created' | 'held' | 'failed';
  readonly cell: CellCode;
  readonly print: number;
  readonly released: number;
  readonly sizeBytes: number;
}

export interface FenceAnswers {
  readonly reads: readonly SlotSeen[];
  readonly puts: readonly PutAnswer[];
  readonly identities: readonly {
    readonly bucket: number;
    readonly verdict: 'confirmed' | 'lost' | 'unknown';
  }[];
}

export type SlotVerdict = 'committed' | 'repaired' | 'poisoned' | 'dead' | 'undecided';

/** JSON-safe: no bytes, no infinities. */
export interface FenceState {
  readonly quorum: Quorum;
  readonly window: number;
  readonly own: boolean;
  readonly checkpoint: number;
  /** The slot that is decided next; never decreases (F2). */
  readonly slot: number;
  /** Slots below were released, as flights prove. */
  readonly released: number;
  /** Bounds of the probe: highest flight seen, lowest slot above it without one. */
  readonly low: number;
  readonly high: number | null;
  /** Probe waves in a row that told nothing; after two the walk reads on without probing. */
  readonly blindProbes: number;
  readonly rows: readonly SlotRow[];
  /** Bit mask of buckets that do not show their identity. */
  readonly lost: number;
  /**
   * Bit mask of buckets without whose flights a slot would not have been passed, and whose identity
   * was not confirmed since: a flight that landed in an emptied bucket is no copy (F3).
   */
  readonly leaning: number;
  /** The slot whose absence was followed by a read of the record that did not explain it; or -1. */
  readonly validated: number;
  /** Waves that the incumbent outran, and how far it moved in the last of them. */
  readonly outrun: number;
  readonly speed: number;
  /** Distance of the last barrier if it came too late, else 0; where one stands, or -1. */
  readonly barrierDistance: number;
  readonly barrierAt: number;
  /** Waves in a row that changed nothing about the walk's slot. */
  readonly stalls: number;
  readonly wave: FenceWave;
  /** Slots that the last step decided or touched, in slot order. */
  readonly decided: readonly { readonly slot: number; readonly verdict: SlotVerdict }[];
}

/** Rules of the walk. Overridden only to show that each of them is needed. */
export interface FenceRules {
  readonly classify: typeof classify;
  /** B, for counting what is not confirmed yet. */
  readonly blockingSet: (quorum: Quorum) => number;
  /** First slot that a flight seen at `highest` leaves in doubt. */
  readonly startOf: (highest: number, window: number) => number;
  readonly probeCounts: (cell: CellCode) => boolean;
  /** What must be confirmed by an identity read begun after it; every value but `after` is wrong. */
  readonly identity: 'after' | 'poison' | 'before' | 'never';
}

export const FENCE_RULES: FenceRules = {
  classify,
  blockingSet,
  startOf: (highest, window) => highest - window + 1,
  probeCounts: (cell) => cell === FLIGHT,
  identity: 'after',
};

export interface FenceTuning extends ProbeTuning {
  /** Slots of one classification wave. */
  readonly rowsMax: number;
  /** Slots repaired in one wave. */
  readonly repairsMax: number;
}

export const FENCE_TUNING: FenceTuning = { ...PROBE_TUNING, rowsMax: 96, repairsMax: 64 };

export interface FenceOptions {
  readonly rules: FenceRules;
  readonly tuning: FenceTuning;
}

export const FENCE_OPTIONS: FenceOptions = { rules: FENCE_RULES, tuning: FENCE_TUNING };

/** A fence that is being stepped. */
export type FenceDraft = { -readonly [K in keyof FenceState]: FenceState[K] } & {
  rows: SlotRow[];
  decided: { slot: number; verdict: SlotVerdict }[];
};

export function rowAt(rows: readonly SlotRow[], slot: number): SlotRow | undefined {
  for (const row of rows) {
    if (row.slot === slot) return row;
    if (row.slot > slot) return undefined;
  }
  return undefined;
}

/** What a fence tells its callers: results, progress, and what keeps it from deciding. */
import type { EngineError } from '../src/lib/errors.ts';
import type { MetaVersion } from '../src/ports/metastore.ts';
import type { SlotVerdict } from '../src/protocol/fence.ts';
import type { EpochRecord } from '../src/protocol/records.ts';

export interface FencedBy {
  readonly star: string;
  readonly incarnation: string;
  /** The fencer's own epoch, when it has one. */
  readonly epoch?: number | undefined;
}

export type FencePhase = 'reading' | 'probing' | 'walking' | 'undecided' | 'publishing' | 'fenced';

export interface FenceProgress {
  readonly star: string;
  readonly epoch: number;
  readonly phase: FencePhase;
  /** The slot at which the walk stands. */
  readonly slot: number;
  readonly rounds: number;
  /** Slots decided or touched since the last report, in slot order. */
  readonly slots: readonly { readonly slot: number; readonly verdict: SlotVerdict }[];
  readonly cut?: number;
  readonly millis: number;
}

export interface FenceResult {
  /** The epoch record, fenced or later. */
  readonly record: EpochRecord;
  readonly version: MetaVersion;
  readonly cut: number;
  /** The cut was recorded by somebody else. */
  readonly alreadyFenced: boolean;
  /** Sequential waves to storage. */
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  /** Copies written to complete flights. */
  readonly repairs: number;
  readonly millis: number;
}

export interface UndecidedFence {
  readonly star: string;
  readonly epoch: number;
  readonly slot: number;
  /** Names of the buckets that hold the deciding vote. */
  readonly buckets: readonly string[];
  /** Wall time at which the slot became undecided. */
  readonly sinceMillis: number;
  /** What one of them refuses with, if any does: somebody has to change it. */
  readonly refusal: EngineError | undefined;
}

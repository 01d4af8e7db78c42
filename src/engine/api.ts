/** The public face of the engine: types only. Source: the embedding section of the README. */
import type { ErrorCode } from '../lib/errors.ts';
import type { MetricsSnapshot } from '../lib/metrics.ts';
import type { WaitOptions } from '../lib/wait.ts';
import type { StreamConfig } from '../protocol/records.ts';
import type { Components } from './components.ts';

export type { WaitOptions };

/**
 * A record as a caller gives it. Arrays and objects may be used again as soon as `submit` was called;
 * the bytes of a Uint8Array must not change before `submit` has resolved.
 */
export interface AppendRecord {
  readonly body?: Uint8Array | string;
  /** Ordered name-value pairs of bytes. An empty name is reserved for command records. */
  readonly headers?: readonly (readonly [Uint8Array | string, Uint8Array | string])[];
  /** Milliseconds since 1970; clamped to [last timestamp of the stream, arrival]. */
  readonly timestamp?: number;
}

/** Where a record stands: its sequence number and its timestamp in milliseconds. */
export interface Position {
  readonly seqNum: number;
  readonly timestamp: number;
}

export interface Ack {
  /** The first record of the batch. */
  readonly start: Position;
  /** One past the last record; `timestamp` is the last record's. */
  readonly end: Position;
  /** The tail of the stream when the batch became durable. */
  readonly tail: Position;
}

/** A batch that was accepted: its sequence numbers are assigned, its bytes are reserved. */
export interface Ticket {
  readonly startSeqNum: number;
  readonly endSeqNum: number;
  /**
   * Resolves when W buckets hold the batch and everything before it. Giving up leaves the batch
   * alone; a later call waits again.
   *
   * @throws EngineError ABORTED, DEADLINE_EXCEEDED, FENCED (definitely not appended),
   *   INDETERMINATE (may or may not have been appended).
   */
  ack(options?: WaitOptions): Promise<Ack>;
}

/** Bytes of a record as stored; a command record is typed. */
export interface ReadRecord {
  readonly seqNum: number;
  readonly timestamp: number;
  readonly body: Uint8Array;
  readonly headers: readonly (readonly [Uint8Array, Uint8Array])[];
  readonly command?:
    | { readonly kind: 'fence'; readonly fencingToken: string }
    | { readonly kind: 'trim'; readonly trimPoint: number };
}

export interface ReadOptions extends WaitOptions {
  /** At most one of the three start positions; default: from the first record that is not trimmed. */
  readonly from?: number;
  readonly tailOffset?: number;
  readonly timestamp?: number;
  /** At most this many records. */
  readonly limit?: number;
  /** Goes on at the tail and waits for new records. */
  readonly live?: boolean;
  /** Leaves command records out. */
  readonly ignoreCommands?: boolean;
}

export interface OpenOptions extends WaitOptions {
  /**
   * Opens only while this is the stream's fencing token (`''` when none was installed), and goes along
   * with every append of the handle. A newer token ends the handle. Mandatory on `fenced` streams.
   */
  readonly fencingToken?: string;
  /**
   * What to do while another star leads the stream, or its last leadership is not released or settled
   * yet: answer the refusal at once (`refuse`, the default), or ask again until the deadline (`wait`),
   * at once when the holder's lease ends.
   */
  readonly whileHeld?: 'refuse' | 'wait';
}

export interface AppendOptions extends WaitOptions {
  /**
   * Appends only if the first record gets this number; batches under way count, so that appends may be
   * sent one after the other without waiting.
   */
  readonly matchSeqNum?: number;
  /** In place of the token that the handle was opened with. */
  readonly fencingToken?: string;
}

export interface RecordReader extends AsyncIterable<ReadRecord> {
  /** The same records in arrays, as they come. */
  batches(): AsyncIterable<readonly ReadRecord[]>;
}

export interface Stream extends AsyncDisposable {
  readonly name: string;
  readonly id: string;
  readonly mode: StreamConfig['mode'];
  /**
   * Waits for room, assigns sequence numbers, returns before the batch is durable.
   *
   * @throws EngineError SEQ_NUM_MISMATCH, FENCING_TOKEN_MISMATCH once what the conditions were judged
   *   by is durable and this engine is confirmed to lead (L); REJECTION_UNCONFIRMED (retryable) when
   *   that does not come about. Nothing was appended then.
   */
  submit(records: readonly AppendRecord[], options?: AppendOptions): Promise<Ticket>;
  /** `submit` and `ack`. */
  append(records: readonly AppendRecord[], options?: AppendOptions): Promise<Ack>;
  read(options?: ReadOptions): RecordReader;
  /** The tail, confirmed on the chain after the call began (L1). */
  checkTail(options?: WaitOptions): Promise<Position>;
  /** Appends a trim command: records below `seqNum` are not read any more. */
  trim(seqNum: number, options?: AppendOptions): Promise<Ack>;
  /**
   * Appends a fence command: from its record on this is the stream's token, at most 36 bytes of UTF-8;
   * `''` clears it. Ends handles opened with another token; this one goes on under the new token.
   */
  fence(fencingToken: string, options?: AppendOptions): Promise<Ack>;
  /** Releases leadership (Finish): waits for what is in flight, covers it, marks the release. */
  close(options?: WaitOptions): Promise<void>;
}

export interface StreamInfo {
  readonly name: string;
  readonly id: string;
  readonly createdAtMillis: number;
  readonly config: StreamConfig;
}

export interface ListStreamsOptions extends WaitOptions {
  readonly prefix?: string;
  readonly startAfter?: string;
  readonly limit?: number;
}

export interface StreamPage {
  readonly streams: readonly StreamInfo[];
  readonly more: boolean;
}

/** One line of `status`: an epoch of this or another star. */
export interface EpochStatus {
  readonly star: string;
  readonly epoch: number;
  readonly state: 'open' | 'fenced' | 'settled' | 'retired';
  readonly buckets: number;
  readonly copyQuorum: number;
  readonly window: number;
  readonly checkpoint: number;
  readonly cut?: number;
  readonly tailSwept: boolean;
}

/** How far a fence got; reported while it walks. */
export interface FenceProgress {
  readonly star: string;
  readonly epoch: number;
  readonly phase: 'reading' | 'probing' | 'walking' | 'undecided' | 'publishing' | 'fenced';
  readonly slot: number;
  readonly rounds: number;
  /** One entry per slot looked at since the last report, in slot order. */
  readonly slots: readonly { readonly slot: number; readonly verdict: SlotVerdict }[];
  readonly cut?: number;
  readonly millis: number;
}

export type SlotVerdict = 'committed' | 'repaired' | 'poisoned' | 'dead' | 'undecided';

export interface Engine extends AsyncDisposable {
  readonly star: string;
  /**
   * Opens for appending; creates the stream unless `createStreamOnOpen` is false.
   *
   * @throws EngineError STREAM_NOT_FOUND; STREAM_HELD, STREAM_IN_LIMBO, STREAM_UNSETTLED (retryable);
   *   FENCING_TOKEN_MISMATCH, REJECTION_UNCONFIRMED; LEASE_LOST, CLOSED; ABORTED, DEADLINE_EXCEEDED.
   */
  open(name: string, options?: OpenOptions): Promise<Stream>;
  createStream(
    name: string,
    config?: Partial<StreamConfig>,
    options?: WaitOptions,
  ): Promise<StreamInfo>;
  listStreams(options?: ListStreamsOptions): Promise<StreamPage>;
  deleteStream(name: string, options?: WaitOptions): Promise<void>;
  /** Resolves when the predecessors of this star's chain are fenced and settled, or rejects with why not. */
  recovered(options?: WaitOptions): Promise<RecoverySummary>;
  /**
   * Ends the current epoch on purpose and goes on in a new one, with other constants if given:
   * producers see delay, never an error.
   *
   * @throws EngineError INVALID_OPTION; LEASE_LOST, CLOSED; DEADLINE_EXCEEDED (the roll goes on).
   */
  roll(request?: RollOptions): Promise<{ readonly epoch: number }>;
  /**
   * Gives the stream to another star: waits for what is in flight, covers it, marks the release. When
   * this resolves the release is durable and that star opens the stream at once, by its own `open`;
   * handles here answer STREAM_HELD naming it. This engine takes the stream again only after the other
   * star led it, or when it did not come within ten seconds.
   *
   * @returns the tail at which the stream was released.
   * @throws EngineError NOT_LEADING, STAR_UNKNOWN, INVALID_OPTION (nothing was done); STREAM_IN_LIMBO,
   *   ABORTED, DEADLINE_EXCEEDED (the release goes on); FENCED (another star leads already).
   */
  handoff(name: string, star: string, options?: WaitOptions): Promise<{ readonly tail: number }>;
  /**
   * Gives every stream away, the busiest first, and takes none any more: calls answer ENGINE_DRAINING.
   * The engine stays registered until it is closed.
   *
   * @throws EngineError ABORTED, DEADLINE_EXCEEDED (the drain goes on).
   */
  drain(options?: DrainOptions): Promise<DrainProgress>;
  metrics(): MetricsSnapshot;
  /** Chains, epochs and cursors as the metastore holds them. */
  status(options?: WaitOptions): Promise<EngineStatus>;
  /**
   * Releases every stream, ends the epoch and the lease. Past the deadline the rest is abandoned, for
   * the next open to settle; telling the others that the star is gone may take two seconds more.
   *
   * @throws EngineError DEADLINE_EXCEEDED (streams were abandoned); ABORTED (the close goes on).
   */
  close(options?: WaitOptions): Promise<void>;
}

export interface DrainOptions extends WaitOptions {
  /** Called after each stream that was released, taken over or parked in limbo. Must not throw. */
  readonly onProgress?: (progress: DrainProgress) => void;
}

export interface DrainProgress {
  readonly streams: number;
  readonly finished: number;
  /** Could not be released yet; tried again every five seconds. */
  readonly inLimbo: number;
}

/** A stream on its way out of leadership. */
export interface DepartureStatus {
  readonly name: string;
  /** `limbo`: a try to release it failed; opens answer STREAM_IN_LIMBO until one succeeds. */
  readonly state: 'finishing' | 'limbo';
  /** Wall-clock milliseconds. */
  readonly sinceMillis: number;
  readonly failures: number;
  readonly code?: string;
  readonly message?: string;
}

/** A stream in limbo, as its star noted it for others. */
export interface LimboStatus {
  readonly name: string;
  readonly id: string;
  readonly epoch: number;
  readonly sinceMillis: number;
  readonly code: string;
  readonly message: string;
}

export interface RollOptions extends WaitOptions {
  /** W from the new epoch on. */
  readonly copyQuorum?: number;
  /** P from the new epoch on. */
  readonly window?: number;
  /**
   * Buckets from the new epoch on: the same kind, the same metastore, other directories or another
   * number of them. Earlier ones stay open, they hold what earlier epochs wrote.
   */
  readonly components?: Components;
}

export interface RecoverySummary {
  readonly fences: readonly {
    readonly epoch: number;
    readonly cut: number;
    readonly rounds: number;
    readonly gets: number;
    readonly puts: number;
    readonly repairs: number;
    readonly millis: number;
  }[];
  /**
   * Epochs that stay as they are because records they acknowledged are gone or poisoned. Streams
   * they lead do not open, and say why; nothing else is affected.
   */
  readonly damaged: readonly {
    readonly epoch: number;
    readonly code: ErrorCode;
    readonly message: string;
  }[];
  readonly settledEpochs: number;
  readonly settledStreams: number;
  readonly millis: number;
}

export interface EngineStatus {
  readonly star: string;
  readonly epoch: number;
  readonly incarnation: string;
  readonly epochs: readonly EpochStatus[];
  readonly openStreams: readonly {
    readonly name: string;
    readonly tail: number;
    readonly absorbed: number;
  }[];
  /** Opens that the gate puts off, oldest first; one that nobody repeats for a minute is forgotten. */
  readonly deferred: readonly DeferredOpen[];
  /** Streams whose leadership ends, those in limbo first. */
  readonly departing: readonly DepartureStatus[];
  readonly next: number;
  readonly released: number;
  readonly checkpoint: number;
  /** Present while the star has lost its lease and is not registered again: appends wait. */
  readonly halted?: HaltStatus;
}

/** A stream that was asked for and could not be opened yet. */
export interface DeferredOpen {
  readonly name: string;
  /** STREAM_HELD, STREAM_IN_LIMBO or STREAM_UNSETTLED. */
  readonly code: string;
  /** Wall-clock milliseconds of the first refusal. */
  readonly sinceMillis: number;
  readonly refusals: number;
  /** Who leads it, in which epoch, and where that star is reached, as far as it is known. */
  readonly star?: string;
  readonly epoch?: number;
  readonly address?: string;
}

/** Why a star halts, and since when. It goes on by itself; `code` says what keeps it from that. */
export interface HaltStatus {
  readonly reason: 'expired' | 'replaced' | 'ended' | 'removed' | 'given-up';
  /** Wall-clock milliseconds of the loss. */
  readonly sinceMillis: number;
  /** Registrations that failed since. */
  readonly attempts: number;
  /** Of the last one that failed, for example STAR_IN_USE or METASTORE_UNAVAILABLE. */
  readonly code?: string;
  readonly message?: string;
}

/** The chain of one star as its records say; nobody needs to be alive to read it. */
export interface ChainStatus {
  readonly star: string;
  readonly epochs: readonly EpochStatus[];
  /** Streams that the star could not release yet. */
  readonly limbo: readonly LimboStatus[];
}

/** What the buckets hold of one slot; `undecided` when too few of them answered. */
export interface SlotView {
  readonly slot: number;
  readonly verdict: 'committed' | 'partial' | 'poisoned' | 'empty' | 'undecided';
  /** Identical copies of the epoch's own flight. */
  readonly copies: number;
}

export interface SlotOptions extends WaitOptions {
  /** Default: the epoch's checkpoint, below which everything is in rows. */
  readonly from?: number;
  /** At most this many slots; default 256. */
  readonly limit?: number;
}

/**
 * Looks at chains and streams beside a running engine or after a crash: takes no lease, mints
 * nothing, writes nothing, creates no directory. It sees what any fence would keep: records in rows,
 * and of an open epoch the unbroken run of slots from the checkpoint that hold W copies.
 */
export interface ReadOnlyEngine extends AsyncDisposable {
  readonly star: string;
  listStreams(options?: ListStreamsOptions): Promise<StreamPage>;
  status(options?: WaitOptions): Promise<ChainStatus>;
  /**
   * What the buckets hold of an epoch's slots right now, up to where nothing can be any more: a
   * whole window of empty slots. Decides nothing.
   *
   * @throws EngineError EPOCH_UNKNOWN, INVALID_POSITION; BUCKET_REFUSED, BUCKET_UNAVAILABLE where too few buckets
   *   say anything.
   */
  slots(epoch: number, options?: SlotOptions): Promise<readonly SlotView[]>;
  /**
   * Without `live`; ends at the tail it found when it began.
   *
   * @throws EngineError STREAM_NOT_FOUND, TRIMMED, CORRUPT_OBJECT, DATA_LOSS while reading; BUCKET_REFUSED at once
   *   and BUCKET_UNAVAILABLE after a while, where buckets keep it from what it needs.
   */
  read(name: string, options?: ReadOptions): RecordReader;
  close(options?: WaitOptions): Promise<void>;
}

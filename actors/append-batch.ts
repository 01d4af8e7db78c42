/**
 * A batch on its way: encodes its records into a flight, then keeps what its caller waits for.
 * Nothing per record but encoding. Source: DESIGN "Append (A)", A5.
 */
import { commandOf, encodeRecord, type StoredRecord } from '../src/format/records.ts';
import type { StateDelta } from '../src/format/flight.ts';
import type { Clock } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { checkWaitOptions, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import type { CheckedBatch } from '../src/protocol/batch.ts';
import type { StreamConfig, StreamState } from '../src/protocol/records.ts';
import { clampTimestamp } from '../src/protocol/timestamps.ts';
import type { Arena } from './arena-pool.ts';
import { BatchOutcome } from './batch-outcome.ts';
import type { Deadlines } from './deadlines.ts';
import type { BatchShape, FlightPart } from './flight.ts';

export interface Position {
  readonly seqNum: number;
  readonly timestamp: number;
}

export interface BatchAck {
  readonly start: Position;
  readonly end: Position;
  readonly tail: Position;
}

const NO_HEADERS: StoredRecord['headers'] = [];

export interface EncodedBatch {
  readonly shape: BatchShape;
  /** Where the batch ends in the arena. */
  readonly end: number;
  /** State of the stream after the batch, as assigned. */
  readonly state: StreamState;
}

/** Encodes the batch at `offset`; the memory was reserved before. */
export function encodeBatch(
  batch: CheckedBatch,
  target: { readonly arena: Arena; readonly offset: number },
  stream: {
    readonly streamId: string;
    readonly firstSeqNum: number;
    readonly arrivalMillis: number;
    readonly state: StreamState;
    readonly config: StreamConfig;
  },
): EncodedBatch {
  const { bytes, view } = target.arena;
  const { records } = batch;
  let offset = target.offset;
  let last = stream.state.lastTimestamp;
  let first = 0;
  for (let index = 0; index < records.length; index++) {
    const record = records[index]!;
    // Without a time of its own a record has the one before it, once that is the arrival.
    if (record.timestamp !== undefined || last < stream.arrivalMillis || index === 0) {
      last = clampTimestamp(record.timestamp, stream.arrivalMillis, last, stream.config);
    }
    if (index === 0) first = last;
    const headers = record.headers ?? NO_HEADERS;
    offset = encodeRecord(bytes, view, offset, last, record.body ?? '', headers);
  }
  const delta = batch.hasCommands ? deltaOf(batch, stream.firstSeqNum, stream.state) : undefined;
  return {
    end: offset,
    state: {
      fencingToken: delta?.fencingToken ?? stream.state.fencingToken,
      trimPoint: delta?.trimPoint ?? stream.state.trimPoint,
      lastTimestamp: last,
    },
    shape: {
      streamId: stream.streamId,
      firstSeqNum: stream.firstSeqNum,
      count: records.length,
      firstTimestamp: first,
      lastTimestamp: last,
      delta,
    },
  };
}

/** A command acts from its own record on; a trim point never passes its own record, nor goes back. */
function deltaOf(batch: CheckedBatch, firstSeqNum: number, state: StreamState): StateDelta {
  let delta: { fencingToken?: string; trimPoint?: number } = {};
  for (const [index, record] of batch.records.entries()) {
    if (record.headers === undefined || record.headers.length !== 1) continue;
    const command = commandOf({ headers: record.headers, body: record.body ?? '' });
    if (command === undefined) continue;
    if (command.command === 'fence') delta = { ...delta, fencingToken: command.fencingToken };
    else {
      const own = firstSeqNum + index + 1;
      const point = Math.max(delta.trimPoint ?? state.trimPoint, Math.min(command.trimPoint, own));
      delta = { ...delta, trimPoint: point };
    }
  }
  return delta;
}

/** What a batch is to its stream while it is under way. */
export interface BatchOwner {
  readonly clock: Clock;
  /** Of the calls that bring no deadline; undefined: they wait as long as it takes. */
  readonly deadlines: Deadlines | undefined;
  /** Records the outcome, known since `nowMillis`; answers the tail as of now. */
  batchAcknowledged(batch: AppendBatch, nowMillis: number): Position;
  batchDropped(): void;
  /** What storage last said; explains a passed deadline. */
  lastTrouble(): EngineError | undefined;
}

/** The caller's ticket and the flight's part in one object. */
export class AppendBatch implements FlightPart {
  readonly streamId: string;
  readonly startSeqNum: number;
  readonly endSeqNum: number;
  readonly state: StreamState;
  readonly meteredBytes: number;
  readonly submittedAt: number;
  readonly #firstTimestamp: number;
  readonly #owner: BatchOwner;
  readonly #outcome = new BatchOutcome<BatchAck>();

  constructor(owner: BatchOwner, encoded: EncodedBatch, meteredBytes: number) {
    const { shape, state } = encoded;
    this.#owner = owner;
    this.streamId = shape.streamId;
    this.startSeqNum = shape.firstSeqNum;
    this.endSeqNum = shape.firstSeqNum + shape.count;
    this.#firstTimestamp = shape.firstTimestamp;
    this.state = state;
    this.meteredBytes = meteredBytes;
    this.submittedAt = owner.clock.monotonic();
  }

  acknowledged(nowMillis: number): void {
    const tail = this.#owner.batchAcknowledged(this, nowMillis);
    this.#outcome.resolve({
      start: { seqNum: this.startSeqNum, timestamp: this.#firstTimestamp },
      end: { seqNum: this.endSeqNum, timestamp: this.state.lastTimestamp },
      tail,
    });
  }

  dropped(error: Error): void {
    this.#owner.batchDropped();
    this.#outcome.reject(error);
  }

  ack(options: WaitOptions = {}): Promise<BatchAck> {
    try {
      checkWaitOptions(options);
    } catch (error) {
      return Promise.reject(toEngineError(error));
    }
    return this.answered(options);
  }

  /** `ack` with options that were checked already. */
  answered({ signal, timeoutMillis: own }: WaitOptions): Promise<BatchAck> {
    const { clock, deadlines } = this.#owner;
    const timeoutMillis = own ?? deadlines?.millis;
    const onLate = (): EngineError => ackDeadline(this.#owner.lastTrouble(), timeoutMillis);
    if (signal === undefined && own === undefined && deadlines !== undefined) {
      return this.#outcome.waitWithin(deadlines, onLate);
    }
    return waitFor(clock, this.#outcome.wait(), { signal, timeoutMillis }, 'ack', onLate);
  }
}

function ackDeadline(
  cause: EngineError | undefined,
  timeoutMillis: number | undefined,
): EngineError {
  return new EngineError(
    'DEADLINE_EXCEEDED',
    'the batch was not acknowledged before the deadline',
    {
      sideEffects: 'possible',
      details: { timeoutMillis, storage: cause?.code },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

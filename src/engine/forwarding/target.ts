/** Where the calls of a forwarded handle go at a moment: the holder, or this engine once it leads. */
import { EngineError, type ErrorCode } from '../../lib/errors.ts';
import type { WaitOptions } from '../../lib/wait.ts';
import type { StoredRecord } from '../../format/records.ts';
import type { CheckedBatch } from '../../protocol/batch.ts';
import type { ReadRequest } from '../../../actors/stream-reader.ts';
import type { AppendOptions, Position, Stream, Ticket } from '../api.ts';

export interface Target {
  readonly id: string;
  readonly mode: Stream['mode'];
  /** Where the holder is reached; undefined when this engine leads. */
  readonly address: string | undefined;
  /** Whether a batch may be handed over now; `onRoom` tells when that may have changed. */
  hasRoom(batch: CheckedBatch): boolean;
  onRoom: () => void;
  /**
   * Hands the batch over before it returns: batches are accepted in the order of the calls. A failure
   * without side effects means that it was not accepted and never will be.
   */
  submit(batch: CheckedBatch, request: AppendOptions): Promise<Ticket>;
  checkTail(options: WaitOptions): Promise<Position>;
  /** @param onStart - told the first position, before any record. */
  read(
    request: ReadRequest,
    onStart: (position: number) => void,
  ): AsyncGenerator<readonly StoredRecord[], void, void>;
  /** Waits for what is under way, then lets go. */
  close(options: WaitOptions): Promise<void>;
  /** Lets go at once: what is under way becomes indeterminate. */
  abandon(error: EngineError): void;
}

/** What a former holder answers, and what stands for one that cannot be reached. */
const MOVED: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'STREAM_HELD',
  'STREAM_IN_LIMBO',
  'FENCED',
  'LEASE_LOST',
  'CLOSED',
  'PEER_UNAVAILABLE',
]);

/** Whether the call had no effect and somebody else may serve it. */
export function isMoved(error: unknown): error is EngineError {
  return EngineError.is(error) && error.sideEffects === 'none' && MOVED.has(error.code);
}

/**
 * Events of a history, as lines of JSON: field names and shapes are those of the public S2
 * verification tool, which reads these files as they are. A file is the history of one stream.
 */
import { lineOf } from './json-lines.ts';

export interface AppendCall {
  readonly kind: 'append';
  /** XXH3 of each record body, in order. */
  readonly recordHashes: readonly bigint[];
  /** The token that the batch installs: it is one fence command. */
  readonly setFencingToken: string | null;
  /** The token that the batch gives. */
  readonly fencingToken: string | null;
  readonly matchSeqNum: number | null;
}

export type Call = AppendCall | { readonly kind: 'read' } | { readonly kind: 'checkTail' };

export type Result =
  | { readonly kind: 'appendSuccess'; readonly tail: number }
  /** Nothing was appended. */
  | { readonly kind: 'appendDefiniteFailure' }
  /** May have been appended, now or later. */
  | { readonly kind: 'appendIndefiniteFailure' }
  | { readonly kind: 'readSuccess'; readonly tail: number; readonly streamHash: bigint }
  | { readonly kind: 'readFailure' }
  | { readonly kind: 'checkTailSuccess'; readonly tail: number }
  | { readonly kind: 'checkTailFailure' };

export interface StartEvent {
  readonly call: Call;
  readonly clientId: number;
  readonly opId: number;
}

export interface FinishEvent {
  readonly result: Result;
  readonly clientId: number;
  readonly opId: number;
}

export type HistoryEvent = StartEvent | FinishEvent;

export function isStart(event: HistoryEvent): event is StartEvent {
  return 'call' in event;
}

/** One line, without its end. */
export function encodeEvent(event: HistoryEvent): string {
  const inner = isStart(event)
    ? { Start: startShape(event.call) }
    : { Finish: finishShape(event.result) };
  return lineOf({ event: inner, client_id: event.clientId, op_id: event.opId });
}

function startShape(call: Call): unknown {
  if (call.kind === 'read') return 'Read';
  if (call.kind === 'checkTail') return 'CheckTail';
  return {
    Append: {
      num_records: call.recordHashes.length,
      record_hashes: call.recordHashes,
      set_fencing_token: call.setFencingToken,
      fencing_token: call.fencingToken,
      match_seq_num: call.matchSeqNum,
    },
  };
}

function finishShape(result: Result): unknown {
  switch (result.kind) {
    case 'appendSuccess':
      return { AppendSuccess: { tail: result.tail } };
    case 'appendDefiniteFailure':
      return 'AppendDefiniteFailure';
    case 'appendIndefiniteFailure':
      return 'AppendIndefiniteFailure';
    case 'readSuccess':
      return { ReadSuccess: { tail: result.tail, stream_hash: result.streamHash } };
    case 'readFailure':
      return 'ReadFailure';
    case 'checkTailSuccess':
      return { CheckTailSuccess: { tail: result.tail } };
    case 'checkTailFailure':
      return 'CheckTailFailure';
  }
}

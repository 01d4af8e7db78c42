/**
 * The sequential stream that every history is compared with, as in the public S2 verification tool:
 * where it ends, what it holds as a chained hash, and its fencing token.
 */
import { EMPTY_CHAIN, foldRecords } from './chain.ts';
import type { AppendCall } from './events.ts';
import type { Append, Look } from './history.ts';

export interface StreamState {
  readonly tail: number;
  readonly hash: bigint;
  /** `null` until a token was installed. */
  readonly token: string | null;
}

export const EMPTY_STREAM: StreamState = { tail: 0, hash: EMPTY_CHAIN, token: null };

/** Do the conditions of an append hold in this state? */
export function admits({ tail, token }: StreamState, call: AppendCall): boolean {
  if (call.fencingToken !== null && call.fencingToken !== token) return false;
  return call.matchSeqNum === null || call.matchSeqNum === tail;
}

export function appended({ tail, hash, token }: StreamState, call: AppendCall): StreamState {
  return {
    tail: tail + call.recordHashes.length,
    hash: foldRecords(hash, call.recordHashes),
    token: call.setFencingToken ?? token,
  };
}

/** Can the append take effect here, and with this answer? */
export function fits(state: StreamState, { append, tail }: Append): boolean {
  if (!admits(state, append)) return false;
  return tail === undefined || tail === state.tail + append.recordHashes.length;
}

/** May the look have been answered in this state? */
export function explains({ tail, hash }: StreamState, look: Look): boolean {
  return look.tail === tail && (look.streamHash === undefined || look.streamHash === hash);
}

/**
 * Conditions of an append: the fencing token it carries and the number it expects to get. Pure.
 * They are an application's single-writer rule and never decide correctness: that is the fence's
 * work. Source: DESIGN "Fencing token (K)".
 */
import { isWellFormed } from '../format/bytes.ts';
import { EngineError, textOf } from '../lib/errors.ts';
import { checkOptionsObject } from '../lib/wait.ts';
import { LIMITS } from './limits.ts';
import type { StreamConfig } from './records.ts';

export interface AppendConditions {
  /** The sequence number that the first record of the batch is to get. */
  readonly matchSeqNum?: number | undefined;
  /** Must equal the token of the stream, byte for byte; no token given is checked on `fenced` streams. */
  readonly fencingToken?: string | undefined;
}

/** The stream as assigned: batches under way count. */
export interface ConditionFacts {
  readonly mode: StreamConfig['mode'];
  readonly fencingToken: string;
  readonly nextSeqNum: number;
}

export type Mismatch =
  | { readonly kind: 'fencingToken'; readonly current: string; readonly given: string | undefined }
  | { readonly kind: 'seqNum'; readonly expected: number; readonly given: number };

/** What the conditions do not agree with, the token first; undefined when the append may go on. */
export function judgeConditions(
  conditions: AppendConditions,
  facts: ConditionFacts,
): Mismatch | undefined {
  const { fencingToken: given, matchSeqNum } = conditions;
  const { mode, fencingToken: current, nextSeqNum } = facts;
  if (given === undefined ? mode === 'fenced' : given !== current) {
    return { kind: 'fencingToken', current, given };
  }
  if (matchSeqNum !== undefined && matchSeqNum !== nextSeqNum) {
    return { kind: 'seqNum', expected: nextSeqNum, given: matchSeqNum };
  }
  return undefined;
}

export function mismatchError(stream: string, mismatch: Mismatch): EngineError {
  if (mismatch.kind === 'fencingToken') {
    const { current, given } = mismatch;
    const summary =
      given === undefined
        ? 'this stream takes a fencing token with every append'
        : 'the fencing token is not that of the stream';
    return new EngineError('FENCING_TOKEN_MISMATCH', summary, {
      details: { stream, fencingToken: current, given },
    });
  }
  const { expected, given } = mismatch;
  return new EngineError('SEQ_NUM_MISMATCH', 'the next sequence number is another one', {
    details: { stream, expected, given },
  });
}

/** @throws EngineError INVALID_OPTION naming the bytes and the bound. */
export function checkFencingToken(token: unknown): asserts token is string {
  if (typeof token !== 'string' || !isWellFormed(token)) {
    throw new EngineError('INVALID_OPTION', 'a fencing token is well-formed text', {
      details: { option: 'fencingToken', type: typeof token },
    });
  }
  const bytes = Buffer.byteLength(token);
  if (bytes <= LIMITS.fencingTokenBytes) return;
  throw new EngineError('INVALID_OPTION', 'a fencing token has too many bytes', {
    details: { option: 'fencingToken', bytes, max: LIMITS.fencingTokenBytes },
  });
}

/** @throws EngineError INVALID_OPTION, INVALID_POSITION */
export function checkConditions(conditions: AppendConditions): void {
  checkOptionsObject(conditions);
  const { matchSeqNum, fencingToken } = conditions;
  if (fencingToken !== undefined) checkFencingToken(fencingToken);
  if (matchSeqNum === undefined) return;
  if (Number.isSafeInteger(matchSeqNum) && matchSeqNum >= 0) return;
  throw new EngineError('INVALID_POSITION', 'a sequence number is a safe integer from 0', {
    details: { option: 'matchSeqNum', value: textOf(matchSeqNum), min: 0 },
  });
}

/** What callers asked for and what they were told, with the order in which they could know it. */
import { EngineError } from '../../src/lib/errors.ts';

export type OperationKind = 'append' | 'read' | 'checkTail';

export interface SeenRecord {
  readonly seqNum: number;
  readonly body: string;
}

export type Outcome =
  /** Appended at `[start, end)`. */
  | { readonly kind: 'appended'; readonly start: number; readonly end: number }
  | { readonly kind: 'tail'; readonly tail: number }
  /** Records read; `complete` when the reader ended at what it took for the tail. */
  | { readonly kind: 'read'; readonly records: readonly SeenRecord[]; readonly complete: boolean }
  /** Definitely without effect. */
  | { readonly kind: 'failed'; readonly code: string }
  /** May have had an effect: the call said so, or its process died. */
  | { readonly kind: 'indeterminate'; readonly code: string };

export interface Operation {
  /** The process hands it to another one when that holds the stream. */
  readonly mayBeForwarded?: boolean | undefined;
  readonly id: number;
  readonly process: string;
  readonly kind: OperationKind;
  readonly stream: string;
  /** Known once the stream is open. */
  readonly streamId: string;
  /** Logical time: an operation that ended before another began has the smaller number. */
  readonly began: number;
  /** Bodies of an append. */
  readonly bodies: readonly string[];
  /** First position that a read asked for. */
  readonly from: number;
  /** The number that an append asked for. */
  readonly matchSeqNum?: number | undefined;
  /** The token that an append gave. */
  readonly fencingToken?: string | undefined;
  ended?: number;
  outcome?: Outcome;
}

export interface OperationListener {
  operationBegan?(operation: Operation): void;
  operationEnded?(operation: Operation, outcome: Outcome): void;
}

export class OperationLog {
  readonly operations: Operation[] = [];
  readonly listeners: OperationListener[] = [];
  #ticks = 0;

  begin(
    part: Pick<Operation, 'process' | 'kind' | 'stream' | 'streamId'> &
      Partial<Pick<Operation, 'from' | 'matchSeqNum' | 'fencingToken' | 'mayBeForwarded'>> & {
        readonly records?: number;
      },
  ): Operation {
    const id = this.operations.length;
    const { process, kind, stream, streamId } = part;
    const operation: Operation = {
      id,
      process,
      kind,
      stream,
      streamId,
      began: this.#ticks++,
      bodies: Array.from({ length: part.records ?? 0 }, (_, index) => `${stream}:${id}:${index}`),
      from: part.from ?? 0,
      matchSeqNum: part.matchSeqNum,
      fencingToken: part.fencingToken,
      mayBeForwarded: part.mayBeForwarded,
    };
    this.operations.push(operation);
    for (const listener of this.listeners) listener.operationBegan?.(operation);
    return operation;
  }

  end(operation: Operation, outcome: Outcome): void {
    operation.ended = this.#ticks++;
    operation.outcome = outcome;
    for (const listener of this.listeners) listener.operationEnded?.(operation, outcome);
  }

  get pending(): readonly Operation[] {
    return this.operations.filter(({ outcome }) => outcome === undefined);
  }
}

/** What an error tells the caller of an append about its records. */
export function outcomeOf(error: unknown): Outcome {
  if (!EngineError.is(error)) return { kind: 'indeterminate', code: 'NOT_AN_ENGINE_ERROR' };
  const { code } = error;
  // A caller that gave up knows nothing, whatever the error says of side effects.
  const isOpen = error.sideEffects === 'possible' || code === 'ABORTED';
  return isOpen ? { kind: 'indeterminate', code } : { kind: 'failed', code };
}

/** What callers asked for and what they were told, with the order in which they could know it. */
import { EngineError } from '../../src/lib/errors.ts';

export type OperationKind = 'append' | 'read' | 'checkTail';

export interface SeenRecord {
  readonly seqNum: number;
  /** A command record reads `#fence:TOKEN` or `#trim:NUMBER`. */
  readonly body: string;
}

export type Outcome =
  /** Appended at `[start, end)`. */
  | { readonly kind: 'appended'; readonly start: number; readonly end: number }
  | { readonly kind: 'tail'; readonly tail: number }
  /** Records read; `complete` when the reader ended at what it took for the tail. */
  | { readonly kind: 'read'; readonly records: readonly SeenRecord[]; readonly complete: boolean }
  /** Definitely without effect. */
  | {
      readonly kind: 'failed';
      readonly code: string;
      /** What a refusal says of the stream: the next number, its token, its first position. */
      readonly says?: number | string;
    }
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

export type OperationRequest = Pick<Operation, 'process' | 'kind' | 'stream' | 'streamId'> &
  Partial<Pick<Operation, 'from' | 'matchSeqNum' | 'fencingToken' | 'mayBeForwarded'>> & {
    /** How many records to append; each gets a body of its own. */
    readonly records?: number;
    /** The command record to append in their place, as it will be read. */
    readonly command?: string;
  };

export class OperationLog {
  readonly operations: Operation[] = [];
  readonly listeners: OperationListener[] = [];
  readonly #pending = new Set<Operation>();
  #ticks = 0;

  /** Logical time now. */
  get ticks(): number {
    return this.#ticks;
  }

  begin(part: OperationRequest): Operation {
    const id = this.operations.length;
    const { process, kind, stream, streamId, command, records = 0 } = part;
    const operation: Operation = {
      id,
      process,
      kind,
      stream,
      streamId,
      began: this.#ticks++,
      bodies:
        command === undefined
          ? Array.from({ length: records }, (_, index) => `${stream}:${id}:${index}`)
          : [command],
      from: part.from ?? 0,
      matchSeqNum: part.matchSeqNum,
      fencingToken: part.fencingToken,
      mayBeForwarded: part.mayBeForwarded,
    };
    this.operations.push(operation);
    this.#pending.add(operation);
    for (const listener of this.listeners) listener.operationBegan?.(operation);
    return operation;
  }

  end(operation: Operation, outcome: Outcome): void {
    this.#pending.delete(operation);
    operation.ended = this.#ticks++;
    operation.outcome = outcome;
    for (const listener of this.listeners) listener.operationEnded?.(operation, outcome);
  }

  get pending(): readonly Operation[] {
    return [...this.#pending];
  }
}

/** Where refusals say what they were judged by. */
const SAYS: Readonly<Record<string, string>> = {
  SEQ_NUM_MISMATCH: 'expected',
  FENCING_TOKEN_MISMATCH: 'fencingToken',
  TRIMMED: 'first',
};

/** What an error tells the caller of an append about its records. */
export function outcomeOf(error: unknown): Outcome {
  if (!EngineError.is(error)) return { kind: 'indeterminate', code: 'NOT_AN_ENGINE_ERROR' };
  const { code } = error;
  // A caller that gave up knows nothing, whatever the error says of side effects.
  const isOpen = error.sideEffects === 'possible' || code === 'ABORTED';
  if (isOpen) return { kind: 'indeterminate', code };
  const says = error.details[SAYS[code] ?? ''];
  const isSaid = typeof says === 'number' || typeof says === 'string';
  return { kind: 'failed', code, ...(isSaid ? { says } : {}) };
}

/** Why a history has no order: the shortest part of it, from its beginning, that has none. */
import { check, type CheckLimits, type Progress, type Verdict } from './checker.ts';
import { isStart, type HistoryEvent } from './events.ts';
import { isRequired, operationsOf, type Operation } from './history.ts';
import type { StreamState } from './model.ts';

export interface CounterExample {
  /** The history has an order up to the event before this many. */
  readonly events: number;
  /** The answer that cannot be explained. */
  readonly answer: string;
  /** The longest order found, its last operations. */
  readonly placed: readonly string[];
  readonly state: StreamState;
  /** Answered operations that have no place in it. */
  readonly unplaced: readonly string[];
}

const PLACED_SHOWN = 12;
const UNPLACED_SHOWN = 20;

/** @returns undefined when time did not suffice to find one. */
export function counterExampleOf(
  events: readonly HistoryEvent[],
  limits: CheckLimits,
): CounterExample | undefined {
  const ends = events.flatMap((event, at) => (isStart(event) ? [] : [at + 1]));
  let low = 0;
  let high = ends.length - 1;
  // A part that has an order has it in all of its parts.
  while (low < high) {
    const middle = (low + high) >> 1;
    if (judge(events.slice(0, ends[middle]), limits).kind === 'violation') high = middle;
    else low = middle + 1;
  }
  const prefix = events.slice(0, ends[low]);
  const operations = operationsOf(prefix);
  const verdict = check(operations, limits);
  if (verdict.kind !== 'violation') return undefined;
  return describeDeepest(prefix, operations, verdict.deepest);
}

function judge(events: readonly HistoryEvent[], limits: CheckLimits): Verdict {
  return check(operationsOf(events), limits);
}

function describeDeepest(
  prefix: readonly HistoryEvent[],
  operations: readonly Operation[],
  { placed, state }: Progress,
): CounterExample {
  const isPlaced = new Set(placed);
  const unplaced = operations.filter(
    (operation, index) => isRequired(operation) && !isPlaced.has(index),
  );
  const last = operations.find(({ end }) => end === prefix.length - 1);
  return {
    events: prefix.length,
    answer: last === undefined ? 'none' : describe(last),
    placed: placed.slice(-PLACED_SHOWN).map((index) => describe(operations[index]!)),
    state,
    unplaced: unplaced.slice(0, UNPLACED_SHOWN).map(describe),
  };
}

/** One operation in one line. */
export function describe(operation: Operation): string {
  const { opId, clientId, call, end, tail } = operation;
  const when = `client ${clientId} op ${opId} [${call}, ${Number.isFinite(end) ? end : 'open'}]`;
  if (operation.kind === 'look') {
    const { streamHash } = operation;
    return streamHash === undefined
      ? `${when} checkTail -> ${tail}`
      : `${when} read -> ${tail}, hash ${streamHash}`;
  }
  const { recordHashes, setFencingToken, fencingToken, matchSeqNum } = operation.append;
  const parts = [
    `${recordHashes.length} records`,
    ...(setFencingToken === null ? [] : [`sets "${setFencingToken}"`]),
    ...(fencingToken === null ? [] : [`token "${fencingToken}"`]),
    ...(matchSeqNum === null ? [] : [`matchSeqNum ${matchSeqNum}`]),
  ];
  return `${when} append(${parts.join(', ')}) -> ${tail ?? 'unknown'}`;
}

/**
 * The slow way to the same verdict, for short histories: every order of all operations that keeps the
 * order of time, through the public tool's model as it is written there. Shares nothing with the
 * checker but the hash of the chain.
 */
import { foldRecords } from './chain.ts';
import { isStart, type AppendCall, type Call, type HistoryEvent, type Result } from './events.ts';

interface State {
  readonly tail: number;
  readonly hash: bigint;
  readonly token: string | null;
}

interface Interval {
  readonly call: Call;
  readonly result: Result;
  readonly from: number;
  readonly to: number;
}

export function isLinearizable(events: readonly HistoryEvent[]): boolean {
  return anyOrder(intervalsOf(events), { tail: 0, hash: 0n, token: null });
}

function intervalsOf(events: readonly HistoryEvent[]): Interval[] {
  return events.flatMap((start, from) => {
    if (!isStart(start)) return [];
    const to = events.findIndex((each) => !isStart(each) && each.opId === start.opId);
    const finish = events[to];
    if (finish === undefined || isStart(finish))
      return [{ call: start.call, result: open(start.call), from, to: Infinity }];
    // An unknown outcome has no end.
    const isOpen = finish.result.kind === 'appendIndefiniteFailure';
    return [{ call: start.call, result: finish.result, from, to: isOpen ? Infinity : to }];
  });
}

function open({ kind }: Call): Result {
  if (kind === 'append') return { kind: 'appendIndefiniteFailure' };
  return { kind: kind === 'read' ? 'readFailure' : 'checkTailFailure' };
}

function anyOrder(left: readonly Interval[], state: State): boolean {
  if (left.length === 0) return true;
  const firstEnd = Math.min(...left.map(({ to }) => to));
  return left.some((each) => {
    if (each.from > firstEnd) return false;
    const others = left.filter((other) => other !== each);
    return step(state, each).some((after) => anyOrder(others, after));
  });
}

/** The states after an operation; none when its answer is impossible here. */
function step(state: State, { call, result }: Interval): readonly State[] {
  switch (result.kind) {
    case 'appendDefiniteFailure':
    case 'readFailure':
    case 'checkTailFailure':
      return [state];
    case 'readSuccess':
      return state.tail === result.tail && state.hash === result.streamHash ? [state] : [];
    case 'checkTailSuccess':
      return state.tail === result.tail ? [state] : [];
    case 'appendIndefiniteFailure':
      return isRejected(state, call as AppendCall)
        ? [state]
        : [grown(state, call as AppendCall), state];
    case 'appendSuccess': {
      const after = grown(state, call as AppendCall);
      return isRejected(state, call as AppendCall) || after.tail !== result.tail ? [] : [after];
    }
  }
}

function isRejected(state: State, call: AppendCall): boolean {
  const wrongToken = call.fencingToken !== null && call.fencingToken !== state.token;
  const wrongNumber = call.matchSeqNum !== null && call.matchSeqNum !== state.tail;
  return wrongToken || wrongNumber;
}

function grown(state: State, call: AppendCall): State {
  return {
    tail: state.tail + call.recordHashes.length,
    hash: foldRecords(state.hash, call.recordHashes),
    token: call.setFencingToken ?? state.token,
  };
}

/** Histories of a stream that does everything right, and single lies in them. */
import type { Prng } from '../../src/lib/prng.ts';
import { isStart, type AppendCall, type Call, type HistoryEvent, type Result } from './events.ts';
import { admits, appended, EMPTY_STREAM, type StreamState } from './model.ts';

export interface Shape {
  readonly clients: number;
  readonly operations: number;
  /** Share of appends whose callers learn nothing. */
  readonly unknown: number;
}

const TOKENS = ['x', 'y'] as const;

interface UnderWay {
  readonly call: Call;
  readonly clientId: number;
  readonly opId: number;
  /** Set once it took effect. */
  result?: Result;
  /** Its caller was told that the outcome is unknown, or nothing. */
  isForgotten?: boolean;
}

/** The order of random steps: a client calls, a call takes effect, an answer arrives. */
export function randomHistory(prng: Prng, { clients, operations, unknown }: Shape): HistoryEvent[] {
  const events: HistoryEvent[] = [];
  const deferred: HistoryEvent[] = [];
  const underWay: UnderWay[] = [];
  let state = EMPTY_STREAM;
  let nextClient = clients;
  let opId = 0;
  const idle = Array.from({ length: clients }, (_, index) => index);
  while (opId < operations || underWay.some(({ isForgotten }) => isForgotten !== true)) {
    const draw = prng.below(3);
    if (draw === 0 && idle.length > 0 && opId < operations) {
      const clientId = idle.splice(prng.below(idle.length), 1)[0]!;
      const call = randomCall(prng, state);
      events.push({ call, clientId, opId });
      underWay.push({ call, clientId, opId });
      opId++;
      continue;
    }
    const index = prng.below(underWay.length);
    const each = underWay[index];
    if (each === undefined) continue;
    const { call, clientId } = each;
    if (draw === 1 && each.result === undefined) {
      [each.result, state] = answer(state, call);
      if (each.isForgotten === true) underWay.splice(index, 1);
    } else if (draw === 2 && each.isForgotten !== true) {
      const isLost = call.kind === 'append' && prng.chance(unknown);
      if (isLost) {
        deferred.push({ result: { kind: 'appendIndefiniteFailure' }, clientId, opId: each.opId });
        each.isForgotten = true;
        if (each.result !== undefined) underWay.splice(index, 1);
        idle.push(nextClient++);
      } else if (each.result !== undefined) {
        events.push({ result: each.result, clientId, opId: each.opId });
        underWay.splice(index, 1);
        idle.push(clientId);
      }
    }
  }
  return [...events, ...deferred];
}

function randomCall(prng: Prng, { tail }: StreamState): Call {
  const draw = prng.fraction();
  if (draw < 0.25) return { kind: 'read' };
  if (draw < 0.45) return { kind: 'checkTail' };
  const setsToken = prng.chance(0.2);
  return {
    kind: 'append',
    recordHashes: Array.from({ length: setsToken ? 1 : 1 + prng.below(3) }, () =>
      BigInt(prng.uint32()),
    ),
    setFencingToken: setsToken ? prng.pick(TOKENS) : null,
    fencingToken: prng.chance(0.25) ? prng.pick(TOKENS) : null,
    matchSeqNum: prng.chance(0.3) ? Math.max(0, tail - prng.below(2)) : null,
  };
}

function answer(state: StreamState, call: Call): [Result, StreamState] {
  if (call.kind === 'read') {
    return [{ kind: 'readSuccess', tail: state.tail, streamHash: state.hash }, state];
  }
  if (call.kind === 'checkTail') return [{ kind: 'checkTailSuccess', tail: state.tail }, state];
  if (!admits(state, call)) return [{ kind: 'appendDefiniteFailure' }, state];
  const after = appended(state, call);
  return [{ kind: 'appendSuccess', tail: after.tail }, after];
}

/** The same history with one answer changed; the change may be one that nobody can tell. */
export function withOneLie(prng: Prng, events: readonly HistoryEvent[]): HistoryEvent[] {
  const ends = events.flatMap((event, at) => (isStart(event) ? [] : [at]));
  const at = prng.pick(ends);
  return events.map((event, index) => {
    if (index !== at || isStart(event)) return event;
    const start = events.find((each) => isStart(each) && each.opId === event.opId);
    const call = start !== undefined && isStart(start) ? start.call : undefined;
    return { ...event, result: lie(prng, event.result, call) };
  });
}

function lie(prng: Prng, result: Result, call: Call | undefined): Result {
  const off = prng.pick([-2, -1, 1, 2]);
  switch (result.kind) {
    case 'appendSuccess':
      if (prng.chance(0.3)) return { kind: 'appendDefiniteFailure' };
      return { kind: 'appendSuccess', tail: Math.max(0, result.tail + off) };
    case 'appendDefiniteFailure':
    case 'appendIndefiniteFailure': {
      const { recordHashes, matchSeqNum } = call as AppendCall;
      return { kind: 'appendSuccess', tail: (matchSeqNum ?? prng.below(9)) + recordHashes.length };
    }
    case 'readSuccess':
      return prng.chance(0.5)
        ? { ...result, streamHash: BigInt.asUintN(64, result.streamHash + 1n) }
        : { ...result, tail: Math.max(0, result.tail + off) };
    case 'checkTailSuccess':
      return { kind: 'checkTailSuccess', tail: Math.max(0, result.tail + off) };
    default:
      return result;
  }
}

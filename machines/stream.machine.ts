/**
 * Leadership of one stream by one star: the open gate, serving, Finish and limbo.
 *
 * T1 the writer record names this tenure before a flight carries a record. T6 it leaves a tenure
 * only by its holder's own CAS, or after the cut of its epoch is published. N: Finish is the only
 * way out of leadership. L2: nothing is served from the moment a released CAS is sent.
 * Rules: src/protocol/gate.ts · effects: actors/stream.actor.ts
 */
import { assign, setup } from 'xstate';

export type StreamOutcome = 'released' | 'deleted';

export type StreamEvent =
  | { readonly type: 'name.resolved'; readonly streamId: string }
  | { readonly type: 'gate.passed' }
  | { readonly type: 'gate.staleName' }
  | { readonly type: 'gate.unsettled'; readonly star: string; readonly epoch: number }
  | { readonly type: 'predecessor.settled' }
  | { readonly type: 'writer.claimed' }
  | { readonly type: 'writer.conflict' }
  | { readonly type: 'tail.found'; readonly tail: number }
  | { readonly type: 'finish.requested'; readonly outcome: StreamOutcome }
  | { readonly type: 'batches.resolved' }
  | { readonly type: 'rows.flushed'; readonly end: number }
  | { readonly type: 'tail.marked' }
  | { readonly type: 'writer.left' }
  | { readonly type: 'writer.moved' }
  | { readonly type: 'garbage.removed' }
  | { readonly type: 'epoch.lost' }
  | { readonly type: 'effect.failed'; readonly code: string };

export interface StreamContext {
  readonly name: string;
  readonly streamId: string | undefined;
  /** The predecessor that has to be fenced and settled before the gate opens. */
  readonly predecessor: { readonly star: string; readonly epoch: number } | undefined;
  readonly outcome: StreamOutcome | undefined;
  /** Tail found at the gate, then the end of the rows that Finish flushed; unknown before. */
  readonly tail: number | undefined;
  readonly failure: string | undefined;
  readonly limboCount: number;
}

const noEffect = (): void => undefined;

export const streamMachine = setup({
  types: {
    context: {} as StreamContext,
    events: {} as StreamEvent,
    input: {} as { readonly name: string },
  },
  actions: {
    // Effects: provided by the actor, answered by events.
    resolveName: noEffect,
    judgeGate: noEffect,
    settlePredecessor: noEffect,
    claimWriter: noEffect,
    readTail: noEffect,
    lead: noEffect,
    startServing: noEffect,
    resolveBatches: noEffect,
    flushRows: noEffect,
    markTail: noEffect,
    leaveWriter: noEffect,
    cleanUp: noEffect,
    park: noEffect,
    stopServing: noEffect,
    // Bookkeeping.
    rememberStream: assign(({ event }) =>
      event.type === 'name.resolved' ? { streamId: event.streamId } : {},
    ),
    rememberPredecessor: assign(({ event }) =>
      event.type === 'gate.unsettled'
        ? { predecessor: { star: event.star, epoch: event.epoch } }
        : {},
    ),
    rememberTail: assign(({ event }) =>
      event.type === 'tail.found'
        ? { tail: event.tail }
        : event.type === 'rows.flushed'
          ? { tail: event.end }
          : {},
    ),
    rememberOutcome: assign(({ event }) =>
      event.type === 'finish.requested' ? { outcome: event.outcome } : {},
    ),
    rememberFailure: assign(({ event }) =>
      event.type === 'effect.failed' ? { failure: event.code } : {},
    ),
    countLimbo: assign(({ context }) => ({ limboCount: context.limboCount + 1 })),
  },
  guards: {
    isLocated: ({ context }) => context.tail !== undefined,
    isDeletion: ({ context }) => context.outcome === 'deleted',
  },
  delays: { limboRetry: 5_000 },
}).createMachine({
  id: 'stream',
  context: ({ input }) => ({
    name: input.name,
    streamId: undefined,
    predecessor: undefined,
    outcome: undefined,
    tail: undefined,
    failure: undefined,
    limboCount: 0,
  }),
  initial: 'opening',
  states: {
    opening: {
      initial: 'resolving',
      on: {
        'effect.failed': { target: 'failed', actions: 'rememberFailure' },
        'epoch.lost': 'lost',
      },
      states: {
        resolving: {
          entry: 'resolveName',
          on: {
            'name.resolved': { target: 'judging', actions: 'rememberStream' },
            'gate.staleName': { target: 'resolving', reenter: true },
          },
        },
        judging: {
          entry: 'judgeGate',
          on: {
            'gate.passed': 'claiming',
            'gate.staleName': 'resolving',
            'gate.unsettled': { target: 'settling', actions: 'rememberPredecessor' },
          },
        },
        settling: {
          entry: 'settlePredecessor',
          on: { 'predecessor.settled': 'claiming' },
        },
        claiming: {
          entry: 'claimWriter',
          on: { 'writer.claimed': 'locating', 'writer.conflict': 'judging' },
        },
        locating: {
          entry: 'readTail',
          on: {
            'tail.found': { target: '#stream.open', actions: ['rememberTail', 'lead'] },
            // The writer record names this star already: out again goes through Finish.
            'effect.failed': { target: '#stream.limbo', actions: 'rememberFailure' },
          },
        },
      },
    },
    open: {
      entry: 'startServing',
      on: {
        'finish.requested': { target: 'finishing', actions: 'rememberOutcome' },
        'epoch.lost': 'lost',
      },
    },
    finishing: {
      initial: 'resolving',
      on: {
        'effect.failed': { target: 'limbo', actions: 'rememberFailure' },
        'writer.moved': 'over',
        'epoch.lost': 'lost',
      },
      states: {
        resolving: { entry: 'resolveBatches', on: { 'batches.resolved': 'flushing' } },
        flushing: {
          entry: 'flushRows',
          on: { 'rows.flushed': { target: 'marking', actions: 'rememberTail' } },
        },
        marking: { entry: 'markTail', on: { 'tail.marked': 'leaving' } },
        leaving: {
          entry: ['stopServing', 'leaveWriter'],
          on: {
            'writer.left': [
              { guard: 'isDeletion', target: '#stream.cleaning' },
              { target: '#stream.over' },
            ],
          },
        },
      },
    },
    limbo: {
      entry: ['countLimbo', 'park'],
      after: {
        limboRetry: [{ guard: 'isLocated', target: 'finishing' }, { target: 'locating' }],
      },
      on: { 'epoch.lost': 'lost' },
    },
    locating: {
      entry: 'readTail',
      on: {
        'tail.found': { target: 'finishing', actions: ['rememberTail', 'lead'] },
        'effect.failed': { target: 'limbo', actions: 'rememberFailure' },
        'epoch.lost': 'lost',
      },
    },
    cleaning: {
      entry: 'cleanUp',
      on: { 'garbage.removed': 'over', 'effect.failed': 'over', 'epoch.lost': 'over' },
    },
    over: { entry: 'stopServing', type: 'final' },
    lost: { entry: 'stopServing', type: 'final' },
    failed: { type: 'final' },
  },
});

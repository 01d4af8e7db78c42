/**
 * One epoch of the own chain: it serves until a slot is lost or it is closed, then its cut places
 * every flight. A3: nothing is assigned after the first lost slot. R1: the cut places every flight
 * exactly once. Effects: actors/epoch.actor.ts
 */
import { assign, setup } from 'xstate';

export type EpochEvent =
  | { readonly type: 'checkpoint.stalled' }
  | { readonly type: 'checkpoint.resumed' }
  | { readonly type: 'slot.lost'; readonly slot: number; readonly found: string }
  | { readonly type: 'close.requested' }
  | { readonly type: 'cut.published'; readonly cut: number }
  | { readonly type: 'epoch.settled' }
  | { readonly type: 'effect.failed'; readonly code: string };

export interface EpochContext {
  readonly star: string;
  readonly epoch: number;
  readonly lostSlot: number | undefined;
  readonly cut: number | undefined;
  readonly failures: number;
}

const noEffect = (): void => undefined;

export const epochMachine = setup({
  types: {
    context: {} as EpochContext,
    events: {} as EpochEvent,
    input: {} as { readonly star: string; readonly epoch: number },
  },
  actions: {
    hurryCheckpoint: noEffect,
    fenceOwnEpoch: noEffect,
    placeFlights: noEffect,
    settleOwnEpoch: noEffect,
    publishOwnCut: noEffect,
    end: noEffect,
    rememberLoss: assign(({ event }) =>
      event.type === 'slot.lost' ? { lostSlot: event.slot } : {},
    ),
    rememberCut: assign(({ event }) => (event.type === 'cut.published' ? { cut: event.cut } : {})),
    countFailure: assign(({ context }) => ({ failures: context.failures + 1 })),
  },
  delays: { retry: ({ context }) => Math.min(5_000, 100 * 2 ** context.failures) },
}).createMachine({
  id: 'epoch',
  context: ({ input }) => ({ ...input, lostSlot: undefined, cut: undefined, failures: 0 }),
  initial: 'open',
  states: {
    open: {
      initial: 'flowing',
      on: {
        'slot.lost': { target: 'fencing', actions: 'rememberLoss' },
        'close.requested': 'closing',
      },
      states: {
        flowing: { on: { 'checkpoint.stalled': 'stalled' } },
        stalled: { entry: 'hurryCheckpoint', on: { 'checkpoint.resumed': 'flowing' } },
      },
    },
    fencing: {
      entry: 'fenceOwnEpoch',
      on: {
        'cut.published': { target: 'settling', actions: ['rememberCut', 'placeFlights'] },
        'effect.failed': { target: 'waiting', actions: 'countFailure' },
        'close.requested': 'ended',
      },
    },
    waiting: {
      after: { retry: 'fencing' },
      on: { 'close.requested': 'ended' },
    },
    settling: {
      entry: 'settleOwnEpoch',
      on: {
        'epoch.settled': 'ended',
        // Whoever opens one of its streams settles it; nothing waits for it here.
        'effect.failed': 'ended',
        'close.requested': 'ended',
      },
    },
    closing: {
      entry: 'publishOwnCut',
      on: {
        'cut.published': { target: 'ended', actions: 'rememberCut' },
        'effect.failed': 'ended',
        'slot.lost': { target: 'ended', actions: 'rememberLoss' },
      },
    },
    ended: { entry: 'end', type: 'final' },
  },
});

/**
 * Life of a star: registered before it mints (M0), serving on one epoch, rolling to the next when a
 * slot was lost or on demand (R2: producers see delay only), halted when its lease is lost, ended
 * when its owner closes it. Effects: actors/star.actor.ts
 */
import { assign, setup } from 'xstate';

export type StarEvent =
  | { readonly type: 'lease.registered'; readonly incarnation: string }
  | { readonly type: 'epoch.minted'; readonly epoch: number }
  | { readonly type: 'predecessors.settled' }
  | { readonly type: 'recovery.failed'; readonly code: string }
  | { readonly type: 'epoch.lost' }
  | { readonly type: 'roll.done'; readonly epoch: number }
  | { readonly type: 'lease.lost' }
  | { readonly type: 'drain.requested' }
  | { readonly type: 'streams.finished' }
  | { readonly type: 'epoch.closed' }
  | { readonly type: 'effect.failed'; readonly code: string };

export interface StarContext {
  readonly star: string;
  readonly incarnation: string | undefined;
  readonly epoch: number | undefined;
  readonly failure: string | undefined;
}

const noEffect = (): void => undefined;

export const starMachine = setup({
  types: {
    context: {} as StarContext,
    events: {} as StarEvent,
    input: {} as { readonly star: string },
  },
  actions: {
    registerLease: noEffect,
    mintEpoch: noEffect,
    settlePredecessors: noEffect,
    rollEpoch: noEffect,
    loseStreams: noEffect,
    finishStreams: noEffect,
    closeEpoch: noEffect,
    endLease: noEffect,
    rememberIncarnation: assign(({ event }) =>
      event.type === 'lease.registered' ? { incarnation: event.incarnation } : {},
    ),
    rememberEpoch: assign(({ event }) =>
      event.type === 'epoch.minted' || event.type === 'roll.done' ? { epoch: event.epoch } : {},
    ),
    rememberFailure: assign(({ event }) =>
      event.type === 'effect.failed' || event.type === 'recovery.failed'
        ? { failure: event.code }
        : {},
    ),
  },
  delays: { recoveryRetry: 5_000 },
}).createMachine({
  id: 'star',
  context: ({ input }) => ({
    star: input.star,
    incarnation: undefined,
    epoch: undefined,
    failure: undefined,
  }),
  initial: 'registering',
  states: {
    registering: {
      entry: 'registerLease',
      on: {
        'lease.registered': { target: 'minting', actions: 'rememberIncarnation' },
        'effect.failed': { target: 'failed', actions: 'rememberFailure' },
      },
    },
    minting: {
      entry: 'mintEpoch',
      on: {
        'epoch.minted': { target: 'serving', actions: 'rememberEpoch' },
        'effect.failed': { target: 'failed', actions: 'rememberFailure' },
        'lease.lost': 'failed',
      },
    },
    serving: {
      initial: 'recovering',
      on: {
        'epoch.lost': 'rolling',
        'lease.lost': 'halted',
        'drain.requested': 'draining',
      },
      states: {
        recovering: {
          entry: 'settlePredecessors',
          on: {
            'predecessors.settled': 'recovered',
            'recovery.failed': { target: 'waiting', actions: 'rememberFailure' },
          },
        },
        waiting: { after: { recoveryRetry: 'recovering' } },
        recovered: {},
      },
    },
    rolling: {
      entry: 'rollEpoch',
      on: {
        'roll.done': { target: 'serving', actions: 'rememberEpoch' },
        'effect.failed': { target: 'halted', actions: 'rememberFailure' },
        'lease.lost': 'halted',
        'drain.requested': 'draining',
      },
    },
    halted: {
      entry: 'loseStreams',
      on: { 'drain.requested': 'closing' },
    },
    draining: {
      entry: 'finishStreams',
      on: {
        'streams.finished': 'closing',
        // A failed roll: what it left is abandoned, and settled by the next open.
        'effect.failed': { target: 'closing', actions: ['rememberFailure', 'loseStreams'] },
        'epoch.lost': { actions: 'rollEpoch' },
        'lease.lost': { actions: 'loseStreams' },
      },
    },
    closing: {
      entry: 'closeEpoch',
      on: { 'epoch.closed': 'ended', 'effect.failed': 'ended' },
    },
    ended: { entry: 'endLease', type: 'final' },
    failed: { entry: 'endLease', type: 'final' },
  },
});

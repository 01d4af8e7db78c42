/**
 * Life of a star: registered before it mints (M0), serving on one epoch, rolling to the next when a
 * slot was lost or on demand (R2: producers see delay only). Whoever loses the lease halts and rolls
 * as well, but mints under a new incarnation, once that is registered: nothing is minted without. Who
 * loses it before the first mint begins that again in the same way.
 * Ended when its owner closes it. Effects: actors/star.actor.ts
 */
import { assign, setup } from 'xstate';

export type StarEvent =
  | { readonly type: 'lease.registered'; readonly incarnation: string }
  | { readonly type: 'registration.failed'; readonly code: string }
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
  /** Registrations that failed since the lease was lost. */
  readonly attempts: number;
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
    registerAgain: noEffect,
    mintEpoch: noEffect,
    settlePredecessors: noEffect,
    rollEpoch: noEffect,
    loseStreams: noEffect,
    yieldStreams: noEffect,
    giveUpLease: noEffect,
    finishStreams: noEffect,
    closeEpoch: noEffect,
    endLease: noEffect,
    rememberIncarnation: assign(({ event }) =>
      event.type === 'lease.registered'
        ? { incarnation: event.incarnation, attempts: 0, failure: undefined }
        : {},
    ),
    rememberEpoch: assign(({ event }) =>
      event.type === 'epoch.minted' || event.type === 'roll.done' ? { epoch: event.epoch } : {},
    ),
    rememberFailure: assign(({ event }) =>
      event.type === 'effect.failed' ||
      event.type === 'recovery.failed' ||
      event.type === 'registration.failed'
        ? { failure: event.code }
        : {},
    ),
    countAttempt: assign(({ context }) => ({ attempts: context.attempts + 1 })),
  },
  guards: {
    isNameTaken: ({ event }) =>
      event.type === 'registration.failed' && event.code === 'STAR_IN_USE',
  },
  delays: {
    recoveryRetry: 5_000,
    registrationRetry: ({ context }) => Math.min(5_000, 100 * 2 ** context.attempts),
  },
}).createMachine({
  id: 'star',
  context: ({ input }) => ({
    star: input.star,
    incarnation: undefined,
    epoch: undefined,
    failure: undefined,
    attempts: 0,
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
      initial: 'registered',
      on: {
        'epoch.minted': { target: 'serving', actions: 'rememberEpoch' },
        'effect.failed': { target: 'failed', actions: 'rememberFailure' },
      },
      states: {
        registered: { on: { 'lease.lost': 'halted' } },
        // The mint waits; it goes on under the next incarnation, unless another process is the star now.
        halted: {
          initial: 'registering',
          states: {
            registering: {
              entry: 'registerAgain',
              on: {
                'lease.registered': {
                  target: '#star.minting.registered',
                  actions: 'rememberIncarnation',
                },
                'registration.failed': [
                  { guard: 'isNameTaken', target: '#star.failed', actions: 'rememberFailure' },
                  { target: 'waiting', actions: ['rememberFailure', 'countAttempt'] },
                ],
              },
            },
            waiting: { after: { registrationRetry: 'registering' } },
          },
        },
      },
    },
    serving: {
      initial: 'recovering',
      on: {
        'epoch.lost': 'rolling',
        'lease.lost': 'rolling.halted',
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
      initial: 'registered',
      on: {
        'roll.done': { target: 'serving', actions: 'rememberEpoch' },
        'effect.failed': { target: 'stopped', actions: 'rememberFailure' },
      },
      states: {
        registered: {
          on: { 'lease.lost': 'halted', 'drain.requested': '#star.draining' },
        },
        // The roll waits with its mint; it goes on under the next incarnation.
        halted: {
          initial: 'registering',
          on: { 'drain.requested': { target: '#star.closing', actions: 'loseStreams' } },
          states: {
            registering: {
              entry: 'registerAgain',
              on: {
                'lease.registered': {
                  target: '#star.rolling.registered',
                  actions: 'rememberIncarnation',
                },
                'registration.failed': [
                  {
                    guard: 'isNameTaken',
                    target: 'waiting',
                    actions: ['rememberFailure', 'countAttempt', 'yieldStreams'],
                  },
                  { target: 'waiting', actions: ['rememberFailure', 'countAttempt'] },
                ],
              },
            },
            waiting: { after: { registrationRetry: 'registering' } },
          },
        },
      },
    },
    // Others need not wait for a star that will not serve its streams again.
    stopped: {
      entry: ['loseStreams', 'giveUpLease'],
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

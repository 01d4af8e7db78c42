/**
 * Fence of one epoch: finds the cut, the first slot that can never be acknowledged, and publishes it.
 * Invariants (docs/protocol.md): F1 no acknowledged slot at or above the cut. F2 nothing at or above
 * it is ever acknowledged. F3 every fencer derives the same cut. F4 no holes below it. P a cut that
 * was found against deleted slots is walked again, never published.
 * Rules: src/protocol/fence.ts, slot.ts, probe.ts, publication.ts · effects: actors/fence.actor.ts
 *
 * One event a wave, never one a slot. The walk's own state is plain data in the context: everything
 * that a slot showed so far, no bytes.
 */
import { assertEvent, assign, setup } from 'xstate';
import {
  beginFence,
  revalidateFence,
  stepFence,
  type FenceAnswers,
  type FenceState,
  type FenceWave,
  type WaveKind,
} from '../src/protocol/fence.ts';
import { claimOf } from '../src/protocol/fence-claim.ts';
import type { CutClaim } from '../src/protocol/publication.ts';
import type { EpochRecord } from '../src/protocol/records.ts';

export interface FenceInput {
  readonly star: string;
  readonly epoch: number;
  /** A fence of this incarnation's own epoch never sets a barrier. */
  readonly own: boolean;
  readonly tailHint: number | null;
}

/** What waves cost so far. A round is one sequential wave to storage; the metastore is not counted. */
export interface FenceCost {
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  readonly repairs: number;
}

export interface FenceContext extends FenceInput {
  readonly record: EpochRecord | null;
  readonly version: number | string | null;
  readonly walk: FenceState | null;
  /** The cut is recorded by somebody else. */
  readonly alreadyFenced: boolean;
  readonly cost: FenceCost;
  /** Times the walk began again because slots were deleted under it. */
  readonly restarts: number;
  /** Pauses since the walk last moved. */
  readonly pauses: number;
  /** Wall time at which the walk's slot became undecided. */
  readonly undecidedSinceMillis: number | null;
  readonly failure: { readonly code: string; readonly message: string } | null;
}

interface RecordRead {
  readonly record: EpochRecord;
  readonly version: number | string;
}

export type FenceEvent =
  | ({ readonly type: 'record.read' } & RecordRead)
  | {
      readonly type: 'wave.answered';
      readonly answers: FenceAnswers;
      readonly cost: FenceCost;
      readonly atMillis: number;
    }
  | ({ readonly type: 'cut.published' } & RecordRead)
  | ({ readonly type: 'cut.adopted' } & RecordRead)
  /** The record's checkpoint is above the slot at which the walk ended. */
  | ({ readonly type: 'walk.outdated' } & RecordRead)
  /** A caller that owns the epoch joined. */
  | { readonly type: 'owner.joined' }
  | { readonly type: 'effect.failed'; readonly code: string; readonly message: string };

const PAUSE_FIRST_MILLIS = 50;
const PAUSE_MAX_MILLIS = 2_000;

const NO_COST: FenceCost = { rounds: 0, gets: 0, puts: 0, repairs: 0 };

const nextIs =
  (kind: WaveKind) =>
  ({ context }: { context: FenceContext }): boolean =>
    context.walk?.wave.kind === kind;

const waveOf = ({ context }: { context: FenceContext }): { wave: FenceWave } => ({
  wave: context.walk!.wave,
});

function addCost(a: FenceCost, b: FenceCost): FenceCost {
  return {
    rounds: a.rounds + b.rounds,
    gets: a.gets + b.gets,
    puts: a.puts + b.puts,
    repairs: a.repairs + b.repairs,
  };
}

/** A walk from the record's checkpoint. */
function walkOf(record: EpochRecord, own: boolean, tailHint: number | null): FenceState {
  return beginFence({
    quorum: { buckets: record.buckets, copies: record.copyQuorum },
    window: record.window,
    checkpoint: record.checkpoint,
    own,
    tailHint: tailHint ?? undefined,
  });
}

const machineSetup = setup({
  types: {
    context: {} as FenceContext,
    input: {} as FenceInput,
    events: {} as FenceEvent,
  },
  actions: {
    /** Answers `record.read`. */
    readRecord: (_, _params: { star: string; epoch: number }) => {},
    /** Sends everything of the wave at once; answers `wave.answered`. */
    runWave: (_, _params: { wave: FenceWave }) => {},
    /** Answers `cut.published`, `cut.adopted` or `walk.outdated`. */
    publishCut: (_, _params: { claim: CutClaim }) => {},
    /** Gives up what the state that is left still waits for. */
    stopEffect: () => {},
    rememberRecord: assign(({ event }) => {
      assertEvent(event, ['record.read', 'cut.published', 'cut.adopted']);
      return { record: event.record, version: event.version };
    }),
    markAlreadyFenced: assign({ alreadyFenced: true }),
    beginWalk: assign(({ context, event }) => {
      assertEvent(event, 'record.read');
      return { walk: walkOf(event.record, context.own, context.tailHint) };
    }),
    restartWalk: assign(({ context, event }) => {
      assertEvent(event, 'walk.outdated');
      return {
        record: event.record,
        version: event.version,
        walk: walkOf(event.record, context.own, null),
        restarts: context.restarts + 1,
      };
    }),
    stepWalk: assign(({ context, event }) => {
      assertEvent(event, 'wave.answered');
      const walk = stepFence(context.walk!, event.answers);
      // A new attempt at the same slot is not progress: only a decision ends the age.
      const moved = walk.slot > context.walk!.slot || walk.wave.kind === 'cut';
      const since = moved ? null : context.undecidedSinceMillis;
      const blocked = walk.wave.kind === 'undecided';
      return {
        walk,
        cost: addCost(context.cost, event.cost),
        pauses: moved ? 0 : context.pauses,
        undecidedSinceMillis: blocked ? (since ?? event.atMillis) : since,
      };
    }),
    revalidateWalk: assign(({ context, event }) => {
      assertEvent(event, 'record.read');
      return { walk: revalidateFence(context.walk!, event.record.checkpoint) };
    }),
    countPause: assign(({ context }) => ({ pauses: context.pauses + 1 })),
    markOwn: assign(({ context }) => ({
      own: true,
      walk: context.walk === null ? null : { ...context.walk, own: true },
    })),
    rememberFailure: assign(({ event }) => {
      assertEvent(event, 'effect.failed');
      return { failure: { code: event.code, message: event.message } };
    }),
    /** No effect answers a state that did not ask it: late answers are dropped by the host. */
    refuseEvent: ({ event }) => {
      throw new Error(`fence machine does not expect ${event.type}`);
    },
  },
  guards: {
    isFenced: ({ event }) => event.type === 'record.read' && event.record.state !== 'open',
    /** The record's checkpoint has passed the slot: it was acknowledged, and maybe deleted. */
    isPassed: ({ context, event }) =>
      event.type === 'record.read' && event.record.checkpoint > context.walk!.slot,
    isProbe: nextIs('probe'),
    isObserve: nextIs('observe'),
    isRepair: nextIs('repair'),
    isPoison: nextIs('poison'),
    isBarrier: nextIs('barrier'),
    isRevalidate: nextIs('revalidate'),
    isUndecided: nextIs('undecided'),
    isCut: nextIs('cut'),
  },
  delays: {
    /** Doubles up to two seconds: a bucket that returns is noticed soon after. */
    pause: ({ context }) =>
      Math.min(PAUSE_MAX_MILLIS, PAUSE_FIRST_MILLIS * 2 ** Math.min(context.pauses, 10)),
  },
});

/** Every state that waits for a wave is left by its answer. */
const waveState = machineSetup.createStateConfig({
  entry: { type: 'runWave', params: waveOf },
  exit: 'stopEffect',
  on: { 'wave.answered': { target: 'deciding', actions: 'stepWalk' } },
});

export const fenceMachine = machineSetup.createMachine({
  id: 'fence',
  context: ({ input }) => ({
    ...input,
    record: null,
    version: null,
    walk: null,
    alreadyFenced: false,
    cost: NO_COST,
    restarts: 0,
    pauses: 0,
    undecidedSinceMillis: null,
    failure: null,
  }),
  initial: 'reading',
  on: {
    'owner.joined': { actions: 'markOwn' },
    'effect.failed': { target: '.failed', actions: 'rememberFailure' },
    '*': { actions: 'refuseEvent' },
  },
  states: {
    reading: {
      entry: {
        type: 'readRecord',
        params: ({ context }) => ({ star: context.star, epoch: context.epoch }),
      },
      exit: 'stopEffect',
      on: {
        'record.read': [
          {
            guard: 'isFenced',
            target: 'fenced',
            actions: ['rememberRecord', 'markAlreadyFenced'],
          },
          { target: 'deciding', actions: ['rememberRecord', 'beginWalk'] },
        ],
      },
    },
    /** Left at once: the wave that the step function chose names the state. */
    deciding: {
      always: [
        { guard: 'isProbe', target: 'probing' },
        { guard: 'isObserve', target: 'observing' },
        { guard: 'isRepair', target: 'repairing' },
        { guard: 'isPoison', target: 'poisoning' },
        { guard: 'isBarrier', target: 'barring' },
        { guard: 'isRevalidate', target: 'revalidating' },
        { guard: 'isUndecided', target: 'undecided' },
        { guard: 'isCut', target: 'publishing' },
      ],
    },
    probing: waveState,
    observing: waveState,
    repairing: waveState,
    poisoning: waveState,
    barring: waveState,
    revalidating: {
      entry: {
        type: 'readRecord',
        params: ({ context }) => ({ star: context.star, epoch: context.epoch }),
      },
      exit: 'stopEffect',
      on: {
        'record.read': [
          {
            guard: 'isFenced',
            target: 'fenced',
            actions: ['rememberRecord', 'markAlreadyFenced'],
          },
          { target: 'deciding', actions: ['rememberRecord', 'revalidateWalk'] },
        ],
      },
    },
    /** Buckets that do not answer hold the deciding vote; another process may settle it meanwhile. */
    undecided: {
      initial: 'pausing',
      states: {
        pausing: { after: { pause: 'rereading' } },
        rereading: {
          entry: [
            'countPause',
            {
              type: 'readRecord',
              params: ({ context }) => ({ star: context.star, epoch: context.epoch }),
            },
          ],
          exit: 'stopEffect',
          on: {
            'record.read': [
              {
                guard: 'isFenced',
                target: '#fence.fenced',
                actions: ['rememberRecord', 'markAlreadyFenced'],
              },
              {
                guard: 'isPassed',
                target: '#fence.deciding',
                actions: ['rememberRecord', 'revalidateWalk'],
              },
              { target: 'looking', actions: 'rememberRecord' },
            ],
          },
        },
        looking: {
          entry: { type: 'runWave', params: waveOf },
          exit: 'stopEffect',
          on: { 'wave.answered': { target: '#fence.deciding', actions: 'stepWalk' } },
        },
      },
    },
    publishing: {
      entry: {
        type: 'publishCut',
        params: ({ context }) => ({
          claim: claimOf(context.walk!),
        }),
      },
      exit: 'stopEffect',
      on: {
        'cut.published': { target: 'fenced', actions: 'rememberRecord' },
        'cut.adopted': { target: 'fenced', actions: ['rememberRecord', 'markAlreadyFenced'] },
        'walk.outdated': { target: 'deciding', actions: 'restartWalk' },
      },
    },
    fenced: { type: 'final' },
    failed: { type: 'final' },
  },
});

/**
 * Settlement of one fenced epoch: rows of every stream reach the cut, the record says so, and the
 * unratified tail is swept. Invariants (docs/protocol.md): S1 headers only. S2 finishable by anyone:
 * every path leads through the record. S3 streams are covered one by one while the rest goes on.
 * S4 a gap leaves the epoch unsettled.
 * Rules: src/protocol/settlement.ts, src/protocol/coverage.ts · effects: actors/settlement.actor.ts
 */
import { assertEvent, assign, setup } from 'xstate';
import { isLost, isPoisonedBelowCut, settlementStep } from '../src/protocol/settlement.ts';
import type { EpochRecord } from '../src/protocol/records.ts';

export interface SettlementInput {
  readonly star: string;
  readonly epoch: number;
}

export interface SettlementGap {
  readonly streamId: string;
  readonly end: number;
  readonly next: number;
}

export interface SettlementContext extends SettlementInput {
  /** What is being covered or swept: `[from, to)`. */
  readonly from: number;
  readonly to: number;
  readonly headersRead: number;
  readonly streams: number;
  readonly streamsCovered: number;
  /** A slot that no bucket held; the record, read after that, says what it means. */
  readonly missingSlot: number | null;
  /** Buckets that hold poison in its place. */
  readonly poisonedIn: readonly string[];
  readonly swept: boolean;
  readonly deleted: number;
  /** Failures since the last progress. */
  readonly failures: number;
  readonly gap: SettlementGap | null;
  readonly failure: { readonly code: string; readonly message: string } | null;
}

export type SettlementEvent =
  | { readonly type: 'record.read'; readonly record: EpochRecord }
  | { readonly type: 'record.absent' }
  | { readonly type: 'heads.progressed'; readonly headersRead: number }
  | { readonly type: 'heads.read'; readonly streams: number }
  | {
      readonly type: 'slot.missing';
      readonly slot: number;
      readonly poisonedIn: readonly string[];
    }
  | { readonly type: 'streams.progressed'; readonly covered: number }
  | { readonly type: 'streams.covered' }
  | ({ readonly type: 'stream.gapped' } & SettlementGap)
  | { readonly type: 'tail.swept'; readonly deleted: number }
  /** A bucket did not answer: what may stand there stays for a later settler. */
  | { readonly type: 'tail.unswept'; readonly deleted: number }
  | {
      readonly type: 'effect.failed';
      readonly retryable: boolean;
      readonly code: string;
      readonly message: string;
    };

const RETRY_FIRST_MILLIS = 50;
const RETRY_MAX_MILLIS = 5_000;

const steps = {
  isUnfenced: (record: EpochRecord) => settlementStep(record).kind === 'unfenced',
  isCover: (record: EpochRecord) => settlementStep(record).kind === 'cover',
  isSweep: (record: EpochRecord) => settlementStep(record).kind === 'sweep',
};

const machineSetup = setup({
  types: {
    context: {} as SettlementContext,
    input: {} as SettlementInput,
    events: {} as SettlementEvent,
  },
  actions: {
    /** Answers `record.read` or `record.absent`. */
    readRecord: (_, _params: { star: string; epoch: number }) => {},
    /** Answers `heads.progressed` now and then, at last `heads.read` or `slot.missing`. */
    readHeads: (_, _params: { from: number; to: number }) => {},
    /** Answers `streams.progressed` now and then, at last `streams.covered` or `stream.gapped`. */
    extendStreams: (_, _params: { to: number }) => {},
    /** Answers `record.read` with the record as it is now, whoever wrote it. */
    recordSettled: (_, _params: { cut: number }) => {},
    /** Answers `tail.swept` or `tail.unswept`. */
    sweepTail: (_, _params: { from: number; to: number }) => {},
    /** Answers `record.read` with the record as it is now, whoever wrote it. */
    recordSwept: (_, _params: { cut: number }) => {},
    /** Ends whatever the state that is left has started. */
    stopEffects: () => {},
    takeRange: assign(({ event }) => {
      assertEvent(event, 'record.read');
      const step = settlementStep(event.record);
      const range = step.kind === 'cover' || step.kind === 'sweep' ? step : { from: 0, to: 0 };
      return { from: range.from, to: range.to, missingSlot: null, poisonedIn: [] };
    }),
    countHeads: assign(({ event }) => {
      assertEvent(event, 'heads.progressed');
      return { headersRead: event.headersRead, failures: 0 };
    }),
    countStreams: assign(({ event }) => {
      assertEvent(event, 'heads.read');
      return { streams: event.streams, streamsCovered: 0, failures: 0 };
    }),
    countCovered: assign(({ event }) => {
      assertEvent(event, 'streams.progressed');
      return { streamsCovered: event.covered, failures: 0 };
    }),
    noteMissing: assign(({ event }) => {
      assertEvent(event, 'slot.missing');
      return { missingSlot: event.slot, poisonedIn: event.poisonedIn };
    }),
    noteGap: assign(({ event }) => {
      assertEvent(event, 'stream.gapped');
      return { gap: { streamId: event.streamId, end: event.end, next: event.next } };
    }),
    noteSweep: assign(({ event }) => {
      assertEvent(event, ['tail.swept', 'tail.unswept']);
      return { swept: event.type === 'tail.swept', deleted: event.deleted };
    }),
    noteDone: assign({ swept: true }),
    countFailure: assign(({ context, event }) => {
      assertEvent(event, 'effect.failed');
      return {
        failures: context.failures + 1,
        failure: { code: event.code, message: event.message },
      };
    }),
    fail: assign((_, params: { code: string; message: string }) => ({ failure: params })),
  },
  guards: {
    isUnfenced: ({ event }) => event.type === 'record.read' && steps.isUnfenced(event.record),
    isLostSlot: ({ context, event }) =>
      event.type === 'record.read' &&
      context.missingSlot !== null &&
      isLost(context.missingSlot, event.record),
    isPoisonedSlot: ({ context, event }) =>
      event.type === 'record.read' &&
      context.missingSlot !== null &&
      isPoisonedBelowCut(context.missingSlot, context.poisonedIn.length, event.record),
    isToCover: ({ event }) => event.type === 'record.read' && steps.isCover(event.record),
    isToSweep: ({ event }) => event.type === 'record.read' && steps.isSweep(event.record),
    isRetryable: ({ event }) => event.type === 'effect.failed' && event.retryable,
  },
  delays: {
    retryDelay: ({ context }) =>
      Math.min(RETRY_MAX_MILLIS, RETRY_FIRST_MILLIS * 2 ** Math.min(context.failures, 16)),
  },
});

const onFailure = [
  { guard: 'isRetryable', target: 'backingOff', actions: 'countFailure' },
  { target: 'failed', actions: 'countFailure' },
] as const;

/** Every answer about the record is judged alike, so that a crash or a rival changes no path. */
const onRecord = [
  {
    guard: 'isUnfenced',
    target: 'failed',
    actions: {
      type: 'fail',
      params: { code: 'INVARIANT', message: 'an epoch is settled before its cut is published' },
    },
  },
  {
    guard: 'isPoisonedSlot',
    target: 'failed',
    actions: {
      type: 'fail',
      params: {
        code: 'ACKNOWLEDGED_SLOT_POISONED',
        message: 'poison holds a slot below the published cut; the epoch is not settled',
      },
    },
  },
  {
    guard: 'isLostSlot',
    target: 'failed',
    actions: {
      type: 'fail',
      params: { code: 'DATA_LOSS', message: 'no bucket holds a committed flight' },
    },
  },
  { guard: 'isToCover', target: 'readingHeads', actions: 'takeRange' },
  { guard: 'isToSweep', target: 'sweepingTail', actions: 'takeRange' },
  { target: 'settled', actions: 'noteDone' },
] as const;

const onRecordAbsent = {
  target: 'failed',
  actions: {
    type: 'fail',
    params: { code: 'EPOCH_UNKNOWN', message: 'the epoch has no record' },
  },
} as const;

export const settlementMachine = machineSetup.createMachine({
  id: 'settlement',
  context: ({ input }) => ({
    star: input.star,
    epoch: input.epoch,
    from: 0,
    to: 0,
    headersRead: 0,
    streams: 0,
    streamsCovered: 0,
    missingSlot: null,
    poisonedIn: [],
    swept: false,
    deleted: 0,
    failures: 0,
    gap: null,
    failure: null,
  }),
  initial: 'readingRecord',
  states: {
    readingRecord: {
      entry: {
        type: 'readRecord',
        params: ({ context }) => ({ star: context.star, epoch: context.epoch }),
      },
      exit: 'stopEffects',
      on: {
        'record.read': onRecord,
        'record.absent': onRecordAbsent,
        'effect.failed': onFailure,
      },
    },
    readingHeads: {
      entry: {
        type: 'readHeads',
        params: ({ context }) => ({ from: context.from, to: context.to }),
      },
      exit: 'stopEffects',
      on: {
        'heads.progressed': { actions: 'countHeads' },
        'heads.read': { target: 'extendingRows', actions: 'countStreams' },
        'slot.missing': { target: 'readingRecord', actions: 'noteMissing' },
        'effect.failed': onFailure,
      },
    },
    extendingRows: {
      entry: { type: 'extendStreams', params: ({ context }) => ({ to: context.to }) },
      exit: 'stopEffects',
      on: {
        'streams.progressed': { actions: 'countCovered' },
        'streams.covered': 'recordingSettled',
        'stream.gapped': { target: 'gapped', actions: 'noteGap' },
        'effect.failed': onFailure,
      },
    },
    recordingSettled: {
      entry: { type: 'recordSettled', params: ({ context }) => ({ cut: context.to }) },
      exit: 'stopEffects',
      on: {
        'record.read': onRecord,
        'record.absent': onRecordAbsent,
        'effect.failed': onFailure,
      },
    },
    sweepingTail: {
      entry: {
        type: 'sweepTail',
        params: ({ context }) => ({ from: context.from, to: context.to }),
      },
      exit: 'stopEffects',
      on: {
        'tail.swept': { target: 'recordingSwept', actions: 'noteSweep' },
        'tail.unswept': { target: 'settled', actions: 'noteSweep' },
        'effect.failed': onFailure,
      },
    },
    recordingSwept: {
      entry: { type: 'recordSwept', params: ({ context }) => ({ cut: context.from }) },
      exit: 'stopEffects',
      on: {
        'record.read': onRecord,
        'record.absent': onRecordAbsent,
        'effect.failed': onFailure,
      },
    },
    /** The record is read again after every failure: it may have been settled meanwhile. */
    backingOff: { after: { retryDelay: 'readingRecord' } },
    settled: { type: 'final' },
    gapped: { type: 'final' },
    failed: { type: 'final' },
  },
});

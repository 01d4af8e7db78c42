import { describe, expect, it } from 'vitest';
import { initialTransition, transition } from 'xstate';
import { getShortestPaths } from 'xstate/graph';
import { settlementMachine, type SettlementEvent } from '../../../machines/settlement.machine.ts';
import type { EpochRecord } from '../../../src/protocol/records.ts';

const INPUT = { star: 'dead', epoch: 3 };

const FENCED: EpochRecord = {
  star: 'dead',
  epoch: 3,
  class: 'express',
  set: '5e'.repeat(16),
  buckets: 3,
  copyQuorum: 2,
  window: 4,
  incarnation: '1c'.repeat(16),
  nonce: '0c'.repeat(16),
  state: 'fenced',
  checkpoint: 10,
  rewritten: 0,
  trimmed: 0,
  swept: 0,
  tailSwept: false,
  cut: 20,
  attempt: '0123456789abcdef',
};
const SETTLED: EpochRecord = { ...FENCED, state: 'settled', checkpoint: 20 };
const SWEPT: EpochRecord = { ...SETTLED, tailSwept: true };

const read = (record: EpochRecord): SettlementEvent => ({ type: 'record.read', record });
const failed = (retryable: boolean): SettlementEvent => ({
  type: 'effect.failed',
  retryable,
  code: retryable ? 'METASTORE_UNAVAILABLE' : 'METASTORE_CORRUPT',
  message: 'it failed',
});
const READ_HEADS = { type: 'heads.read', streams: 7 } as const;
const COVERED = { type: 'streams.covered' } as const;
const SWEPT_TAIL = { type: 'tail.swept', deleted: 2 } as const;

/** Where the events lead, and which effects the last one starts. */
function after(...events: readonly SettlementEvent[]) {
  let [snapshot, actions] = initialTransition(settlementMachine, INPUT);
  for (const event of events) [snapshot, actions] = transition(settlementMachine, snapshot, event);
  const { value, context, status } = snapshot;
  const effects = actions
    .filter(({ type }) => !type.startsWith('xstate.') && type !== 'stopEffects')
    .map(({ type, params }) => ({ type, params }));
  return { value, context, status, effects };
}

describe('the chart of a settlement', () => {
  it('begins with the record', () => {
    expect(after()).toMatchObject({
      value: 'readingRecord',
      effects: [{ type: 'readRecord', params: INPUT }],
    });
  });

  it('covers, records, sweeps, records', () => {
    expect(after(read(FENCED))).toMatchObject({
      value: 'readingHeads',
      effects: [{ type: 'readHeads', params: { from: 10, to: 20 } }],
    });
    expect(after(read(FENCED), READ_HEADS)).toMatchObject({
      value: 'extendingRows',
      context: { streams: 7 },
      effects: [{ type: 'extendStreams', params: { to: 20 } }],
    });
    expect(after(read(FENCED), READ_HEADS, COVERED)).toMatchObject({
      value: 'recordingSettled',
      effects: [{ type: 'recordSettled', params: { cut: 20 } }],
    });
    expect(after(read(FENCED), READ_HEADS, COVERED, read(SETTLED))).toMatchObject({
      value: 'sweepingTail',
      effects: [{ type: 'sweepTail', params: { from: 20, to: 25 } }],
    });
    const swept = [read(FENCED), READ_HEADS, COVERED, read(SETTLED), SWEPT_TAIL];
    expect(after(...swept)).toMatchObject({
      value: 'recordingSwept',
      effects: [{ type: 'recordSwept', params: { cut: 20 } }],
    });
    expect(after(...swept, read(SWEPT))).toMatchObject({
      value: 'settled',
      status: 'done',
      context: { swept: true, deleted: 2, streams: 7 },
    });
  });

  it('S2: takes up whatever the record says was done before', () => {
    expect(after(read(SETTLED))).toMatchObject({ value: 'sweepingTail' });
    expect(after(read(SWEPT))).toMatchObject({ value: 'settled', context: { swept: true } });
    expect(after(read({ ...SWEPT, state: 'retired' }))).toMatchObject({ value: 'settled' });
    // A rival settled, or the late writer moved the checkpoint.
    const covered = [read(FENCED), READ_HEADS, COVERED];
    expect(after(...covered, read(SWEPT))).toMatchObject({ value: 'settled' });
    expect(after(...covered, read({ ...FENCED, checkpoint: 15 }))).toMatchObject({
      value: 'readingHeads',
      context: { from: 15, to: 20 },
    });
  });

  it('S4: ends unsettled at a gap', () => {
    const gap = { type: 'stream.gapped', streamId: 'x', end: 3, next: 5 } as const;
    expect(after(read(FENCED), READ_HEADS, gap)).toMatchObject({
      value: 'gapped',
      status: 'done',
      context: { gap: { streamId: 'x', end: 3, next: 5 } },
    });
  });

  it('S3: is never the settlement of an open epoch', () => {
    expect(after(read({ ...FENCED, state: 'open' }))).toMatchObject({
      value: 'failed',
      context: { failure: { code: 'INVARIANT' } },
    });
    expect(after({ type: 'record.absent' })).toMatchObject({
      value: 'failed',
      context: { failure: { code: 'EPOCH_UNKNOWN' } },
    });
  });

  it('asks the record what a missing slot means', () => {
    const missing = { type: 'slot.missing', slot: 12, poisonedIn: [] } as const;
    expect(after(read(FENCED), missing)).toMatchObject({ value: 'readingRecord' });
    expect(after(read(FENCED), missing, read(FENCED))).toMatchObject({
      value: 'failed',
      context: { failure: { code: 'DATA_LOSS' }, missingSlot: 12 },
    });
    expect(after(read(FENCED), missing, read(SETTLED))).toMatchObject({ value: 'sweepingTail' });
    const poisoned = { ...missing, poisonedIn: ['a', 'b'] };
    expect(after(read(FENCED), poisoned, read(FENCED))).toMatchObject({
      value: 'failed',
      context: { failure: { code: 'ACKNOWLEDGED_SLOT_POISONED' }, missingSlot: 12 },
    });
    expect(after(read(FENCED), poisoned, read(SETTLED))).toMatchObject({ value: 'sweepingTail' });
    expect(after(read(FENCED), missing, read({ ...FENCED, checkpoint: 13 }))).toMatchObject({
      value: 'readingHeads',
      context: { missingSlot: null, from: 13 },
    });
  });

  it('reads the record again after a failure that may pass', () => {
    const paths: SettlementEvent[][] = [
      [],
      [read(FENCED)],
      [read(FENCED), READ_HEADS],
      [read(FENCED), READ_HEADS, COVERED],
      [read(SETTLED)],
      [read(SETTLED), SWEPT_TAIL],
    ];
    for (const path of paths) {
      expect(after(...path, failed(true))).toMatchObject({
        value: 'backingOff',
        context: { failures: 1 },
      });
      expect(after(...path, failed(false))).toMatchObject({
        value: 'failed',
        context: { failure: { code: 'METASTORE_CORRUPT' } },
      });
    }
  });

  it('forgets failures when something moves', () => {
    const progress: SettlementEvent = { type: 'heads.progressed', headersRead: 64 };
    const { context } = after(read(FENCED), progress);
    expect(context).toMatchObject({ failures: 0, headersRead: 64 });
    const covered: SettlementEvent = { type: 'streams.progressed', covered: 3 };
    expect(after(read(FENCED), READ_HEADS, covered).context.streamsCovered).toBe(3);
  });

  it('leaves a tail that it could not sweep to the next settler', () => {
    const unswept = { type: 'tail.unswept', deleted: 1 } as const;
    expect(after(read(SETTLED), unswept)).toMatchObject({
      value: 'settled',
      context: { swept: false, deleted: 1 },
    });
  });

  it('keeps a context of plain data', () => {
    const { context } = after(read(FENCED), READ_HEADS);
    expect(JSON.parse(JSON.stringify(context))).toEqual(context);
  });
});

describe('every path through the chart', () => {
  it('S3: passes the published cut before rows, and rows before the record', () => {
    const events: SettlementEvent[] = [
      read(FENCED),
      read(SETTLED),
      read(SWEPT),
      read({ ...FENCED, state: 'open' }),
      { type: 'record.absent' },
      READ_HEADS,
      { type: 'slot.missing', slot: 12, poisonedIn: [] },
      COVERED,
      { type: 'stream.gapped', streamId: 'x', end: 3, next: 5 },
      SWEPT_TAIL,
      { type: 'tail.unswept', deleted: 1 },
    ];
    const pure = settlementMachine.provide({ delays: { retryDelay: 1 } });
    const paths = getShortestPaths(pure, {
      input: INPUT,
      events,
      serializeState: (snapshot) => JSON.stringify([snapshot.value, snapshot.context]),
      limit: 2_000,
    });
    const values = new Set(paths.map(({ state }) => state.value));
    for (const value of ['settled', 'gapped', 'failed', 'recordingSwept']) {
      expect(values).toContain(value);
    }
    for (const { steps } of paths) {
      let isFenced = false;
      let isCovered = false;
      for (const { event, state } of steps) {
        const sent = event;
        if (sent.type === 'record.read') {
          isFenced ||= sent.record.state !== 'open';
          isCovered ||= sent.record.state === 'settled';
        }
        if (sent.type === 'streams.covered') isCovered = true;
        if (state.value === 'readingHeads') expect(isFenced).toBe(true);
        if (state.value === 'recordingSettled') expect(isCovered).toBe(true);
        if (state.value === 'sweepingTail') expect(isCovered).toBe(true);
      }
    }
  });
});

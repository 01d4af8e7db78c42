import { describe, expect, it } from 'vitest';
import {
  demoDocument,
  demoLines,
  demoPassed,
  type DemoFigures,
} from '../../../src/cli/demo/result.ts';
import { NO_PAINT } from '../../../src/cli/drawing.ts';
import type { AckReport, Report } from '../../../src/cli/load/reports.ts';
import { Tally } from '../../../src/cli/load/tally.ts';
import { CLEAN, isClean } from '../../../src/cli/load/verifier.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { fakeReader, record } from './support.ts';

const figures: DemoFigures = {
  root: '/data',
  seconds: 5,
  throughput: {
    records: 1_000,
    batches: 10,
    bodyBytes: 64_000,
    mbPerSecond: 12.34567,
    ackP50Millis: 1.5,
    ackP99Millis: 9.25,
  },
  kill: { afterMillis: 2_500, unacknowledgedBatches: 3 },
  restartMillis: 400,
  fence: { epoch: 0, cut: 42, rounds: 5, gets: 60, puts: 2, repairs: 1, millis: 12.5 },
  verdict: { ...CLEAN, records: 1_010, unacknowledged: 10 },
  readBackMillis: 100,
};

describe('the result of a demo', () => {
  it('has the figures that others read', () => {
    expect(demoDocument(figures)).toMatchObject({
      ok: true,
      records: 1_000,
      lost: 0,
      duplicated: 0,
      outOfOrder: 0,
      mbPerSecond: 12.346,
      ackP50Millis: 1.5,
      ackP99Millis: 9.25,
      fence: { rounds: 5, millis: 12.5 },
      cut: 42,
    });
    expect(demoLines(figures, NO_PAINT).at(-1)).toContain('every acknowledged record');
  });

  it.each(['lost', 'duplicated', 'outOfOrder', 'torn'] as const)('fails by one %s', (field) => {
    const bad = { ...figures, verdict: { ...figures.verdict, [field]: 1 } };
    expect(demoPassed(bad)).toBe(false);
    expect(demoDocument(bad)).toMatchObject({ ok: false, [field]: 1 });
    expect(demoLines(bad, NO_PAINT).at(-1)).toContain('missing, doubled or in the wrong place');
  });
});

describe('the tally', () => {
  const ack: AckReport = {
    run: 1,
    producer: 0,
    batch: 0,
    stream: 0,
    start: 0,
    startTimestamp: 1_000,
    end: 2,
    endTimestamp: 1_001,
    checksum: 0,
    bodyBytes: 500_000,
    latencyMillis: 4,
  };

  function tallyOf(reports: readonly Report[]): Tally {
    let now = 0;
    const tally = new Tally(['s'], () => (now += 100));
    tally.beginRun();
    for (const report of reports) tally.take(report);
    return tally;
  }

  it('measures from the first append to the last acknowledgement', () => {
    const tally = tallyOf([
      { kind: 'appending', epoch: 0 },
      { kind: 'submitted', batches: 3 },
      { kind: 'ack', ack },
      { kind: 'ack', ack: { ...ack, batch: 1, start: 2, end: 4, latencyMillis: 8 } },
    ]);
    expect(tally.throughput()).toEqual({
      records: 4,
      batches: 2,
      bodyBytes: 1_000_000,
      mbPerSecond: 5,
      ackP50Millis: 4,
      ackP99Millis: 8,
    });
    expect(tally.unacknowledgedBatches).toBe(1);
  });

  it('counts everything as lost that a reader does not find', async () => {
    const empty = tallyOf([{ kind: 'ack', ack }]);
    expect(await empty.readBack(fakeReader({}))).toMatchObject({ lost: 2 });
    const other = tallyOf([{ kind: 'ack', ack }]);
    const records = [record(0, 'x'), record(1, 'y')];
    expect(isClean(await other.readBack(fakeReader({ s: records })))).toBe(false);
    const gone = tallyOf([{ kind: 'ack', ack }]);
    const missing = { s: [new EngineError('STREAM_NOT_FOUND', 'no stream has this name')] };
    expect(await gone.readBack(fakeReader(missing))).toMatchObject({ lost: 2 });
  });

  it('does not take a failing read for an empty stream', async () => {
    const tally = tallyOf([{ kind: 'ack', ack }]);
    const failing = { s: [new EngineError('DATA_LOSS', 'no good copy is left')] };
    await expect(tally.readBack(fakeReader(failing))).rejects.toThrow('no good copy');
  });
});

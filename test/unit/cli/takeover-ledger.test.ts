import { describe, expect, it } from 'vitest';
import { Ledger } from '../../../src/cli/takeover/ledger.ts';
import { CLEAN } from '../../../src/cli/load/verifier.ts';
import { takeoverDocument, takeoverPassed } from '../../../src/cli/takeover/result.ts';
import type { TakeoverResult } from '../../../src/cli/takeover/result.ts';

function ackAt(ledger: Ledger, at: number, start: number, end: number, producer = 0): void {
  const ack = {
    run: 1,
    producer,
    batch: start,
    stream: 0,
    start,
    startTimestamp: 0,
    end,
    endTimestamp: 0,
    checksum: 0,
    bodyBytes: 0,
    latencyMillis: 0,
  };
  ledger.take({ kind: 'ack', at, ack });
}

describe('Ledger', () => {
  it('counts records whose number was acknowledged twice', () => {
    const ledger = new Ledger(['s']);
    ackAt(ledger, 1, 0, 10);
    ackAt(ledger, 2, 10, 20);
    expect(ledger.reused()).toBe(0);
    ackAt(ledger, 3, 15, 25);
    expect(ledger.reused()).toBe(5);
    ackAt(ledger, 4, 2, 4);
    expect(ledger.reused()).toBe(7);
  });

  it('calls a tail stale that misses what was acknowledged before the question', () => {
    const ledger = new Ledger(['s']);
    ackAt(ledger, 10, 0, 5);
    ackAt(ledger, 20, 5, 9);
    ledger.take({ kind: 'tail', stream: 0, askedAt: 15, tail: 5 });
    ledger.take({ kind: 'tail', stream: 0, askedAt: 20, tail: 5 });
    expect(ledger.staleTails()).toBe(0);
    ledger.take({ kind: 'tail', stream: 0, askedAt: 21, tail: 8 });
    expect(ledger.staleTails()).toBe(1);
    ledger.take({ kind: 'tail', stream: 0, askedAt: 11, tail: 4 });
    expect(ledger.staleTails()).toBe(2);
  });

  it('measures the longest pause of any one producer', () => {
    const ledger = new Ledger(['s']);
    ackAt(ledger, 100, 0, 1);
    ackAt(ledger, 900, 1, 2, 1);
    ackAt(ledger, 400, 2, 3);
    ackAt(ledger, 950, 3, 4, 1);
    expect(ledger.longestStallMillis).toBe(300);
    expect(ledger.streamsAcknowledgedSince(940)).toBe(1);
    expect(ledger.streamsAcknowledgedSince(950)).toBe(0);
  });
});

describe('the result of a takeover', () => {
  const good: TakeoverResult = {
    root: 'data',
    seconds: 5,
    detectionMillis: 210.5,
    figures: { streams: 4, fenceMillis: 30, settleMillis: 20, openMillis: 80, roundTrips: 14 },
    longestStallMillis: 400,
    acknowledged: 1_000,
    verdict: CLEAN,
    reused: 0,
    producerErrors: 0,
    retries: 3,
    tailChecks: 50,
    staleCheckTails: 0,
  };

  it('passes when nothing was lost and nobody failed', () => {
    expect(takeoverPassed(good)).toBe(true);
    expect(takeoverDocument(good)).toMatchObject({
      ok: true,
      detectionMillis: 210.5,
      roundTripsAfterDetection: 14,
      lost: 0,
      reused: 0,
    });
  });

  it.each<[string, Partial<TakeoverResult>]>([
    ['a lost record', { verdict: { ...CLEAN, lost: 1 } }],
    ['a reused number', { reused: 1 }],
    ['a failed producer', { producerErrors: 1 }],
    ['a stale tail', { staleCheckTails: 1 }],
    ['a leader nobody missed', { detectionMillis: Number.NaN }],
    ['no takeover', { figures: undefined }],
  ])('fails with %s', (_, change) => {
    expect(takeoverPassed({ ...good, ...change })).toBe(false);
    expect(takeoverDocument({ ...good, ...change })).toMatchObject({ ok: false });
  });
});

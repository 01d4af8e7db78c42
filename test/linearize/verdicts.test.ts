import { describe, expect, it } from 'vitest';
import { Prng } from '../../src/lib/prng.ts';
import type { HistoryEvent } from './events.ts';
import { randomHistory } from './random-histories.ts';
import { closed, Recorder } from './recorder.ts';
import { Account } from './verdicts.ts';

const right = randomHistory(new Prng(1), { clients: 4, operations: 60, unknown: 0.1 });
const judged = (events: readonly HistoryEvent[], limits = {}): Account => {
  const account = new Account(limits);
  account.judge({ label: 'seed 1 s0', events, replay: 'again' });
  return account;
};

/** Seven records of unknown outcome; then a read that found them, or that nobody can explain. */
function manyUnknown(streamHash: bigint): HistoryEvent[] {
  const clients = [0, 1, 2, 3, 4, 5, 6];
  const conditions = { setFencingToken: null, fencingToken: null, matchSeqNum: null };
  return [
    ...clients.map((clientId): HistoryEvent => {
      const call = { kind: 'append', recordHashes: [BigInt(clientId)], ...conditions } as const;
      return { call, clientId, opId: clientId };
    }),
    { call: { kind: 'read' }, clientId: 7, opId: 7 },
    { result: { kind: 'readSuccess', tail: 7, streamHash }, clientId: 7, opId: 7 },
  ];
}

describe('the account of a run', () => {
  it('counts what was called and answered', () => {
    const account = judged(right);
    expect(account.isClean).toBe(true);
    expect(account).toMatchObject({ histories: 1, operations: 60 });
    const answers = Object.values(account.results).reduce((sum, count) => sum + count, 0);
    expect(answers).toBe(60);
    expect(account.tookEffect).toBeGreaterThan(0);
    expect(account.tookEffect).toBeLessThanOrEqual(account.results.appendIndefiniteFailure);
  });

  it('is not clean when a history could not be decided', () => {
    const account = judged(manyUnknown(5n), { maxConfigurations: 100 });
    expect(account).toMatchObject({ isClean: false, isRejecting: false, violations: [] });
    expect(account.unknown).toEqual([{ label: 'seed 1 s0', replay: 'again' }]);
  });

  it('holds an engine that broke against the run, and not for the checker', () => {
    const account = new Account();
    account.broke('seed 1', 'again', 'F1: a broken rule');
    expect(account).toMatchObject({ isClean: false, isRejecting: false });
  });
});

describe('the recorder', () => {
  it('goes on under a new id after an unknown outcome, which ends with the history', () => {
    const recorder = new Recorder();
    const first = recorder.newClient();
    const opId = recorder.start(first, { kind: 'read' });
    expect(recorder.finish(first, opId, { kind: 'readFailure' })).toBe(first);
    const conditions = { setFencingToken: null, fencingToken: null, matchSeqNum: null };
    const call = { kind: 'append', recordHashes: [1n], ...conditions } as const;
    const unknown = recorder.start(first, call);
    const second = recorder.finish(first, unknown, { kind: 'appendIndefiniteFailure' });
    expect(second).not.toBe(first);
    expect(recorder.events).toHaveLength(3);
    expect(closed(recorder.events).slice(3)).toEqual([
      { result: { kind: 'appendIndefiniteFailure' }, clientId: first, opId: unknown },
    ]);
  });
});

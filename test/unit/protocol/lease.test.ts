import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bumped,
  encodeLease,
  ended,
  expiresAfterMillis,
  firstLease,
  isLost,
  isSameProcess,
  judgeHolder,
  judgeRegistration,
  nextBeatAfterMillis,
  observe,
  parseLease,
} from '../../../src/protocol/lease.ts';
import type {
  LeaseObservation,
  RegistrationDecision,
  StarLease,
} from '../../../src/protocol/lease.ts';

const PROCESS = {
  bootId: 'b00t',
  hostName: 'host-a',
  pidNamespace: 'pid:[4026531836]',
  pid: 41,
  startTime: '123456',
};
const INCARNATION = '0123456789abcdef0123456789abcdef';
const ATTEMPT = 'fedcba9876543210';
const LEASE = firstLease(
  { incarnation: INCARNATION, address: '10.0.0.7:7070', timeoutMillis: 15_000, process: PROCESS },
  ATTEMPT,
);

describe('lease records', () => {
  it('are JSON of one fixed shape', () => {
    expect(JSON.parse(Buffer.from(encodeLease(LEASE)).toString())).toEqual({
      incarnation: INCARNATION,
      address: '10.0.0.7:7070',
      timeoutMillis: 15_000,
      beat: 0,
      collectorRound: 0,
      process: PROCESS,
      state: 'held',
      attempt: ATTEMPT,
    });
  });

  it('come back as they went', () => {
    for (const lease of [LEASE, bumped(LEASE, 3), ended(bumped(LEASE, 0))]) {
      expect(parseLease('stars/a', encodeLease(lease))).toEqual(lease);
    }
    const withoutAddress = firstLease(
      { incarnation: INCARNATION, timeoutMillis: 1, process: PROCESS },
      ATTEMPT,
    );
    expect(parseLease('stars/a', encodeLease(withoutAddress))).toEqual(withoutAddress);
    expect('address' in withoutAddress).toBe(false);
  });

  it('grow by one with every bump, and end without other changes', () => {
    expect(bumped(bumped(LEASE, 4), 5)).toMatchObject({ beat: 2, collectorRound: 5 });
    expect(ended(LEASE)).toEqual({ ...LEASE, state: 'ended' });
  });

  it.each<[string, unknown]>([
    ['nothing', ''],
    ['not json', '{'],
    ['not text', Buffer.from([0xff, 0xfe])],
    ['an array', []],
    ['a field of a later version', { ...LEASE, later: 1 }],
    ['no incarnation', { ...LEASE, incarnation: undefined }],
    ['a short incarnation', { ...LEASE, incarnation: 'abc' }],
    ['another state', { ...LEASE, state: 'gone' }],
    ['a negative beat', { ...LEASE, beat: -1 }],
    ['a fractional beat', { ...LEASE, beat: 1.5 }],
    ['no timeout', { ...LEASE, timeoutMillis: 0 }],
    ['a text for a pid', { ...LEASE, process: { ...PROCESS, pid: '41' } }],
    ['no process', { ...LEASE, process: undefined }],
  ])('are refused with their key: %s', (_, value) => {
    const bytes =
      value instanceof Uint8Array
        ? value
        : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
    expect(() => parseLease('stars/a', bytes)).toThrow(
      expect.objectContaining({
        code: 'METASTORE_CORRUPT',
        details: expect.objectContaining({ key: 'stars/a' }),
      }),
    );
  });
});

describe('the times of a lease', () => {
  it('lose it by the send time of the last applied bump', () => {
    expect(isLost(1_000, 15_999.9, 15_000)).toBe(false);
    expect(isLost(1_000, 16_000, 15_000)).toBe(true);
  });

  it('leave room for several lost bumps, and let a holder know before anybody ends its record', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 600_000 }), (timeoutMillis) => {
        expect(nextBeatAfterMillis(timeoutMillis) * 4).toBeLessThan(timeoutMillis);
        // Also when one clock runs 4 % fast and the other 4 % slow.
        expect(expiresAfterMillis(timeoutMillis) / 1.04).toBeGreaterThan(timeoutMillis / 0.96);
      }),
    );
  });
});

describe('observe', () => {
  const seen = (version: number, lease: StarLease = LEASE) => ({ version, lease });

  it('calls a record expired once it stood unchanged for its timeout and a margin', () => {
    let observation: LeaseObservation | undefined;
    const standingAt = (now: number): string => {
      const looked = observe(observation, seen(1), now);
      observation = looked.observation;
      return looked.standing;
    };
    expect(standingAt(5_000)).toBe('live');
    expect(standingAt(5_000 + 16_999)).toBe('live');
    expect(standingAt(5_000 + 17_000)).toBe('expired');
    expect(observation).toEqual({ version: 1, sinceMonotonic: 5_000, changes: 0 });
  });

  it('begins anew with every change, and counts it', () => {
    const first = observe(undefined, seen(1), 0).observation;
    const second = observe(first, seen(2), 16_000);
    expect(second).toEqual({
      observation: { version: 2, sinceMonotonic: 16_000, changes: 1 },
      standing: 'live',
    });
    expect(observe(second.observation, seen(2), 20_000).standing).toBe('live');
    expect(observe(second.observation, seen(3), 90_000).standing).toBe('live');
  });

  it('goes by the timeout that the record itself names', () => {
    const lease = { ...LEASE, timeoutMillis: 1_000 };
    const { observation } = observe(undefined, seen(1, lease), 0);
    expect(observe(observation, seen(1, lease), 1_599).standing).toBe('live');
    expect(observe(observation, seen(1, lease), 1_600).standing).toBe('expired');
  });
});

describe('judgeRegistration', () => {
  const EXPECTED: readonly [
    state: 'absent' | 'held' | 'ended',
    process: 'alive' | 'dead' | 'unknown',
    standing: 'live' | 'expired',
    changed: boolean,
    plain: RegistrationDecision,
  ][] = [];
  for (const process of ['alive', 'dead', 'unknown'] as const) {
    for (const standing of ['live', 'expired'] as const) {
      for (const changed of [false, true]) {
        const table = EXPECTED as [unknown, unknown, unknown, unknown, unknown][];
        table.push(['absent', process, standing, changed, 'create']);
        table.push(['ended', process, standing, changed, 'replace']);
        let held: RegistrationDecision = standing === 'expired' ? 'replace' : 'watch';
        if (changed || process === 'alive') held = 'in-use';
        if (process === 'dead') held = 'replace';
        table.push(['held', process, standing, changed, held]);
      }
    }
  }

  it.each(EXPECTED)('%s record, %s process, %s, changed=%s: %s', (...row) => {
    const [state, process, standing, changed, plain] = row;
    const current = state === 'absent' ? undefined : { ...LEASE, state };
    const view = { current, process, standing, changed };
    expect(judgeRegistration(view, { supersede: false, replaces: [] })).toBe(plain);
    const taken = state === 'absent' ? 'create' : 'replace';
    expect(judgeRegistration(view, { supersede: true, replaces: [] })).toBe(taken);
    expect(judgeRegistration(view, { supersede: false, replaces: [INCARNATION] })).toBe(taken);
    const others = { supersede: false, replaces: ['f'.repeat(32)] };
    expect(judgeRegistration(view, others)).toBe(plain);
  });
});

describe('judgeHolder', () => {
  it('ends the dead and the expired, and nobody else', () => {
    expect(judgeHolder('dead', 'live')).toBe('end');
    expect(judgeHolder('alive', 'expired')).toBe('end');
    expect(judgeHolder('unknown', 'expired')).toBe('end');
    expect(judgeHolder('alive', 'live')).toBe('leave');
    expect(judgeHolder('unknown', 'live')).toBe('leave');
  });
});

describe('isSameProcess', () => {
  it('compares every part', () => {
    expect(isSameProcess(PROCESS, { ...PROCESS })).toBe(true);
    for (const key of ['bootId', 'hostName', 'pidNamespace', 'startTime'] as const) {
      expect(isSameProcess(PROCESS, { ...PROCESS, [key]: 'other' })).toBe(false);
    }
    expect(isSameProcess(PROCESS, { ...PROCESS, pid: 42 })).toBe(false);
  });
});

import { beforeEach, describe, expect, it } from 'vitest';
import { StarLease } from '../../../actors/lease.actor.ts';
import type { LossReason, StarLeaseOptions } from '../../../actors/lease.actor.ts';
import type { RegisterOptions } from '../../../actors/lease-registration.ts';
import { StarObserver } from '../../../actors/star-observer.ts';
import type { Clock, TimerHandle } from '../../../src/lib/clock.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { Prng } from '../../../src/lib/prng.ts';
import { SILENT_LOG } from '../../../src/ports/log.ts';
import type { ProcessIdentity, Processes } from '../../../src/ports/processes.ts';
import { encodeLease, ended, firstLease, parseLease } from '../../../src/protocol/lease.ts';
import type { StarLease as LeaseRecord } from '../../../src/protocol/lease.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { ScriptedMetastore } from '../../support/scripted-metastore.ts';

const KEY = 'stars/a';
const TIMEOUT = 10_000;
const BEAT = 2_000;
/** TIMEOUT × 1.1 + 500 */
const EXPIRY = 11_500;

let store: ScriptedMetastore;
let clock: ManualClock;
let random: Prng;
let nextPid = 100;
const dead = new Set<number>();
beforeEach(() => {
  store = new ScriptedMetastore();
  clock = new ManualClock();
  random = new Prng(7);
  dead.clear();
});

/** One process of a host: judges those of its own host, as the system does. */
function processOn(hostName: string): Processes {
  const self: ProcessIdentity = {
    bootId: `boot of ${hostName}`,
    hostName,
    pidNamespace: '1',
    pid: nextPid++,
    startTime: '1',
  };
  return {
    self: () => self,
    judge: (other) => {
      if (other.hostName !== hostName) return 'unknown';
      return dead.has(other.pid) ? 'dead' : 'alive';
    },
  };
}

/** The clock of one process: stopped, its timers never run. */
class ProcessClock implements Clock {
  isStopped = false;

  now(): number {
    return clock.now();
  }

  monotonic(): number {
    return clock.monotonic();
  }

  setTimeout(run: () => void, millis: number): TimerHandle {
    return clock.setTimeout(() => {
      if (!this.isStopped) run();
    }, millis);
  }

  clearTimeout(handle: TimerHandle): void {
    clock.clearTimeout(handle);
  }

  setImmediate(run: () => void): void {
    this.setTimeout(run, 0);
  }
}

interface Holder {
  readonly clock: ProcessClock;
  readonly lease: StarLease;
  readonly losses: LossReason[];
  readonly processes: Processes;
}

function holder(
  host = 'h1',
  options: Partial<StarLeaseOptions> = {},
  processes = processOn(host),
): Holder {
  const losses: LossReason[] = [];
  const own = new ProcessClock();
  const ports = { metastore: store, clock: own, random, processes, log: SILENT_LOG };
  const lease = new StarLease(ports, {
    star: 'a',
    timeoutMillis: TIMEOUT,
    onLost: (reason) => losses.push(reason),
    ...options,
  });
  return { lease, losses, processes, clock: own };
}

const record = (): LeaseRecord => parseLease(KEY, store.state.get(KEY)!.value);

async function registered(host = 'h1', options: RegisterOptions = {}): Promise<Holder> {
  const made = holder(host);
  await made.lease.register(options);
  return made;
}

/** Its process hangs, or is cut off: no more beats. */
function silence({ clock: own }: Holder): void {
  own.isStopped = true;
}

/** Its process is gone without a word. */
function crash(holder: Holder): void {
  silence(holder);
  dead.add(holder.processes.self().pid);
}

describe('a lease that is held', () => {
  it('is a record of its incarnation, address and process, bumped every fifth of the timeout', async () => {
    const { lease, processes } = holder('h1', { address: '10.0.0.1:1' });
    const incarnation = await lease.register();
    expect(record()).toMatchObject({
      incarnation,
      address: '10.0.0.1:1',
      timeoutMillis: TIMEOUT,
      beat: 0,
      state: 'held',
      process: processes.self(),
    });
    expect(lease.isHeld).toBe(true);
    await clock.advance(BEAT - 1);
    expect(record().beat).toBe(0);
    for (let beat = 1; beat <= 10; beat++) {
      await clock.advance(BEAT);
      expect(record()).toMatchObject({ incarnation, beat, state: 'held' });
    }
    expect(lease.incarnation).toBe(incarnation);
  });

  it('outlives a metastore that is away for almost its timeout, and lost answers', async () => {
    const { lease, losses } = await registered();
    store.constant.set('put', 'unavailable');
    await clock.advance(TIMEOUT - 1_500);
    store.constant.clear();
    await clock.advance(1_400);
    expect(lease.isHeld).toBe(true);
    store.fail(['put', 'lost-answer'], ['put', 'late']);
    await clock.advance(2 * TIMEOUT);
    expect(losses).toEqual([]);
    expect(lease.isHeld).toBe(true);
  });

  it('carries the round of the collector that was acknowledged', async () => {
    const { lease } = await registered();
    lease.acknowledgeRound(7);
    lease.acknowledgeRound(5);
    await clock.advance(BEAT);
    expect(record().collectorRound).toBe(7);
  });

  it('takes over an own bump that came through late', async () => {
    const { lease, losses } = await registered();
    const { version } = store.state.get(KEY)!;
    store.state.put(KEY, encodeLease({ ...record(), beat: 1 }), version);
    await clock.advance(2 * BEAT);
    expect(record().beat).toBeGreaterThanOrEqual(2);
    expect(losses).toEqual([]);
    expect(lease.isHeld).toBe(true);
  });
});

describe('a lease that is lost', () => {
  it('is lost a timeout after the send time of its last applied bump, once and for good', async () => {
    const { lease, losses } = await registered();
    await clock.advance(BEAT);
    store.constant.set('put', 'unavailable');
    await clock.advance(TIMEOUT - 2);
    expect([lease.isHeld, losses]).toEqual([true, []]);
    await clock.advance(2);
    expect([lease.isHeld, losses]).toEqual([false, ['expired']]);
    store.constant.clear();
    const { beat } = record();
    await clock.advance(10 * TIMEOUT);
    expect(losses).toEqual(['expired']);
    expect(lease.isHeld).toBe(false);
    expect(record().beat).toBe(beat);
  });

  it('counts a slow answer by when its bump was sent', async () => {
    const { lease, losses } = await registered();
    store.constant.set('put', 'hang');
    await clock.advance(TIMEOUT - 1);
    expect(lease.isHeld).toBe(true);
    await clock.advance(1);
    expect(losses).toEqual(['expired']);
  });

  it('counts a bump found out about late by when it was sent', async () => {
    const { lease, losses } = await registered();
    store.fail(['put', 'lost-answer']);
    store.constant.set('get', 'unavailable');
    await clock.advance(BEAT + 5_000);
    expect(record().beat).toBe(1);
    store.constant.clear();
    store.constant.set('put', 'unavailable');
    await clock.advance(TIMEOUT - 5_000 - 1);
    expect(lease.isHeld).toBe(true);
    await clock.advance(1);
    expect(losses).toEqual(['expired']);
  });

  it('is lost at once after a long pause, before any timer has run', async () => {
    const { lease, losses } = await registered();
    clock.jump(TIMEOUT);
    expect(lease.isHeld).toBe(false);
    await clock.advance(0);
    expect(losses).toEqual(['expired']);
    expect(record().beat).toBe(0);
  });

  it.each<[LossReason, () => void]>([
    [
      'replaced',
      () => {
        const other = { incarnation: 'f'.repeat(32), timeoutMillis: TIMEOUT };
        const lease = firstLease({ ...other, process: record().process }, '0'.repeat(16));
        store.state.put(KEY, encodeLease(lease), store.state.get(KEY)!.version);
      },
    ],
    [
      'ended',
      () => {
        store.state.put(KEY, encodeLease(ended(record())), store.state.get(KEY)!.version);
      },
    ],
    [
      'removed',
      () => {
        store.state.delete(KEY, store.state.get(KEY)!.version);
      },
    ],
  ])('learns at its next bump that it was %s', async (reason, happen) => {
    const { lease, losses } = await registered();
    happen();
    await clock.advance(BEAT);
    expect(losses).toEqual([reason]);
    expect(lease.isHeld).toBe(false);
    const after = store.state.get(KEY)?.version;
    await clock.advance(5 * TIMEOUT);
    expect(losses).toEqual([reason]);
    expect(store.state.get(KEY)?.version).toBe(after);
    expect(clock.pendingCount).toBe(0);
  });

  it('is ended by its own close, so that the same process can start again', async () => {
    const { lease, processes } = await registered();
    store.constant.set('put', 'unavailable');
    await clock.advance(TIMEOUT);
    store.constant.clear();
    await lease.end();
    expect(record().state).toBe('ended');
    await holder('h1', {}, processes).lease.register();
    expect(record().state).toBe('held');
  });
});

describe('ending a lease', () => {
  it('marks the record, so that the next start need not wait', async () => {
    const { lease, losses } = await registered();
    await clock.advance(BEAT);
    await lease.end();
    await lease.end();
    expect(record()).toMatchObject({ state: 'ended', beat: 1 });
    expect([lease.isHeld, losses]).toEqual([false, []]);
    expect(clock.pendingCount).toBe(0);
    const before = clock.monotonic();
    await registered('h2');
    expect(clock.monotonic()).toBe(before);
  });

  it('finds its record also when the last bump was still under way', async () => {
    const { lease, losses } = await registered();
    store.fail(['put', 'late'], ['get', 'hang']);
    await clock.advance(BEAT + 500);
    store.beforePut = () => {
      store.beforePut = undefined;
      store.applyLate();
    };
    await lease.end();
    expect(record()).toMatchObject({ state: 'ended', beat: 1 });
    expect(losses).toEqual([]);
  });

  it('leaves the record of a successor alone', async () => {
    const first = await registered();
    const second = await registered('h2', { supersede: true });
    await first.lease.end();
    expect(record()).toMatchObject({ incarnation: second.lease.incarnation, state: 'held' });
  });

  it('does not wait long for a metastore that is away', async () => {
    const { lease } = await registered();
    store.constant.set('get', 'unavailable').set('put', 'hang');
    let done = false;
    void lease.end().then(() => (done = true));
    await clock.advance(2_000);
    expect(done).toBe(true);
  });

  it('ends a registration whose answer was lost', async () => {
    const { lease } = holder();
    store.fail(['put', 'lost-answer']);
    store.beforePut = () => store.constant.set('get', 'hang');
    const controller = new AbortController();
    const registration = lease.register({ signal: controller.signal });
    registration.catch(() => undefined);
    await clock.advance(100);
    controller.abort();
    await expect(registration).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'possible' });
    store.beforePut = undefined;
    store.constant.clear();
    expect(record().state).toBe('held');
    await lease.end();
    expect(record().state).toBe('ended');
  });

  it('does nothing for a lease that was never registered', async () => {
    await holder().lease.end();
    expect(store.calls).toEqual([]);
  });
});

describe('registering', () => {
  it('refuses at once when the holder lives on this host', async () => {
    const first = await registered();
    const before = clock.monotonic();
    const error = await registered().catch((cause: unknown) => cause);
    expect(EngineError.is(error) && error.code).toBe('STAR_IN_USE');
    expect((error as EngineError).details).toMatchObject({
      star: 'a',
      hostName: 'h1',
      incarnation: first.lease.incarnation,
    });
    expect(clock.monotonic()).toBe(before);
  });

  it('takes over at once from a process of this host that is dead', async () => {
    const first = await registered();
    crash(first);
    const before = clock.monotonic();
    const second = await registered();
    expect(clock.monotonic()).toBe(before);
    expect(record().incarnation).toBe(second.lease.incarnation);
  });

  it('refuses when it sees the beat of a holder elsewhere', async () => {
    await registered('h1');
    const failure = holder('h2')
      .lease.register()
      .catch((cause: unknown) => (cause as EngineError).code);
    await clock.advance(BEAT + 250);
    expect(await failure).toBe('STAR_IN_USE');
  });

  it('watches a silent holder elsewhere for its timeout and a margin, then replaces it', async () => {
    const first = await registered('h1');
    silence(first);
    const { lease } = holder('h2');
    let done = false;
    void lease.register().then(() => (done = true));
    await clock.advance(EXPIRY - 250);
    expect(done).toBe(false);
    await clock.advance(250);
    expect(done).toBe(true);
    expect(record().incarnation).toBe(lease.incarnation);
  });

  it('tells a second engine of the same process by its beat, not by the process', async () => {
    const first = await registered('h1');
    const failure = holder('h1', {}, first.processes)
      .lease.register()
      .catch((cause: unknown) => (cause as EngineError).code);
    await clock.advance(BEAT + 250);
    expect(await failure).toBe('STAR_IN_USE');
  });

  it('replaces a silent engine of the same process, though the process lives', async () => {
    const first = await registered('h1');
    silence(first);
    const { lease } = holder('h1', {}, first.processes);
    void lease.register();
    await clock.advance(EXPIRY + 250);
    expect(record().incarnation).toBe(lease.incarnation);
  });

  it('treats a record that a late write brought back as a ghost for one wait', async () => {
    const first = await registered('h1');
    const ghost = store.state.get(KEY)!;
    silence(first);
    store.state.delete(KEY, ghost.version);
    store.state.put(KEY, ghost.value, 'absent');
    const { lease } = holder('h2');
    void lease.register();
    await clock.advance(EXPIRY + 250);
    expect(record().incarnation).toBe(lease.incarnation);
  });

  it('supersedes a live holder at once, who learns it at its next bump', async () => {
    const first = await registered('h1');
    const second = await registered('h2', { supersede: true });
    expect(record().incarnation).toBe(second.lease.incarnation);
    await clock.advance(BEAT);
    expect(first.losses).toEqual(['replaced']);
    expect(second.losses).toEqual([]);
  });

  it('replaces the incarnation that its own owner has lost', async () => {
    const first = await registered('h1');
    store.constant.set('put', 'unavailable');
    await clock.advance(TIMEOUT);
    store.constant.clear();
    const replaces = first.lease.incarnation;
    const second = await registered('h1', { replaces: [replaces] });
    expect(second.lease.incarnation).not.toBe(replaces);
    expect(record().incarnation).toBe(second.lease.incarnation);
  });

  it('lets one of several that come at once have it', async () => {
    const holders = ['h1', 'h2', 'h3', 'h4'].map((host) => holder(host));
    const results = Promise.allSettled(holders.map(({ lease }) => lease.register()));
    await clock.advance(2 * EXPIRY);
    const kinds = (await results).map((result) => result.status);
    expect(kinds.filter((kind) => kind === 'fulfilled')).toHaveLength(1);
    const winner = holders[kinds.indexOf('fulfilled')]!;
    expect(record().incarnation).toBe(winner.lease.incarnation);
    expect(winner.losses).toEqual([]);
  });

  it('does not count on a registration whose answer took a timeout', async () => {
    const { lease, losses } = holder('h1');
    store.fail(['put', 'lost-answer']);
    store.beforePut = () => store.constant.set('get', 'unavailable');
    void lease.register();
    await clock.advance(TIMEOUT + 1_000);
    const first = record().incarnation;
    store.beforePut = undefined;
    store.constant.clear();
    await clock.advance(3_000);
    expect(lease.isHeld).toBe(true);
    expect(lease.incarnation).not.toBe(first);
    expect(record()).toMatchObject({ incarnation: lease.incarnation, state: 'held' });
    expect(losses).toEqual([]);
  });

  it('fails when the metastore cannot be read', async () => {
    store.fail(['get', 'unavailable']);
    await expect(holder().lease.register()).rejects.toMatchObject({
      code: 'METASTORE_UNAVAILABLE',
    });
  });

  it('gives up with its signal', async () => {
    silence(await registered('h1'));
    const before = clock.pendingCount;
    const controller = new AbortController();
    const registration = holder('h2').lease.register({ signal: controller.signal });
    registration.catch(() => undefined);
    await clock.advance(1_000);
    controller.abort();
    await expect(registration).rejects.toMatchObject({ code: 'ABORTED' });
    expect(clock.pendingCount).toBeLessThanOrEqual(before);
  });

  it('names the key of a record that nobody understands', async () => {
    store.state.put(KEY, Buffer.from('{}'), 'absent');
    await expect(holder().lease.register()).rejects.toMatchObject({
      code: 'METASTORE_CORRUPT',
      details: { key: KEY },
    });
  });
});

describe('observing stars', () => {
  const observer = (host: string): StarObserver =>
    new StarObserver({
      metastore: store,
      clock,
      random,
      processes: processOn(host),
      log: SILENT_LOG,
    });

  it('tells absent, held and ended, and which incarnation', async () => {
    const eye = observer('h2');
    expect(await eye.look('a')).toEqual({ kind: 'absent' });
    const { lease } = await registered('h1');
    expect(await eye.look('a')).toMatchObject({ kind: 'held', lease: { beat: 0 } });
    expect(await eye.isRegistered('a', lease.incarnation)).toBe(true);
    expect(await eye.isRegistered('a', 'f'.repeat(32))).toBe(false);
    await lease.end();
    expect(await eye.look('a')).toMatchObject({ kind: 'ended' });
    expect(await eye.isRegistered('a', lease.incarnation)).toBe(false);
  });

  it('ends a record unchanged for its timeout and a margin, however rarely it looks', async () => {
    const first = await registered('h1');
    silence(first);
    const eye = observer('h2');
    expect((await eye.look('a')).kind).toBe('held');
    await clock.advance(EXPIRY - 1);
    expect((await eye.look('a')).kind).toBe('held');
    await clock.advance(1);
    expect((await eye.look('a')).kind).toBe('ended');
    expect(record()).toMatchObject({ state: 'ended', incarnation: first.lease.incarnation });
  });

  it('never ends one that is bumped', async () => {
    const { lease, losses } = await registered('h1');
    const eye = observer('h2');
    for (let i = 0; i < 50; i++) {
      expect((await eye.look('a')).kind).toBe('held');
      await clock.advance(1_700);
    }
    expect([lease.isHeld, losses]).toEqual([true, []]);
  });

  it('ends the record of a dead process of its host at once', async () => {
    const first = await registered('h1');
    crash(first);
    expect((await observer('h2').look('a')).kind).toBe('held');
    expect((await observer('h1').look('a')).kind).toBe('ended');
  });

  it('resolves within half a second of the death of a process of its host', async () => {
    const first = await registered('h1');
    let over = false;
    void observer('h1')
      .untilOver('a', first.lease.incarnation)
      .then(() => (over = true));
    await clock.advance(30_000);
    expect(over).toBe(false);
    dead.add(first.processes.self().pid);
    await clock.advance(500);
    expect(over).toBe(true);
  });

  it('is told by its watch at once when a record is ended, replaced or removed', async () => {
    for (const change of ['end', 'supersede', 'remove'] as const) {
      const first = await registered('h1', { supersede: true });
      const eye = observer('h2');
      eye.start();
      let over = false;
      void eye.untilOver('a', first.lease.incarnation).then(() => (over = true));
      await clock.advance(7_000);
      expect(over).toBe(false);
      const reads = store.calls.filter((call) => call === 'get').length;
      if (change === 'end') void first.lease.end();
      else if (change === 'supersede') void holder('h3').lease.register({ supersede: true });
      else store.state.delete(KEY, store.state.get(KEY)!.version);
      await clock.advance(0);
      expect(over).toBe(true);
      expect(store.calls.filter((call) => call === 'get').length - reads).toBeLessThan(5);
      eye.close();
      silence(first);
    }
  });

  it('is not woken by beats, and reads rarely while it waits', async () => {
    const { lease } = await registered('h1');
    const eye = observer('h2');
    eye.start();
    const controller = new AbortController();
    const waiting = eye.untilOver('a', lease.incarnation, controller.signal);
    await clock.advance(30_000);
    expect(store.calls.filter((call) => call === 'get').length).toBeLessThan(10);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' });
    eye.close();
  });

  it('counts the silence from the last beat it was told of, not from the first look after it', async () => {
    const first = await registered('h1');
    const eye = observer('h2');
    eye.start();
    await clock.advance(3_000);
    silence(first);
    await clock.advance(EXPIRY - 1_100);
    expect((await eye.look('a')).kind).toBe('held');
    await clock.advance(200);
    expect((await eye.look('a')).kind).toBe('ended');
    eye.close();
  });

  it('watches the others though one record cannot be understood', async () => {
    await store.put('stars/0', new TextEncoder().encode('{'), 'absent');
    const first = await registered('h1');
    silence(first);
    const eye = observer('h2');
    eye.start();
    await clock.advance(EXPIRY);
    expect((await eye.look('a')).kind).toBe('ended');
    await expect(eye.look('0')).rejects.toMatchObject({ code: 'METASTORE_CORRUPT' });
    eye.close();
  });

  it('does not believe an old read that shows fewer beats than it was told of', async () => {
    const { lease } = await registered('h1');
    const eye = observer('h2');
    eye.start();
    const old = store.state.get(KEY);
    store.stale.set(KEY, old);
    for (let i = 0; i < 10; i++) {
      await clock.advance(2_000);
      expect(await eye.look('a')).toMatchObject({ kind: 'held', lease: { beat: i + 1 } });
    }
    store.stale.clear();
    expect(lease.isHeld).toBe(true);
    eye.close();
  });

  it('yields to a holder that bumps at the last moment', async () => {
    const first = await registered('h1');
    silence(first);
    const eye = observer('h2');
    await eye.look('a');
    await clock.advance(EXPIRY);
    store.beforePut = () => {
      store.beforePut = undefined;
      const { version } = store.state.get(KEY)!;
      store.state.put(KEY, encodeLease({ ...record(), beat: 9 }), version);
    };
    expect(await eye.look('a')).toMatchObject({ kind: 'held', lease: { beat: 9 } });
    expect(record().state).toBe('held');
  });

  it('makes way for others that end the same record', async () => {
    const first = await registered('h1');
    crash(first);
    const looks = await Promise.all([1, 2, 3].map(() => observer('h1').look('a')));
    expect(looks.map((look) => look.kind)).toEqual(['ended', 'ended', 'ended']);
  });
});

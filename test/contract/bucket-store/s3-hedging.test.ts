/** Creations that are late and sent a second time: each answer stays true, and only few are sent. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { S3BucketStore } from '../../../src/adapters/s3/bucket-store.ts';
import { Metrics, type Counter } from '../../../src/lib/metrics.ts';
import { deferred } from '../../../src/lib/wait.ts';
import type { CreateOutcome } from '../../../src/ports/bucket-store.ts';
import type { Fault, SeenRequest } from '../../support/s3/fault-rules.ts';
import type { S3Server } from '../../support/s3/server.ts';
import { bytesOf, expectUnknown, headOf, pattern } from './contract.ts';
import { expectTrueOutcomes } from './races.ts';
import { s3Fixture, type S3Fixture } from './s3-fixture.ts';

const KEY = 'main/7/42';
const BODY = pattern(1, 3_000);
/** As many as the store wants to have seen before it calls one late. */
const ENOUGH = 48;

let fixture: S3Fixture;
let server: S3Server;
let store: S3BucketStore;
let runs = 0;

beforeEach(async () => {
  fixture = await s3Fixture({ timeoutMillis: 30_000 });
  server = fixture.server;
  // Where the machine is slow, creations before those of a test may use a budget up.
  store = await warm(await fixture.open({ hedgePercent: 100 }));
});
afterEach(() => fixture.dispose());

/** Lets it see how long creations take. */
async function warm(cold: S3BucketStore, sizeBytes = 100): Promise<S3BucketStore> {
  for (let index = 0; index < ENOUGH; index++) {
    const { kind } = await cold.createOnly(`warm/${runs++}`, pattern(index, sizeBytes));
    // On a slow machine one of them may be sent twice already.
    expect(['created', 'exists']).toContain(kind);
  }
  return cold;
}

const putOf =
  (key: string) =>
  (request: SeenRequest): boolean =>
    request.method === 'PUT' && request.key === key;

function once(fault: Fault, when: (request: SeenRequest) => boolean = putOf(KEY)): void {
  server.faults.add({ when, times: 1, fault });
}

const putsOf = (key: string): readonly SeenRequest[] =>
  server.requestsFor(key).filter(({ method }) => method === 'PUT');

async function bothArrived(): Promise<void> {
  await expect.poll(() => putsOf(KEY).length, { timeout: 20_000 }).toBe(2);
}

describe('a creation that is late', () => {
  it('is counted, and whether the second request had the answer', async () => {
    const metrics = new Metrics();
    const counted = await warm(await fixture.open({ hedgePercent: 100, metrics }));
    const [sent, decided] = ['bucket.hedges', 'bucket.hedgesDecided'].map((name) =>
      metrics.counter(name),
    ) as [Counter, Counter];
    const before = { sent: sent.value, decided: decided.value };
    const first = server.faults.hold(putOf(KEY));
    expect(await counted.createOnly(KEY, BODY)).toEqual({ kind: 'created' });
    first.release();
    expect(sent.value - before.sent).toBe(1);
    expect(decided.value - before.decided).toBe(1);
    const other = 'main/7/43';
    // The first one answers once the second has come.
    const slow = server.faults.hold(putOf(other));
    const second = server.faults.hold(putOf(other));
    const creating = counted.createOnly(other, BODY);
    await second.arrived;
    slow.release();
    expect(await creating).toEqual({ kind: 'created' });
    second.release();
    expect(sent.value - before.sent).toBe(2);
    expect(decided.value - before.decided).toBe(1);
  });

  it('is answered by the same request on another connection', async () => {
    const held = server.faults.hold(putOf(KEY));
    expect(await store.createOnly(KEY, BODY)).toEqual({ kind: 'created' });
    const [first, second, ...more] = putsOf(KEY);
    expect(more).toEqual([]);
    expect(second!.connection).not.toBe(first!.connection);
    expect(second!.headers['if-none-match']).toBe('*');
    expect(bytesOf(await store.readHead(KEY, 5_000))).toEqual(BODY);
    // What was given up arrives after all, and finds the object.
    held.release();
    await expect.poll(() => server.requestsFor(KEY)[0]!.status).toBe(412);
    expect(bytesOf(await store.readHead(KEY, 5_000))).toEqual(BODY);
  });

  it('gives the memory back only when neither request reads it any more', async () => {
    const sizeBytes = 16 << 20;
    await warm(store, (1 << 20) + 1);
    const until = deferred<void>();
    once({ kind: 'unread', until: until.promise });
    const bytes = new Uint8Array(sizeBytes).fill(1);
    expect(await store.createOnly(KEY, bytes)).toEqual({ kind: 'created' });
    expect(putsOf(KEY)).toHaveLength(2);
    bytes.fill(2);
    until.resolve();
    await expect.poll(() => server.arriving, { timeout: 20_000 }).toBe(0);
    expect(server.lateParts.every((part) => part.every((byte) => byte === 1))).toBe(true);
    const stored = server.bucket().objects.get(KEY)!;
    expect(stored.byteLength).toBe(sizeBytes);
    expect(stored.every((byte) => byte === 1)).toBe(true);
  });

  it('that was stored already is shown, not claimed', async () => {
    once({ kind: 'commit-then-stall' });
    const outcome = await store.createOnly(KEY, BODY);
    expect(outcome).toMatchObject({ kind: 'exists', sizeBytes: BODY.byteLength });
    expect(headOf(outcome)).toEqual(BODY.subarray(0, 256));
    expect(putsOf(KEY)).toHaveLength(2);
  });

  it('is decided by the second when the first fails', async () => {
    const gates = [deferred<void>(), deferred<void>()] as const;
    once({ kind: 'hold', until: gates[0].promise });
    once({ kind: 'hold', until: gates[1].promise });
    const creating = store.createOnly(KEY, BODY);
    await bothArrived();
    server.faults.clear();
    // A signature that is refused, where the other one would pass.
    server.clockOffMillis = 60 * 60_000;
    gates[0].resolve();
    await expect.poll(() => server.requestsFor(KEY)[0]!.status).toBe(403);
    server.clockOffMillis = 0;
    gates[1].resolve();
    expect(await creating).toEqual({ kind: 'created' });
  });

  it('is decided by the first when the second fails', async () => {
    const held = server.faults.hold(putOf(KEY));
    once({ kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' });
    const creating = store.createOnly(KEY, BODY);
    await expect.poll(() => server.requestsFor(KEY)[1]?.status, { timeout: 20_000 }).toBe(403);
    held.release();
    expect(await creating).toEqual({ kind: 'created' });
  });

  it.each<[string, Fault, Fault, 'refused' | 'unknown']>([
    [
      'refused by both',
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      'refused',
    ],
    [
      'refused once, and open once',
      { kind: 'answer', status: 500, code: 'InternalError', commit: true },
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      'unknown',
    ],
    [
      'refused once, and broken off once',
      { kind: 'commit-then-reset' },
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      'unknown',
    ],
  ])('and %s', async (_, late, early, kind) => {
    const until = deferred<void>();
    let puts = 0;
    const isFirst = (request: SeenRequest): boolean => putOf(KEY)(request) && ++puts === 1;
    server.faults.add({
      when: isFirst,
      times: 1,
      fault: { kind: 'late', until: until.promise, then: late },
    });
    once(early);
    const creating = store.createOnly(KEY, BODY);
    await expect.poll(() => server.requestsFor(KEY)[1]?.status, { timeout: 20_000 }).toBe(403);
    until.resolve();
    const outcome = await creating;
    expect(outcome.kind).toBe(kind);
    if (outcome.kind === 'unknown') expect(outcome.cause.sideEffects).toBe('possible');
  });

  it('is given up on both connections', async () => {
    server.faults.add({ when: putOf(KEY), fault: { kind: 'stall' } });
    const controller = new AbortController();
    const creating = store.createOnly(KEY, BODY, { signal: controller.signal });
    await bothArrived();
    controller.abort();
    expectUnknown(await creating, 'ABORTED');
    const isOpen = ({ connection }: SeenRequest): boolean => server.open.has(connection);
    await expect.poll(() => putsOf(KEY).filter(isOpen)).toEqual([]);
  });
});

describe('a second request', () => {
  /** Sends `count` creations, each of which waits that long, and answers how many were sent twice. */
  async function seconds(of: S3BucketStore, count: number, waitMillis: number): Promise<number> {
    const before = server.log.length;
    server.faults.add({ fault: { kind: 'delay', millis: waitMillis } });
    const keys = Array.from({ length: count }, () => `many/${runs++}`);
    await Promise.all(keys.map((key) => of.createOnly(key, BODY)));
    server.faults.clear();
    const puts = server.log.slice(before).filter(({ method }) => method === 'PUT');
    return puts.length - count;
  }

  it('is sent for one in twenty creations at most', async () => {
    const sparing = await warm(await fixture.open());
    const sent = await seconds(sparing, 160, 500);
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual((160 + ENOUGH) / 20);
  });

  it('is not sent while the bucket asks for fewer requests', async () => {
    once({ kind: 'answer', status: 503, code: 'SlowDown' }, () => true);
    await store.createOnly('throttled/1', BODY);
    expect(await seconds(store, 8, 150)).toBe(0);
  });

  it('is not sent where it is switched off, nor before it is known what is late', async () => {
    const off = await warm(await fixture.open({ hedgePercent: 0 }));
    expect(await seconds(off, 8, 150)).toBe(0);
    expect(await seconds(await fixture.open(), 8, 150)).toBe(0);
  });

  it('is not sent by the probe, which counts winners', async () => {
    const before = server.log.length;
    server.faults.add({ fault: { kind: 'delay', millis: 50 } });
    expect(await store.probe()).toEqual({ kind: 'accepted' });
    const puts = server.log.slice(before).filter(({ method }) => method === 'PUT');
    expect(puts).toHaveLength(4 * 17);
  });

  it('cuts a tail', async () => {
    const slowMillis = 60_000;
    let puts = 0;
    server.faults.add({
      when: ({ method }) => method === 'PUT' && ++puts % 100 === 50,
      fault: { kind: 'delay', millis: slowMillis },
    });
    // Every one of them ends, though some first requests are not answered within the time of a test.
    for (let index = 0; index < 300; index++) {
      const { kind } = await store.createOnly(`tail/${index}`, BODY);
      expect(['created', 'exists']).toContain(kind);
    }
  });
});

describe('any faults of both requests', () => {
  const late = { kind: 'delay', millis: 40 } as const;
  const fault = fc.constantFrom<Fault | undefined>(
    undefined,
    ...[late, late, late, late, late],
    { kind: 'drop' },
    { kind: 'commit-then-reset' },
    { kind: 'commit-then-stall' },
    { kind: 'stall' },
    { kind: 'truncate' },
    { kind: 'duplicate', afterMillis: 15 },
    { kind: 'answer', status: 409, code: 'ConditionalRequestConflict' },
    { kind: 'answer', status: 500, code: 'InternalError', commit: true },
    { kind: 'answer', status: 403, code: 'AccessDenied' },
    { kind: 'answer', status: 200, body: '<html></html>' },
  );

  it('leave each answer true', async () => {
    const eager = await warm(await fixture.open({ hedgePercent: 100, timeoutMillis: 400 }));
    const other = await fixture.open();
    let [run, twice] = [0, 0];
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fault, fault), { minLength: 1, maxLength: 3 }),
        async (steps) => {
          const key = `run/${run++}`;
          server.faults.clear();
          for (const one of steps.flat()) if (one !== undefined) once(one, putOf(key));
          const bodies = steps.map((_, index) => pattern(run * 10 + index, 400 + index));
          const outcomes: CreateOutcome[] = await Promise.all(
            bodies.map((body) => eager.createOnly(key, body)),
          );
          if (putsOf(key).length > steps.length) twice++;
          const stored = server.bucket().objects.get(key);
          expectTrueOutcomes(bodies, outcomes, stored);
          server.faults.clear();
          if (stored === undefined) return;
          // Also after what was given up has arrived.
          await new Promise((resolve) => setTimeout(resolve, 20));
          expect(Buffer.compare(bytesOf(await other.readHead(key, 1_000)), stored)).toBe(0);
        },
      ),
      { numRuns: 40 },
    );
    expect(twice).toBeGreaterThan(5);
  });
});

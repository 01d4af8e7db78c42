/** Departures and refusals in exact orders of events, under all checkers. */
import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/lib/errors.ts';
import { starKey } from '../../src/protocol/keys.ts';
import type { BucketFate } from '../../src/testing/bucket-fates.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { othersBlind } from './lies.ts';
import { play, type Running, type Scenario } from './scenario.ts';

const OLD = { kind: 'pass', staleMillis: 3_600_000 } as const;

type Departure = (scenario: Scenario, a: Running) => Promise<unknown>;

const DEPARTURES: Record<string, Departure> = {
  close: async (_, { engine }) => engine.close({ timeoutMillis: 60_000 }),
  handoff: async (_, { engine }) => engine.handoff('s', 'b', { timeoutMillis: 60_000 }),
  drain: async (_, { engine }) => engine.drain({ timeoutMillis: 60_000 }),
  roll: async (_, { engine }) => engine.roll({ timeoutMillis: 60_000 }),
};

const PUTS: Record<string, { readonly fate: BucketFate; readonly buckets: readonly number[] }> = {
  'fails in one bucket': { fate: { kind: 'refused' }, buckets: [0] },
  'is lost on its way everywhere': { fate: { kind: 'lost-request' }, buckets: [0, 1, 2] },
  'is stored but unanswered': { fate: { kind: 'lost-response' }, buckets: [0, 1, 2] },
  'hangs, stored in one bucket': { fate: { kind: 'hang', stored: true }, buckets: [0, 1] },
};

describe('N every departure, with a PUT in flight that', () => {
  const cases = Object.keys(PUTS).flatMap((put) =>
    Object.keys(DEPARTURES).map((departure) => [put, departure] as const),
  );

  it.each(cases)('%s: %s', async (put, departure) => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const b = await scenario.start('b');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const { fate, buckets } = PUTS[put]!;
      const rules = buckets.map((index) =>
        scenario.world.bucketScript.add({
          op: 'createOnly',
          process: a.process.name,
          target: `bucket-${index}`,
          fate,
        }),
      );
      const batch = scenario.append(a, stream);
      await scenario.wait(2);
      await DEPARTURES[departure]!(scenario, a);
      expect(await batch).toMatchObject({ kind: 'appended', start: 1 });
      expect(rules.every(({ hits }) => hits === 1)).toBe(true);
      if (departure === 'roll') {
        expect(await scenario.append(a, stream)).toMatchObject({ start: 2 });
        await stream.close();
      }
      const taken = await b.engine.open('s', { timeoutMillis: 1_000 });
      const next = await scenario.append(b, taken);
      expect(next).toMatchObject({ start: departure === 'roll' ? 3 : 2 });
    });
  });

  it.each(Object.keys(DEPARTURES))('meets poison: %s', async (departure) => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      const b = await scenario.start('b');
      const stream = await scenario.open(a, 's');
      const other = await scenario.open(a, 'other');
      await scenario.append(a, stream);
      await scenario.append(a, other);
      const held = new Gate(scenario.world.scheduler, 'held');
      scenario.world.bucketScript.add({
        op: 'createOnly',
        process: a.process.name,
        times: 3,
        fate: { kind: 'pass', requestGate: held },
      });
      const batch = scenario.append(a, stream);
      await scenario.wait(20);
      // b takes the stream while a's flight is on its way: the flight meets poison.
      const taken = await scenario.open(b, 's');
      const left = DEPARTURES[departure]!(scenario, a).catch((error: unknown) => error);
      await scenario.wait(20);
      held.open();
      const outcome = await left;
      if (outcome instanceof EngineError) expect(outcome.kind).not.toBe('internal');
      expect(await batch).toMatchObject({ kind: 'failed', code: 'FENCED' });
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      if (departure === 'roll' || departure === 'handoff') {
        expect(await scenario.append(a, other)).toMatchObject({ start: 1 });
      } else {
        const both = await b.engine.open('other', { timeoutMillis: 30_000 });
        expect(await scenario.append(b, both)).toMatchObject({ start: 1 });
      }
    });
  });
});

/** What an append with a condition that cannot hold answers. */
async function refusal(stream: Awaited<ReturnType<Scenario['open']>>): Promise<EngineError> {
  const error: unknown = await stream
    .append([{ body: 'refused' }], { matchSeqNum: 99, timeoutMillis: 20_000 })
    .catch((cause: unknown) => cause);
  if (EngineError.is(error)) return error;
  throw new Error(`no refusal: ${String(error)}`);
}

describe('L a rejection', () => {
  it('by a leader that slept while a successor led is none', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      a.process.pause();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      await scenario.append(b, taken, { records: 3 });
      a.process.wake();
      const error = await refusal(stream);
      expect(error).toMatchObject({ code: 'REJECTION_UNCONFIRMED', sideEffects: 'none' });
      expect(error.retryable).toBe(true);
      expect(await refusal(taken)).toMatchObject({
        code: 'SEQ_NUM_MISMATCH',
        details: { expected: 4 },
      });
    });
  });

  it('is answered the same by a metastore that serves old reads', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      scenario.world.metaScript.add({
        op: ['get', 'lastChild', 'floor', 'children'],
        process: a.process.name,
        key: /^(streams|chains|names)\//,
        times: 1_000,
        fate: OLD,
      });
      expect(await refusal(stream)).toMatchObject({
        code: 'SEQ_NUM_MISMATCH',
        details: { expected: 1 },
      });
      expect(await scenario.checkTail(a, stream)).toEqual({ kind: 'tail', tail: 1 });
    });
  });

  it('is answered truly or not at all when the lease record is ended under the leader', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a', { sessionTimeoutMillis: 10_000 });
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream);
      const outside = scenario.world.spawn('operator').ports.metastore;
      const entry = await outside.get(starKey('a'));
      const lease = JSON.parse(Buffer.from(entry!.value).toString()) as object;
      const ended = Buffer.from(JSON.stringify({ ...lease, state: 'ended' }));
      await outside.put(starKey('a'), ended, entry!.version);
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken, { records: 2 })).toMatchObject({ start: 1 });
      // a may not know yet: what it says was true after it was asked, or it says nothing.
      const tail = await scenario.checkTail(a, stream, 20_000);
      if (tail.kind === 'tail') expect(tail.tail).toBe(3);
      const error = await refusal(stream);
      if (error.code === 'SEQ_NUM_MISMATCH') expect(error.details['expected']).toBe(3);
      else expect(error.sideEffects).toBe('none');
    });
  });
});

describe('K the token', () => {
  it.each(['kill', 'close', 'cut off'])('survives a change of star by %s', async (how) => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await stream.fence('A', { timeoutMillis: 20_000 });
      await scenario.append(a, stream);
      if (how === 'cut off') {
        // The newer token reaches one bucket only before its star dies: the fence completes it.
        for (const target of ['bucket-1', 'bucket-2']) {
          scenario.world.bucketScript.add({
            op: 'createOnly',
            process: a.process.name,
            target,
            fate: { kind: 'lost-request' },
            times: 50,
          });
        }
        void stream.fence('B').catch(() => undefined);
        await scenario.wait(30);
      }
      if (how === 'close') await a.engine.close({ timeoutMillis: 10_000 });
      else a.process.crash();
      const b = await scenario.start('b');
      const token = how === 'cut off' ? 'B' : 'A';
      await scenario.open(b, 's');
      const wrong: unknown = await b.engine
        .open('s', { fencingToken: 'wrong', timeoutMillis: 20_000 })
        .catch((error: unknown) => error);
      expect(wrong).toMatchObject({
        code: 'FENCING_TOKEN_MISMATCH',
        details: { fencingToken: token },
      });
      const right = await b.engine.open('s', { fencingToken: token, timeoutMillis: 20_000 });
      expect(await scenario.append(b, right)).toMatchObject({ start: how === 'cut off' ? 3 : 2 });
    });
  });
});

describe('N coverage without a mark, and a mark without coverage', () => {
  it('a star that dies between the mark and the release is settled, not trusted', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream, { records: 3 });
      const held = new Gate(scenario.world.scheduler, 'released');
      scenario.world.metaScript.add({
        op: 'put',
        process: a.process.name,
        key: '/writer',
        fate: { kind: 'pass', requestGate: held },
      });
      void stream.close().catch(() => undefined);
      await scenario.until(() => held.waiting > 0, 'the release');
      a.process.crash();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 3 });
      // The release of the dead arrives now: its condition does not hold any more.
      held.open();
      await scenario.wait(1_000);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 4 });
    });
  });

  it('a star that dies between the rows and the mark is settled too', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const stream = await scenario.open(a, 's');
      await scenario.append(a, stream, { records: 3 });
      const held = new Gate(scenario.world.scheduler, 'mark');
      scenario.world.metaScript.add({
        op: 'put',
        process: a.process.name,
        key: '/refs/',
        skip: 1,
        fate: { kind: 'pass', requestGate: held },
      });
      void stream.close().catch(() => undefined);
      await scenario.until(() => held.waiting > 0, 'the mark');
      a.process.crash();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 3 });
      held.open();
      await scenario.wait(1_000);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 4 });
    });
  });
});

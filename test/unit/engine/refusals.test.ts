/** Buckets that refuse until somebody helps: who only looks ends at once, who has promised something tries on. */
import { expect, onTestFinished, test } from 'vitest';
import { openReadOnly } from '../../../src/engine/read-only.ts';
import type { ReadOnlyEngine } from '../../../src/engine/api.ts';
import { EngineError } from '../../../src/index.ts';
import { EXISTS_HEAD_BYTES, type BucketStore } from '../../../src/ports/bucket-store.ts';
import { resolveSettings } from '../../../src/protocol/settings.ts';
import { bodiesOf, EngineWorld, errorOf } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

const REFUSAL = new EngineError('BUCKET_REFUSED', 'signature does not match', {
  details: { setting: 'secretAccessKey' },
});
const BUSY = new EngineError('BUCKET_UNAVAILABLE', 'bucket asks for fewer requests');
const ENOUGH = { timeoutMillis: 60_000 };

/** What a bucket answers instead of what was asked, if anything. */
type Mood = (index: number, args: readonly unknown[]) => EngineError | undefined;

/** Buckets of which every call but `probe` and `close` fails as `mood` says. */
function moody(world: EngineWorld): { mood: Mood; calls: number } {
  const state: { mood: Mood; calls: number } = { mood: () => undefined, calls: 0 };
  world.wrap = (bucket, index): BucketStore =>
    new Proxy(bucket, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => {
          const cause = name === 'close' || name === 'probe' ? undefined : state.mood(index, args);
          if (cause === undefined)
            return (member as (...a: unknown[]) => unknown).apply(target, args);
          state.calls++;
          const refused = name === 'createOnly' && cause === REFUSAL;
          const outcome = { kind: refused ? 'refused' : 'unknown', cause };
          return Promise.resolve(
            name === 'deleteMany' ? (args[0] as string[]).map(() => outcome) : outcome,
          );
        };
      },
    });
  return state;
}

function readerOf(world: EngineWorld): ReadOnlyEngine {
  const ports = world.ports();
  const reader = openReadOnly(ports, resolveSettings({}, 3), () => Promise.resolve());
  onTestFinished(() => reader.close());
  return reader;
}

/** One record in an epoch that nobody has ended. */
async function abandoned(world: EngineWorld): Promise<void> {
  const engine = await world.open({ copyQuorum: 2 });
  await (await engine.open('orders')).append([{ body: 'kept' }]);
  await engine.kill();
}

async function readAll(reader: ReadOnlyEngine): Promise<string[]> {
  return bodiesOf({ read: () => reader.read('orders') });
}

test('a reader ends with what refuses, and does not take it for an end of the stream', async () => {
  const world = new EngineWorld(3);
  await abandoned(world);
  const buckets = moody(world);
  const reader = readerOf(world);
  expect(await readAll(reader)).toEqual(['kept']);
  buckets.mood = (index) => (index > 0 ? REFUSAL : undefined);
  expect(await errorOf(readAll(reader))).toBe(REFUSAL);
  // The wave of slots in two buckets, once.
  expect(buckets.calls).toBeLessThanOrEqual(2 * 16);
  expect(await errorOf(reader.slots(0))).toBe(REFUSAL);
  buckets.mood = (index) => (index === 1 ? REFUSAL : undefined);
  expect(await readAll(reader)).toEqual(['kept']);
  expect((await reader.slots(0))[0]).toMatchObject({ slot: 0, verdict: 'committed' });
});

test('a copy that nobody shows now is not taken for none: two of three buckets may have been all there was', async () => {
  const world = new EngineWorld(3);
  const buckets = moody(world);
  const engine = await world.start({ copyQuorum: 2 });
  const stream = await engine.open('orders');
  await stream.append([{ body: 'everywhere' }]);
  buckets.mood = (index) => (index === 2 ? REFUSAL : undefined);
  await stream.append([{ body: 'in two' }]);
  await engine.kill();
  const reader = readerOf(world);
  buckets.mood = () => undefined;
  expect(await readAll(reader)).toEqual(['everywhere', 'in two']);
  buckets.mood = (index) => (index === 1 ? REFUSAL : undefined);
  expect(await errorOf(readAll(reader))).toBe(REFUSAL);
  // Who looks at slots is told what there is to see.
  const [, partial] = await reader.slots(0);
  expect(partial).toMatchObject({ slot: 1, verdict: 'partial', copies: 1 });
  buckets.mood = (index) => (index === 1 ? BUSY : undefined);
  expect(await errorOf(readAll(reader))).toMatchObject({ code: 'BUCKET_UNAVAILABLE', cause: BUSY });
});

test('a flight that is there and of which no head can be read is no end either', async () => {
  const world = new EngineWorld(3);
  await abandoned(world);
  const buckets = moody(world);
  const reader = readerOf(world);
  buckets.mood = (_, [, lengthBytes]) =>
    (lengthBytes as number) > EXISTS_HEAD_BYTES ? REFUSAL : undefined;
  expect(await errorOf(readAll(reader))).toBe(REFUSAL);
  buckets.mood = (_, [, lengthBytes]) =>
    (lengthBytes as number) > EXISTS_HEAD_BYTES && buckets.calls < 6 ? BUSY : undefined;
  expect(await readAll(reader)).toEqual(['kept']);
});

test('a reader asks again where buckets are busy, and says so when they stay so', async () => {
  const world = new EngineWorld(3);
  await abandoned(world);
  const buckets = moody(world);
  const reader = readerOf(world);
  buckets.mood = () => (buckets.calls < 3 * 16 ? BUSY : undefined);
  expect(await readAll(reader)).toEqual(['kept']);
  buckets.mood = () => BUSY;
  const error = await errorOf(readAll(reader));
  expect(error).toMatchObject({ code: 'BUCKET_UNAVAILABLE', retryable: true, cause: BUSY });
  expect(await errorOf(reader.slots(0))).toMatchObject({ cause: BUSY });
});

test('a writer goes on after refusals: nothing is lost, no epoch ends', async () => {
  const world = new EngineWorld(3);
  const buckets = moody(world);
  const engine = await world.start();
  const stream = await engine.open('orders');
  await stream.append([{ body: 'before' }]);
  buckets.mood = () => REFUSAL;
  const waiting = stream.append([{ body: 'meanwhile' }], ENOUGH);
  const tail = stream.checkTail(ENOUGH);
  const begun = buckets.calls;
  // Each bucket was asked several times.
  await eventually(() => expect(buckets.calls - begun).toBeGreaterThan(12));
  buckets.mood = () => undefined;
  expect((await waiting).start.seqNum).toBe(1);
  await tail;
  expect(await bodiesOf(stream)).toEqual(['before', 'meanwhile']);
  expect(engine.metrics().counters['epoch.rolls']).toBeUndefined();
  expect((await engine.status()).epoch).toBe(0);
});

test('a fence and a settlement wait for who refuses, say what it is, and go on', async () => {
  const world = new EngineWorld(3);
  await abandoned(world);
  const buckets = moody(world);
  const engine = await world.start();
  // Identities are shown first.
  buckets.mood = (index) => (index > 0 ? REFUSAL : undefined);
  await engine.recovered({ timeoutMillis: 1 }).catch(() => undefined);
  await eventually(async () => {
    const error = await errorOf(engine.open('orders', { timeoutMillis: 500 }));
    expect(error).toMatchObject({ code: 'FENCE_UNDECIDED', cause: REFUSAL });
  });
  buckets.mood = () => undefined;
  const stream = await engine.open('orders', ENOUGH);
  expect(await bodiesOf(stream)).toEqual(['kept']);
});

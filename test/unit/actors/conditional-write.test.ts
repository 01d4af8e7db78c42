import { beforeEach, describe, expect, it } from 'vitest';
import { conditionalDelete, conditionalPut } from '../../../actors/conditional-write.ts';
import { ensureMetastoreId } from '../../../actors/metastore-id.ts';
import { EngineError } from '../../../src/lib/errors.ts';
import { Prng } from '../../../src/lib/prng.ts';
import type { WaitOptions } from '../../../src/lib/wait.ts';
import type { MetaVersion, PutResult } from '../../../src/ports/metastore.ts';
import { attemptOf, encodeRecordValue } from '../../../src/protocol/records.ts';
import { ManualClock, settle } from '../../support/manual-clock.ts';
import { ScriptedMetastore } from '../../support/scripted-metastore.ts';

const KEY = 'chains/a';

let store: ScriptedMetastore;
let clock: ManualClock;
let random: Prng;
beforeEach(() => {
  store = new ScriptedMetastore();
  clock = new ManualClock();
  random = new Prng(1);
});

/** Runs a call to its end, letting as much time pass as it waits. */
async function finish<T>(call: Promise<T>): Promise<T> {
  const state = { done: false };
  const watched = call.finally(() => (state.done = true));
  watched.catch(() => undefined);
  for (let i = 0; i < 200 && !state.done; i++) await clock.advance(i === 0 ? 0 : 100);
  return watched;
}

const put = (
  who: string,
  expected: MetaVersion | 'absent' = 'absent',
  options: WaitOptions = {},
): Promise<PutResult> =>
  conditionalPut(
    store,
    { key: KEY, expected, encode: (attempt) => encodeRecordValue({ who, attempt }) },
    { clock, random, ...options },
  );

const stored = (): string | undefined => {
  const entry = store.state.get(KEY);
  if (entry === undefined) return undefined;
  return (JSON.parse(Buffer.from(entry.value).toString()) as { who: string }).who;
};

describe('conditionalPut', () => {
  it('writes once when all is well', async () => {
    expect(await put('me')).toEqual({ kind: 'applied', version: 1 });
    expect(store.calls).toEqual(['put']);
  });

  it('answers a conflict with the entry that stands in the way', async () => {
    await put('other');
    expect(await put('me')).toMatchObject({ kind: 'conflict', current: { version: 1 } });
    expect(store.calls).toEqual(['put', 'put']);
    expect(stored()).toBe('other');
  });

  it('knows its own write again after the answer was lost', async () => {
    store.fail(['put', 'lost-answer']);
    expect(await finish(put('me'))).toEqual({ kind: 'applied', version: 1 });
    expect(store.calls).toEqual(['put', 'get']);
  });

  it('knows its own write again in a conflict', async () => {
    store.fail(['put', 'lost-answer']);
    // An isolated leader answers the read from before the write.
    store.stale.set(KEY, undefined);
    expect(await finish(put('me'))).toEqual({ kind: 'applied', version: 1 });
    expect(store.calls).toEqual(['put', 'get', 'put']);
  });

  it('tries an unknown write again with the same attempt and the same condition', async () => {
    const version = (await put('before')) as { version: MetaVersion };
    store.fail(['put', 'late'], ['put', 'late'], ['put', 'unavailable']);
    expect(await finish(put('me', version.version))).toEqual({ kind: 'applied', version: 2 });
    // What was under way arrives now: it is the same write, and its condition is gone.
    store.applyLate();
    expect(store.state.get(KEY)?.version).toBe(2);
    expect(stored()).toBe('me');
  });

  it('is applied exactly once when the unknown write arrives during the retries', async () => {
    store.fail(['put', 'late']);
    store.beforePut = () => store.applyLate();
    expect(await finish(put('me'))).toEqual({ kind: 'applied', version: 1 });
    expect(store.state.get(KEY)?.version).toBe(1);
  });

  it('answers a conflict when another overwrote what may have been its write', async () => {
    store.fail(['put', 'lost-answer']);
    let puts = 0;
    store.beforePut = () => {
      puts++;
    };
    const mine = put('me');
    await settle();
    store.state.put(KEY, encodeRecordValue({ who: 'other', attempt: 'f'.repeat(16) }), 1);
    expect(await finish(mine)).toMatchObject({ kind: 'conflict', current: { version: 2 } });
    expect(puts).toBe(2);
  });

  it('takes no conflict from a read alone: it may be stale', async () => {
    const first = (await put('first')) as { version: MetaVersion };
    const stale = store.state.get(KEY);
    const second = (await put('second', first.version)) as { version: MetaVersion };
    store.stale.set(KEY, stale);
    store.fail(['put', 'late']);
    expect(await finish(put('me', second.version))).toEqual({ kind: 'applied', version: 3 });
  });

  it('waits through unavailability, with growing pauses', async () => {
    store.constant.set('put', 'unavailable');
    const call = put('me');
    const countAfter = async (millis: number): Promise<number> => {
      await clock.advance(millis);
      return store.calls.filter((name) => name === 'put').length;
    };
    const early = await countAfter(1_000);
    const late = (await countAfter(10_000)) - early;
    expect(early).toBeGreaterThanOrEqual(5);
    expect(late).toBeLessThan(12);
    store.constant.clear();
    expect(await finish(call)).toEqual({ kind: 'applied', version: 1 });
  });

  it.each([
    ['unavailable', 'none'],
    ['late', 'possible'],
  ] as const)('gives up at its deadline: %s leaves %s', async (fault, sideEffects) => {
    store.constant.set('put', fault);
    await expect(finish(put('me', 'absent', { timeoutMillis: 500 }))).rejects.toMatchObject({
      code: 'DEADLINE_EXCEEDED',
      sideEffects,
    });
    expect(clock.pendingCount).toBe(0);
  });

  it('gives up with its signal, also while a call hangs', async () => {
    store.fail(['put', 'late'], ['get', 'hang']);
    const controller = new AbortController();
    const call = put('me', 'absent', { signal: controller.signal });
    await clock.advance(100);
    controller.abort();
    await expect(call).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'possible' });
    expect(clock.pendingCount).toBe(0);
    const signal = AbortSignal.abort();
    await expect(put('me', 'absent', { signal })).rejects.toMatchObject({ code: 'ABORTED' });
  });

  it('passes on what retries do not cure, and what may be left behind', async () => {
    store.fail(['put', 'late']);
    const call = put('me');
    call.catch(() => undefined);
    await settle();
    await store.close();
    await clock.advance(100);
    await expect(call).rejects.toMatchObject({ code: 'CLOSED', sideEffects: 'possible' });
    await expect(put('me')).rejects.toMatchObject({ code: 'CLOSED', sideEffects: 'none' });
  });

  it('uses a fresh attempt id for every decision', async () => {
    await put('one');
    const first = attemptOf(store.state.get(KEY)!.value);
    await put('two', 1);
    expect(attemptOf(store.state.get(KEY)!.value)).not.toBe(first);
    expect(first).toMatch(/^[0-9a-f]{16}$/);
  });
});

describe('conditionalDelete', () => {
  const remove = (expected: MetaVersion): ReturnType<typeof conditionalDelete> =>
    conditionalDelete(store, { key: KEY, expected }, { clock, random });

  it('deletes what it names, and takes an entry that is gone for deleted', async () => {
    await put('me');
    expect(await remove(1)).toEqual({ kind: 'deleted' });
    expect(await remove(1)).toEqual({ kind: 'deleted' });
  });

  it('finds out after a lost answer', async () => {
    await put('me');
    store.fail(['delete', 'lost-answer']);
    expect(await finish(remove(1))).toEqual({ kind: 'deleted' });
  });

  it('leaves another version alone, also after an unknown outcome', async () => {
    await put('me');
    store.fail(['delete', 'late']);
    const call = remove(1);
    await settle();
    store.state.put(KEY, encodeRecordValue({ who: 'other' }), 1);
    expect(await finish(call)).toMatchObject({ kind: 'conflict', current: { version: 2 } });
    store.applyLate();
    expect(stored()).toBe('other');
  });
});

describe('ensureMetastoreId', () => {
  const ensure = (): Promise<string> => ensureMetastoreId({ metastore: store, clock, random });

  it('chooses an id once and finds it ever after', async () => {
    const id = await ensure();
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(await ensure()).toBe(id);
    expect((await store.children('')).map((entry) => entry.key)).toEqual(['metastore/id']);
  });

  it('agrees among all who come at once, whatever answers are lost', async () => {
    store.fail(['put', 'lost-answer'], ['put', 'late']);
    const ids = await finish(Promise.all([ensure(), ensure(), ensure(), ensure()]));
    expect(new Set(ids).size).toBe(1);
    store.applyLate();
    expect(await ensure()).toBe(ids[0]);
  });

  it('names the key of a value that nobody understands', async () => {
    store.state.put('metastore/id', Buffer.from('{"metastore":7}'), 'absent');
    const error = await ensure().catch((cause: unknown) => cause);
    expect(EngineError.is(error) && error.code).toBe('METASTORE_CORRUPT');
    expect(String(error)).toContain('key=metastore/id');
  });
});

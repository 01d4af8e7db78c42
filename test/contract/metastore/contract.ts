/** What every metastore must keep, whatever it is made of. */
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EngineError } from '../../../src/lib/errors.ts';
import { META_VALUE_BYTES_MAX } from '../../../src/ports/metastore.ts';
import type {
  MetaEntry,
  MetaVersion,
  MetaWatchEvent,
  Metastore,
  PutResult,
} from '../../../src/ports/metastore.ts';

/** Two handles on the same, empty store. */
export interface MetastorePair {
  readonly first: Metastore;
  readonly second: Metastore;
  dispose(): Promise<void>;
}

export function metastoreContract(name: string, make: () => Promise<MetastorePair>): void {
  describe(`${name} keeps the metastore contract`, () => {
    let pair: MetastorePair;
    let store: Metastore;
    beforeEach(async () => {
      pair = await make();
      store = pair.first;
    });
    afterEach(() => pair.dispose());

    describe('conditional writes', () => conditionalWrites(() => pair));
    describe('arguments', () => argumentsAreChecked(() => store));
    describe('ranges', () => ranges(() => store));
    describe('watches', () => watches(() => pair));
    describe('giving up and closing', () => givingUp(() => pair));
  });
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (entry: MetaEntry | undefined): string | undefined =>
  entry === undefined ? undefined : new TextDecoder().decode(entry.value);

async function applied(
  store: Metastore,
  key: string,
  value: string,
  expected: MetaVersion | 'absent' = 'absent',
): Promise<MetaVersion> {
  const result = await store.put(key, bytes(value), expected);
  if (result.kind !== 'applied') throw new Error(`conflict at ${key}`);
  return result.version;
}

function codeOf(error: unknown): string {
  return (error as EngineError).code;
}

function conditionalWrites(getPair: () => MetastorePair): void {
  it('creates only what is absent', async () => {
    const { first, second } = getPair();
    expect(await first.get('a/b')).toBeUndefined();
    const version = await applied(first, 'a/b', 'one');
    expect(await second.get('a/b')).toEqual({ key: 'a/b', value: bytes('one'), version });
    const conflict = await second.put('a/b', bytes('two'), 'absent');
    expect(conflict).toEqual({
      kind: 'conflict',
      current: { key: 'a/b', value: bytes('one'), version },
    });
    expect(textOf(await first.get('a/b'))).toBe('one');
  });

  it('replaces exactly the version it names', async () => {
    const { first } = getPair();
    const one = await applied(first, 'k', 'one');
    const two = await applied(first, 'k', 'two', one);
    expect(two).not.toBe(one);
    const late = await first.put('k', bytes('late'), one);
    expect(late).toMatchObject({ kind: 'conflict', current: { version: two } });
    expect(textOf(await first.get('k'))).toBe('two');
  });

  it('never creates when it names a version', async () => {
    const { first } = getPair();
    const version = await applied(first, 'elsewhere', 'x');
    expect(await first.put('k', bytes('one'), version)).toEqual({
      kind: 'conflict',
      current: undefined,
    });
    expect(await first.get('k')).toBeUndefined();
  });

  it('deletes exactly the version it names', async () => {
    const { first, second } = getPair();
    const one = await applied(first, 'k', 'one');
    const two = await applied(first, 'k', 'two', one);
    expect(await first.delete('k', one)).toMatchObject({
      kind: 'conflict',
      current: { version: two },
    });
    expect(await second.delete('k', two)).toEqual({ kind: 'deleted' });
    expect(await first.get('k')).toBeUndefined();
    expect(await first.delete('k', two)).toEqual({ kind: 'conflict', current: undefined });
  });

  it('never uses a version of a key again, not even after deletes', async () => {
    const { first, second } = getPair();
    const seen = new Set<MetaVersion>();
    let expected: MetaVersion | 'absent' = 'absent';
    for (let round = 0; round < 20; round++) {
      const writer = round % 2 === 0 ? first : second;
      const version: MetaVersion = await applied(writer, 'k', `${round}`, expected);
      expect(seen.has(version)).toBe(false);
      for (const old of seen) {
        expect(await first.put('k', bytes('ghost'), old)).toMatchObject({ kind: 'conflict' });
      }
      seen.add(version);
      expected = version;
      if (round % 3 === 0) {
        await writer.delete('k', version);
        expected = 'absent';
      }
    }
  });

  it('lets exactly one of many racing writers win, and shows the others the winner', async () => {
    const { first, second } = getPair();
    let expected: MetaVersion | 'absent' = 'absent';
    for (let round = 0; round < 5; round++) {
      const condition: MetaVersion | 'absent' = expected;
      const results: readonly PutResult[] = await Promise.all(
        Array.from({ length: 32 }, (_, i) =>
          (i % 2 === 0 ? first : second).put('k', bytes(`${round}/${i}`), condition),
        ),
      );
      const winners = results.filter((result) => result.kind === 'applied');
      expect(winners).toHaveLength(1);
      const { version } = winners[0]!;
      for (const result of results) {
        if (result.kind === 'conflict') expect(result.current?.version).toBe(version);
      }
      expected = version;
    }
  });

  it('loses no update of racing read-modify-write loops', async () => {
    const { first, second } = getPair();
    const version = await applied(first, 'counter', '0');
    const increment = async (store: Metastore): Promise<void> => {
      let current: MetaEntry | undefined = { key: 'counter', value: bytes('0'), version };
      for (let i = 0; i < 10;) {
        const next: string = String(Number(textOf(current)) + 1);
        const result: PutResult = await store.put('counter', bytes(next), current!.version);
        if (result.kind === 'applied') i++;
        current =
          result.kind === 'conflict'
            ? result.current
            : { key: 'counter', value: bytes(next), version: result.version };
      }
    };
    await Promise.all([first, second, first, second].map(increment));
    expect(textOf(await first.get('counter'))).toBe('40');
  });

  it('shows an acknowledged write to every handle at once', async () => {
    const { first, second } = getPair();
    let version: MetaVersion | 'absent' = 'absent';
    for (let i = 0; i < 50; i++) {
      version = await applied(first, 'streams/x/writer', `${i}`, version);
      if (i % 2 === 0) await second.barrier('streams/x');
      expect(textOf(await second.get('streams/x/writer'))).toBe(`${i}`);
    }
  });

  it('keeps bytes apart from the memory of its callers', async () => {
    const { first } = getPair();
    const value = bytes('one');
    const put = first.put('k', value, 'absent');
    value.fill(0);
    await put;
    const entry = await first.get('k');
    expect(textOf(entry)).toBe('one');
    entry!.value.fill(0);
    expect(textOf(await first.get('k'))).toBe('one');
    const conflict = await first.put('k', bytes('x'), 'absent');
    if (conflict.kind === 'conflict') conflict.current!.value.fill(0);
    expect(textOf(await first.get('k'))).toBe('one');
  });
}

function argumentsAreChecked(getStore: () => Metastore): void {
  it('takes values from nothing to the limit, and refuses larger ones', async () => {
    const store = getStore();
    for (const size of [0, 1, 4_095, 4_096, META_VALUE_BYTES_MAX]) {
      const value = new Uint8Array(size).fill(7);
      await store.put(`size/${size}`, value, 'absent');
      const found = (await store.get(`size/${size}`))!.value;
      expect(Buffer.compare(found, value)).toBe(0);
    }
    const tooLarge = new Uint8Array(META_VALUE_BYTES_MAX + 1);
    await expect(store.put('big', tooLarge, 'absent')).rejects.toMatchObject({
      code: 'INVALID_RECORD',
      sideEffects: 'none',
    });
    expect(await store.get('big')).toBeUndefined();
  });

  it.each(['', '/', '/a', 'a/', 'a//b', 'a b', 'a\n', 'ä', 'a\x7f', 'x'.repeat(1_501)])(
    'refuses the key %j everywhere',
    async (key) => {
      const store = getStore();
      const calls = [store.get(key), store.put(key, bytes('x'), 'absent'), store.delete(key, 1)];
      for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'INVALID_NAME' });
    },
  );

  it.each(['a b', 'ä', 'x'.repeat(1_501)])('refuses the bound %j everywhere', async (bound) => {
    const store = getStore();
    const calls = [
      store.floor(bound, ''),
      store.floor('a', bound),
      store.lastChild(bound),
      store.children(bound),
      store.children('a', { startAfter: bound }),
    ];
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'INVALID_NAME' });
  });

  it('takes the longest key', async () => {
    const store = getStore();
    const key = `names/${'f'.repeat(1_494)}`;
    await applied(store, key, 'x');
    expect((await store.lastChild('names/'))?.key).toBe(key);
  });
}

/** Neighbours of `/` in the alphabet, keys that begin each other, padded and unpadded numbers. */
const TRICKY_KEYS = [
  'a',
  'a!',
  'a-b',
  'a.b',
  'a/0',
  'a/00',
  'a/000',
  'a/1',
  'a/10',
  'a/2',
  'a/A',
  'a/_',
  'a/a',
  'a/a/a',
  'a/a~',
  'a/~',
  'a/~~',
  'a0',
  'aa',
  'a~',
  'b',
  'streams/1/refs/0000000000000000',
  'streams/1/refs/0000000000000009',
  'streams/1/refs/0000000000000010',
  'streams/1/writer',
  'streams/10/refs/0000000000000000',
  '~',
  '~~',
];

function ranges(getStore: () => Metastore): void {
  const segment = fc.stringMatching(/^[!-.0-~]{1,3}$/);
  const randomKey = fc.array(segment, { minLength: 1, maxLength: 3 }).map((s) => s.join('/'));
  const someKey = fc.oneof(fc.constantFrom(...TRICKY_KEYS), randomKey);
  const someBound = fc.oneof(someKey, fc.constantFrom('', 'a/', '/', '~', 'streams/1/refs/'));

  const fill = async (store: Metastore, keys: readonly string[]): Promise<string[]> => {
    await Promise.all(keys.map((key) => store.put(key, bytes(key), 'absent')));
    return [...new Set(keys)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  };
  const empty = async (store: Metastore): Promise<void> => {
    const all = await store.children('');
    await Promise.all(all.map((entry) => store.delete(entry.key, entry.version)));
  };

  it('lists children in byte order, in pages, with their values', async () => {
    const store = getStore();
    const sorted = await fill(store, TRICKY_KEYS);
    const all = await store.children('');
    expect(all.map((entry) => entry.key)).toEqual(sorted);
    expect(all.map(textOf)).toEqual(sorted);
    const paged: string[] = [];
    for (;;) {
      const page = await store.children('a', { startAfter: paged.at(-1) ?? '', limit: 3 });
      expect(page.length).toBeLessThanOrEqual(3);
      if (page.length === 0) break;
      paged.push(...page.map((entry) => entry.key));
    }
    expect(paged).toEqual(sorted.filter((key) => key.startsWith('a')));
    expect(await store.children('a', { limit: 0 })).toEqual([]);
    expect(await store.children('nothing/')).toEqual([]);
  });

  it('answers floor, lastChild and children like a sorted list', async () => {
    const store = getStore();
    await fc.assert(
      fc.asyncProperty(
        fc.array(someKey, { maxLength: 12 }),
        fc.array(fc.tuple(someBound, someBound), { minLength: 1, maxLength: 12 }),
        async (keys, queries) => {
          const sorted = await fill(store, keys);
          for (const [a, b] of queries) {
            const floor = sorted.findLast((key) => key <= a && key >= b);
            expect((await store.floor(a, b))?.key).toBe(floor);
            const last = sorted.findLast((key) => key.startsWith(a));
            expect(textOf(await store.lastChild(a))).toBe(last);
            const after = sorted.filter((key) => key.startsWith(a) && key > b);
            const children = await store.children(a, { startAfter: b });
            expect(children.map((entry) => entry.key)).toEqual(after);
          }
          await empty(store);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('follows inserts and deletes of many keys', async () => {
    const store = getStore();
    const number = (i: number): string => `n/${String(i).padStart(6, '0')}`;
    const keys = Array.from({ length: 3_000 }, (_, i) => number((i * 7_919) % 3_000));
    await fill(store, keys);
    expect((await store.children('n/')).length).toBe(3_000);
    const odd = (await store.children('n/')).filter((_, i) => i % 2 === 1);
    await Promise.all(odd.map((entry) => store.delete(entry.key, entry.version)));
    expect((await store.floor(number(1_999), 'n/'))?.key).toBe(number(1_998));
    expect((await store.lastChild('n/'))?.key).toBe(number(2_998));
    const left = await store.children('n/', { startAfter: number(1_000), limit: 3 });
    expect(left.map((entry) => entry.key)).toEqual([1_002, 1_004, 1_006].map(number));
  });
}

function watches(getPair: () => MetastorePair): void {
  class Recorder {
    readonly events: MetaWatchEvent[] = [];
    readonly listen = (event: MetaWatchEvent): void => {
      this.events.push(event);
    };

    count(kind: MetaWatchEvent['kind']): number {
      return this.events.filter((event) => event.kind === kind).length;
    }

    async until(done: (recorder: this) => boolean): Promise<void> {
      await expect.poll(() => done(this), { timeout: 5_000, interval: 10 }).toBe(true);
    }
  }

  it('says ready first, in a later turn', async () => {
    const { first } = getPair();
    await applied(first, 'stars/a', 'before');
    const seen = new Recorder();
    const watch = first.watch('stars/', seen.listen);
    expect(seen.events).toEqual([]);
    await seen.until(({ events }) => events.length > 0);
    expect(seen.events).toEqual([{ kind: 'ready' }]);
    watch.close();
  });

  it('reports puts and deletes under its prefix, by whichever handle, and nothing else', async () => {
    const { first, second } = getPair();
    const seen = new Recorder();
    const watch = first.watch('stars/', seen.listen);
    await seen.until((recorder) => recorder.count('ready') === 1);
    for (const [index, writer] of [first, second].entries()) {
      const key = `stars/${index}`;
      await applied(writer, `starsome/${index}`, 'not ours');
      await applied(writer, `streams/${index}`, 'not ours');
      const version = await applied(writer, key, 'hello');
      await seen.until((recorder) => recorder.count('put') === index + 1);
      expect(seen.events.at(-1)).toEqual({
        kind: 'put',
        entry: { key, value: bytes('hello'), version },
      });
      await writer.delete(key, version);
      await seen.until((recorder) => recorder.count('deleted') === index + 1);
      expect(seen.events.at(-1)).toEqual({ kind: 'deleted', key });
    }
    expect(seen.count('resync')).toBe(0);
    watch.close();
  });

  it('lets whoever follows it arrive at the state there is', async () => {
    const { first, second } = getPair();
    const view = new Map<string, MetaVersion>();
    const seen = new Recorder();
    const watch = first.watch('stars/', (event) => {
      seen.listen(event);
      if (event.kind === 'put') view.set(event.entry.key, event.entry.version);
      if (event.kind === 'deleted') view.delete(event.key);
    });
    await seen.until((recorder) => recorder.count('ready') === 1);
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const writer = i % 2 === 0 ? first : second;
        const key = `stars/${i}`;
        const version = await applied(writer, key, '1');
        if (i % 4 === 1) await writer.delete(key, version);
        else if (i % 4 === 2) await applied(writer, key, '2', version);
      }),
    );
    const truth = new Map((await first.children('stars/')).map((e) => [e.key, e.version]));
    await seen.until(() => {
      const keys = [...truth.keys()];
      return view.size === truth.size && keys.every((key) => view.get(key) === truth.get(key));
    });
    watch.close();
  });

  it('is silent once closed, also about what happened before', async () => {
    const { first } = getPair();
    const seen = new Recorder();
    const watch = first.watch('stars/', seen.listen);
    await seen.until((recorder) => recorder.count('ready') === 1);
    const other = new Recorder();
    const otherWatch = first.watch('stars/', other.listen);
    await other.until((recorder) => recorder.count('ready') === 1);
    const put = first.put('stars/a', bytes('x'), 'absent');
    watch.close();
    watch.close();
    await put;
    await other.until((recorder) => recorder.count('put') === 1);
    expect(seen.events).toEqual([{ kind: 'ready' }]);
    otherWatch.close();
  });
}

function givingUp(getPair: () => MetastorePair): void {
  it('does nothing when its signal has fired', async () => {
    const { first } = getPair();
    const version = await applied(first, 'k', 'one');
    const options = { signal: AbortSignal.abort(new Error('enough')) };
    const calls = [
      first.get('k', options),
      first.put('k', bytes('two'), version, options),
      first.delete('k', version, options),
      first.floor('k', '', options),
      first.lastChild('k', options),
      first.children('', options),
      first.barrier('k', options),
    ];
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({ code: 'ABORTED', sideEffects: 'none' });
    }
    expect(textOf(await first.get('k'))).toBe('one');
  });

  it('tells truly whether an aborted write may have been applied', async () => {
    const { first } = getPair();
    for (let i = 0; i < 30; i++) {
      const controller = new AbortController();
      const put = first.put(`k/${i}`, bytes('x'), 'absent', { signal: controller.signal });
      for (let turn = 0; turn < i % 6; turn++) await new Promise((done) => setImmediate(done));
      controller.abort();
      const outcome = await put.then(
        () => 'applied',
        (error: unknown) => {
          expect(codeOf(error)).toBe('ABORTED');
          return (error as EngineError).sideEffects;
        },
      );
      // Whatever comes later is behind it.
      await first.put('later', bytes('x'), 'absent');
      const stored = (await first.get(`k/${i}`)) !== undefined;
      if (outcome === 'applied') expect(stored).toBe(true);
      if (outcome === 'none') expect(stored).toBe(false);
    }
  });

  it('answers what it accepted before it closes, and refuses everything after', async () => {
    const { first, second } = getPair();
    const seen: MetaWatchEvent[] = [];
    first.watch('stars/', (event) => seen.push(event));
    let answered = 0;
    const puts = Array.from({ length: 20 }, async (_, i) => {
      await first.put(`stars/${i}`, bytes('x'), 'absent');
      answered++;
    });
    await first.close();
    await Promise.all(puts);
    expect(answered).toBe(20);
    await first.close();
    const seenCount = seen.length;
    const calls = [
      first.get('k'),
      first.put('k', bytes('x'), 'absent'),
      first.delete('k', 1),
      first.floor('k', ''),
      first.lastChild('k'),
      first.children(''),
      first.barrier('k'),
    ];
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'CLOSED' });
    expect(() => first.watch('stars/', () => undefined)).toThrow('closed');
    // The other handle goes on, over the same data.
    expect((await second.children('stars/')).length).toBe(20);
    await applied(second, 'stars/later', 'x');
    expect(seen.length).toBe(seenCount);
  });
}

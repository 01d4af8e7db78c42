/** What every bucket store keeps, whatever holds its bytes. One suite for all adapters. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EngineError } from '../../../src/lib/errors.ts';
import {
  EXISTS_HEAD_BYTES,
  type BucketStore,
  type CreateOutcome,
} from '../../../src/ports/bucket-store.ts';

export interface BucketFixture {
  /** One more client of the same bucket. The fixture closes what it opened. */
  open(): Promise<BucketStore>;
  dispose(): Promise<void>;
}

const RACERS = 50;
const KEY = 'a1b2/main/0000000000000007/0000000000000042';

/**
 * @param name - of the adapter, as it shows in the report.
 * @param makeFixture - makes an empty bucket.
 */
export function bucketStoreContract(name: string, makeFixture: () => Promise<BucketFixture>): void {
  describe(`bucket store contract: ${name}`, () => {
    let fixture: BucketFixture;
    let store: BucketStore;

    beforeEach(async () => {
      fixture = await makeFixture();
      store = await fixture.open();
    });
    afterEach(() => fixture.dispose());

    describe('creation', () => {
      it('creates an absent key and shows it whole to every client', async () => {
        const other = await fixture.open();
        const bytes = pattern(1, 5_000);
        expect(await store.createOnly(KEY, bytes)).toEqual({ kind: 'created' });
        for (const client of [store, other]) {
          for (const evidence of [false, true]) {
            const found = await client.readHead(KEY, 10_000, { evidence });
            expect(found).toMatchObject({ kind: 'found', sizeBytes: 5_000 });
            expect(bytesOf(found)).toEqual(bytes);
          }
        }
      });

      it('answers the head and the size of what holds the key, and keeps it', async () => {
        const bytes = pattern(2, EXISTS_HEAD_BYTES + 100);
        await store.createOnly(KEY, bytes);
        const again = await store.createOnly(KEY, pattern(3, 20));
        expect(again).toMatchObject({ kind: 'exists', sizeBytes: bytes.byteLength });
        expect(headOf(again)).toEqual(bytes.subarray(0, EXISTS_HEAD_BYTES));
        expect(bytesOf(await store.readHead(KEY, 1_000))).toEqual(bytes);
      });

      it('answers a head as short as a short object', async () => {
        await store.createOnly(KEY, pattern(4, 7));
        expect(headOf(await store.createOnly(KEY, pattern(5, 7)))).toEqual(pattern(4, 7));
      });

      it('lets exactly one of many racing clients win', async () => {
        const other = await fixture.open();
        for (let round = 0; round < 4; round++) {
          const key = `race/${round}`;
          const bodies = Array.from({ length: RACERS }, (_, racer) => pattern(racer, 300 + racer));
          const outcomes = await Promise.all(
            bodies.map((body, racer) => (racer % 2 ? store : other).createOnly(key, body)),
          );
          const winners = outcomes.flatMap(({ kind }, racer) => (kind === 'created' ? racer : []));
          expect(winners).toHaveLength(1);
          const won = bodies[winners[0]!]!;
          expect(bytesOf(await other.readHead(key, 1_000, { evidence: true }))).toEqual(won);
          for (const outcome of outcomes) {
            if (outcome.kind === 'created') continue;
            expect(outcome).toMatchObject({ kind: 'exists', sizeBytes: won.byteLength });
            expect(headOf(outcome)).toEqual(won.subarray(0, EXISTS_HEAD_BYTES));
          }
        }
      });

      it('does not touch the bytes once it has answered', async () => {
        const originals = Array.from({ length: 40 }, (_, index) => pattern(index, 70_000));
        await Promise.all(
          originals.map(async (original, index) => {
            // The `slice` of a Buffer is no copy.
            const arena = index % 2 === 0 ? original.slice() : Buffer.from(original);
            expect(await store.createOnly(`arena/${index}`, arena)).toEqual({ kind: 'created' });
            arena.fill(0xee);
          }),
        );
        for (const [index, original] of originals.entries()) {
          const found = await store.readHead(`arena/${index}`, 100_000);
          expect(Buffer.compare(bytesOf(found), original)).toBe(0);
        }
      });

      it('stores a view of a larger and shared buffer, and nothing around it', async () => {
        const shared = new Uint8Array(new SharedArrayBuffer(4_096)).fill(9);
        shared.set(pattern(6, 1_000), 100);
        const view = shared.subarray(100, 1_100);
        expect(await store.createOnly(KEY, view)).toEqual({ kind: 'created' });
        expect(bytesOf(await store.readHead(KEY, 5_000))).toEqual(pattern(6, 1_000));
      });

      it('stores objects of 4 MiB and of sizes about the powers of two', async () => {
        const sizes = [4 << 20, (1 << 20) - 1, (1 << 20) + 1, 65_535, 65_536, 65_537, 4_096, 4_097];
        for (const sizeBytes of sizes) {
          const bytes = pattern(sizeBytes, sizeBytes);
          const key = `large/${sizeBytes}`;
          expect(await store.createOnly(key, bytes)).toEqual({ kind: 'created' });
          const found = await store.readHead(key, Number.MAX_SAFE_INTEGER);
          expect(found).toMatchObject({ kind: 'found', sizeBytes });
          expect(Buffer.compare(bytesOf(found), bytes)).toBe(0);
        }
      });

      it('stores an object without bytes', async () => {
        expect(await store.createOnly(KEY, new Uint8Array(0))).toEqual({ kind: 'created' });
        const again = await store.createOnly(KEY, pattern(1, 5));
        expect(again).toMatchObject({ kind: 'exists', sizeBytes: 0 });
        expect(bytesOf(await store.readHead(KEY, 10))).toHaveLength(0);
      });

      it('keeps keys apart where one is the folder of another', async () => {
        const keys = ['b', 'b/1', 'b/1/2', 'b-1', 'b.1', 'b_1', 'b/1.2'];
        for (const key of keys) await store.createOnly(key, Buffer.from(key));
        for (const key of keys) {
          expect(bytesOf(await store.readHead(key, 100))).toEqual(new Uint8Array(Buffer.from(key)));
        }
      });
    });

    describe('reading', () => {
      it('answers absent for a key nobody created', async () => {
        await store.createOnly('folder/there', pattern(1, 10));
        for (const key of ['folder/missing', 'nowhere/at/all']) {
          for (const evidence of [false, true]) {
            expect(await store.readHead(key, 10, { evidence })).toEqual({ kind: 'absent' });
            expect(await store.readRange(key, 5, 9, { evidence })).toEqual({ kind: 'absent' });
          }
        }
      });

      it('answers the part of a range that the object has', async () => {
        const bytes = pattern(7, 1_000);
        await store.createOnly(KEY, bytes);
        const ranges = [
          [0, 0],
          [0, 1],
          [10, 500],
          [990, 1_000],
          [990, 2_000],
          [1_000, 1_001],
          [5_000, 200_000],
          [0, 1_000_000],
        ] as const;
        for (const [start, end] of ranges) {
          const found = await store.readRange(KEY, start, end);
          expect(found).toMatchObject({ kind: 'found', sizeBytes: 1_000 });
          expect(bytesOf(found)).toEqual(bytes.slice(start, end));
        }
      });

      it('answers memory of the reader alone', async () => {
        await store.createOnly(KEY, pattern(8, 100));
        bytesOf(await store.readHead(KEY, 100)).fill(0);
        headOf(await store.createOnly(KEY, pattern(9, 100))).fill(0);
        expect(bytesOf(await store.readHead(KEY, 100))).toEqual(pattern(8, 100));
      });
    });

    describe('deletion', () => {
      it('deletes once, again without complaint, and frees the key', async () => {
        await store.createOnly(KEY, pattern(1, 10));
        expect(await store.delete(KEY)).toEqual({ kind: 'deleted' });
        expect(await store.readHead(KEY, 10, { evidence: true })).toEqual({ kind: 'absent' });
        // Stores that cannot tell answer `deleted` every time.
        expect(['deleted', 'absent']).toContain((await store.delete(KEY)).kind);
        expect(['deleted', 'absent']).toContain((await store.delete('no/such/key')).kind);
        expect(await store.createOnly(KEY, pattern(2, 10))).toEqual({ kind: 'created' });
      });

      it('deletes many over several folders and answers each in order', async () => {
        const keys = Array.from({ length: 60 }, (_, index) => `f${index % 3}/${index}`);
        for (const key of keys) await store.createOnly(key, pattern(1, 10));
        const asked = [...keys.slice(0, 50), 'f0/none', 'f9/none'];
        const outcomes = await store.deleteMany(asked);
        expect(outcomes.slice(0, 50)).toEqual(Array(50).fill({ kind: 'deleted' }));
        for (const { kind } of outcomes.slice(50)) expect(['deleted', 'absent']).toContain(kind);
        expect(outcomes).toHaveLength(asked.length);
        const left = await allKeys(store, '');
        expect(left).toEqual(keys.slice(50).sort());
        expect(await store.deleteMany([])).toEqual([]);
      });
    });

    describe('listing', () => {
      const keys = [
        'a',
        'a/1',
        'a/1/x',
        'a/10',
        'a/2',
        'a-b/1',
        'a.b',
        'b/1',
        'b/1-1/2',
        'c/1/2/3/4',
      ];

      beforeEach(async () => {
        for (const key of keys) await store.createOnly(key, Buffer.from(key));
      });

      it.each(['', 'a', 'a/', 'a/1', 'a-', 'b', 'b/1/', 'c/1/2/3/4', 'c/1/2/3/4/5', 'nothing'])(
        'lists the keys that start with "%s"',
        async (prefix) => {
          const expected = keys.filter((key) => key.startsWith(prefix)).sort();
          expect((await allKeys(store, prefix)).sort()).toEqual(expected);
        },
      );

      it.each([1, 2, 3, 7])('pages by %d without a gap or a repetition', async (limit) => {
        expect((await allKeys(store, '', limit)).sort()).toEqual([...keys].sort());
      });

      it('says whether there is more', async () => {
        const all = await store.list('', { limit: keys.length });
        expect(all).toMatchObject({ kind: 'listed', more: false });
        const part = await store.list('', { limit: keys.length - 1 });
        expect(part).toMatchObject({ kind: 'listed', more: true });
      });
    });

    describe('keys', () => {
      const long = 'k'.repeat(512);
      const nested = `${'n'.repeat(250)}/${'m'.repeat(261)}`;
      it.each([
        ['of one segment', 'a'],
        ['with every allowed character', 'a0/b-c/d_e/f.g/.h/i..j/-'],
        ['of 512 bytes in one segment', long],
        ['of 512 bytes in two segments', nested],
        ['of 512 bytes in 256 segments', `${'d/'.repeat(255)}dd`],
      ])('takes a key %s', async (_, key) => {
        const bytes = pattern(key.length, 50);
        expect(await store.createOnly(key, bytes)).toEqual({ kind: 'created' });
        expect(await store.createOnly(key, bytes)).toMatchObject({ kind: 'exists' });
        expect(bytesOf(await store.readHead(key, 100, { evidence: true }))).toEqual(bytes);
        expect(await allKeys(store, key.slice(0, -1))).toEqual([key]);
        expect(await store.delete(key)).toEqual({ kind: 'deleted' });
        expect(await store.readHead(key, 100)).toEqual({ kind: 'absent' });
      });

      it.each([
        ['empty', ''],
        ['too long', 'a'.repeat(513)],
        ['climbing', 'a/../b'],
        ['climbing at the start', '../a'],
        ['climbing at the end', 'a/..'],
        ['pointing at itself', 'a/./b'],
        ['absolute', '/a'],
        ['ending in a slash', 'a/'],
        ['with an empty segment', 'a//b'],
        ['with a capital letter', 'a/B'],
        ['with a blank', 'a b'],
        ['with a separator of file names', 'a+b'],
        ['with a mark of cut names', 'a,b'],
        ['with a backslash', 'a\\b'],
        ['with a NUL', 'a\0b'],
        ['with a line feed at the end', 'a\n'],
        ['not in ASCII', 'ä'],
      ])('does not take a key %s', async (_, key) => {
        const calls = [
          store.createOnly(key, pattern(1, 1)),
          store.readHead(key, 1),
          store.readRange(key, 0, 1),
          store.delete(key),
          store.deleteMany(['fine', key]),
        ];
        for (const settled of await Promise.allSettled(calls)) {
          expect(settled).toMatchObject({ status: 'rejected', reason: { code: 'INVALID_NAME' } });
        }
      });
    });

    describe('giving up', () => {
      it('does nothing for a signal that has fired before', async () => {
        const signal = AbortSignal.abort();
        const outcomes = [
          await store.createOnly(KEY, pattern(1, 10), { signal }),
          await store.readHead(KEY, 10, { signal }),
          await store.readRange(KEY, 0, 10, { signal, evidence: true }),
          await store.delete(KEY, { signal }),
          ...(await store.deleteMany([KEY], { signal })),
          await store.list('', { signal }),
          await store.probe({ signal }),
        ];
        for (const outcome of outcomes) expectUnknown(outcome, 'ABORTED');
        expect(await store.readHead(KEY, 10)).toEqual({ kind: 'absent' });
      });

      it('answers unknown for a signal that fires meanwhile, or what it had already done', async () => {
        for (let round = 0; round < 20; round++) {
          const controller = new AbortController();
          const bytes = pattern(round, 200_000);
          const arena = bytes.slice();
          const key = `abort/${round}`;
          const creating = store.createOnly(key, arena, { signal: controller.signal });
          for (let turn = 0; turn < round; turn++) await new Promise(setImmediate);
          controller.abort();
          const outcome = await creating;
          arena.fill(0);
          if (outcome.kind !== 'created') expectUnknown(outcome, 'ABORTED');
          // Stored whole or not at all, and a second attempt settles it.
          const again = await store.createOnly(key, bytes);
          expect(['created', 'exists']).toContain(again.kind);
          expect(Buffer.compare(bytesOf(await store.readHead(key, 300_000)), bytes)).toBe(0);
        }
      });
    });

    describe('closing', () => {
      it('lets outstanding calls end and answers later ones with CLOSED', async () => {
        const creating = Array.from({ length: 100 }, (_, index) =>
          store.createOnly(`late/${index}`, pattern(index, 2_000)),
        );
        const closing = store.close();
        for (const outcome of await Promise.all(creating)) expect(outcome.kind).toBe('created');
        await closing;
        await store.close();
        const outcomes = [
          await store.createOnly(KEY, pattern(1, 10)),
          await store.readHead('late/1', 10),
          await store.readRange('late/1', 0, 10, { evidence: true }),
          await store.delete('late/1'),
          ...(await store.deleteMany(['late/1'])),
          await store.list(''),
          await store.probe(),
        ];
        for (const outcome of outcomes) expectUnknown(outcome, 'CLOSED');
        const reopened = await fixture.open();
        expect(bytesOf(await reopened.readHead('late/99', 5_000))).toEqual(pattern(99, 2_000));
      });
    });

    describe('probing', () => {
      it('accepts the bucket, also from several clients at once, and leaves nothing behind', async () => {
        const clients = [store, await fixture.open(), await fixture.open()];
        const outcomes = await Promise.all(clients.map((client) => client.probe()));
        expect(outcomes).toEqual(clients.map(() => ({ kind: 'accepted' })));
        expect(await allKeys(store, '')).toEqual([]);
      });
    });
  });
}

/** Bytes that differ with the seed and within themselves. */
export function pattern(seed: number, sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  let state = (seed + 1) * 2_654_435_761;
  for (let at = 0; at < sizeBytes; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

export function bytesOf(outcome: { readonly kind: string }): Uint8Array {
  expect(outcome.kind).toBe('found');
  return (outcome as unknown as { readonly bytes: Uint8Array }).bytes;
}

export function headOf(outcome: CreateOutcome): Uint8Array {
  expect(outcome.kind).toBe('exists');
  return (outcome as Extract<CreateOutcome, { kind: 'exists' }>).head;
}

export function expectUnknown(outcome: { readonly kind: string }, code: string): void {
  expect(outcome).toMatchObject({ kind: 'unknown', cause: { code } });
  expect((outcome as unknown as { cause: unknown }).cause).toBeInstanceOf(EngineError);
}

/** Every key under the prefix, page by page. */
export async function allKeys(
  store: BucketStore,
  prefix: string,
  limit = 1_000,
): Promise<string[]> {
  const keys: string[] = [];
  for (;;) {
    const startAfter = keys.at(-1);
    const page = await store.list(prefix, {
      limit,
      ...(startAfter === undefined ? {} : { startAfter }),
    });
    if (page.kind !== 'listed') throw page.cause;
    keys.push(...page.keys);
    if (!page.more) return keys;
  }
}

import { describe, expect, it } from 'vitest';
import {
  readSpan,
  readSpans,
  type BadCopy,
  type SpanSource,
} from '../../../actors/object-reader.ts';
import { findRow, sourcesOf } from '../../../actors/ref-lookup.ts';
import type { StarPorts } from '../../../actors/ports.ts';
import { slotKey } from '../../../src/protocol/keys.ts';
import { CALM_BUCKETS, type BucketCall } from '../../../src/testing/bucket-fates.ts';
import { CALM_METASTORE } from '../../../src/testing/meta-fates.ts';
import { batchOf, bodyOf, SettlementWorld, streamId } from '../../support/settlement-world.ts';

const A = streamId('a');
const B = streamId('b');

const EPOCH = {
  star: 'dead',
  epoch: 3,
  flights: [
    [batchOf(B, 0, 1, { bodyBytes: 9_000 }), batchOf(A, 0, 3)],
    [batchOf(A, 3, 2)],
    [batchOf(A, 5, 4), batchOf(B, 1, 1)],
  ],
};

interface Reading {
  readonly setting: SettlementWorld;
  readonly ports: StarPorts;
  readonly sets: ReturnType<SettlementWorld['setsOf']>;
  readonly sources: readonly SpanSource[];
  readonly calls: BucketCall[];
  flip(bucket: number, slot: number): Promise<void>;
}

/** A settled epoch, a process that reads, and the spans of stream A. */
async function reading(body: (reading: Reading) => Promise<void>): Promise<void> {
  const setting = new SettlementWorld();
  const calls: BucketCall[] = [];
  setting.world.observe({
    bucketSent: (call) => {
      if (call.process.startsWith('reader')) calls.push(call);
    },
  });
  await setting.run(async () => {
    await setting.plant(EPOCH);
    await setting.settler('heir').actors.settle({ star: 'dead', epoch: 3 });
    const { ports } = setting.world.spawn('reader');
    const sets = setting.setsOf(ports);
    const row = await findRow(ports, A, 4);
    const sources = sourcesOf(A, row!);
    const flip = async (bucket: number, slot: number): Promise<void> => {
      const { span } = sources[slot]!;
      const bit = 8 * (span.offset + span.length - 1);
      expect(await setting.world.bucket(bucket).flipBit(slotKey('dead', 3, slot), bit)).toBe(true);
    };
    await body({ setting, ports, sets, sources, calls, flip });
  });
}

const text = (body: Uint8Array): string => Buffer.from(body).toString();

describe('reading one span', () => {
  it('fetches exactly its bytes from one bucket', async () => {
    await reading(async ({ ports, sets, sources, calls }) => {
      const records = await readSpan(ports, sets, sources[0]!);
      expect(records.map(({ seqNum, body }) => [seqNum, text(body)])).toEqual([
        [0, bodyOf(A, 0)],
        [1, bodyOf(A, 1)],
        [2, bodyOf(A, 2)],
      ]);
      expect(records.map(({ timestamp }) => timestamp)).toEqual([0, 10, 20]);
      expect(calls.map(({ op }) => op)).toEqual(['readRange']);
      expect(records[0]!.body.buffer.byteLength).toBe(sources[0]!.span.length);
    });
  });

  it('spreads the reads over the buckets', async () => {
    await reading(async ({ ports, sets, sources, calls }) => {
      for (const source of sources) await readSpan(ports, sets, source);
      expect(calls.map(({ target }) => target)).toEqual(['bucket-0', 'bucket-1', 'bucket-2']);
    });
  });

  it('looks into the next bucket after a bad copy, which it reports', async () => {
    await reading(async ({ setting, ports, sets, sources, calls, flip }) => {
      await flip(0, 0);
      const key = slotKey('dead', 3, 0);
      await setting.world.bucket(1).damage(key, (bytes) => bytes.slice(0, -1));
      const bad: BadCopy[] = [];
      const onBadCopy = (copy: BadCopy): void => void bad.push(copy);
      const records = await readSpan(ports, sets, sources[0]!, { onBadCopy });
      expect(records).toHaveLength(3);
      expect(bad).toEqual([
        { bucket: 'bucket-0', key, reason: 'span checksum differs' },
        { bucket: 'bucket-1', key, reason: 'object ends within the span' },
      ]);
      expect(ports.metrics.counter('read.badCopies').value).toBe(2);
      expect(calls).toHaveLength(3);
    });
  });

  it('says which records are lost when no bucket has a good copy', async () => {
    await reading(async ({ setting, ports, sets, sources, flip }) => {
      for (const bucket of [0, 1]) await flip(bucket, 1);
      await setting.world.bucket(2).store.delete(slotKey('dead', 3, 1));
      await expect(readSpan(ports, sets, sources[1]!)).rejects.toMatchObject({
        code: 'DATA_LOSS',
        details: {
          stream: A,
          start: 3,
          end: 5,
          star: 'dead',
          epoch: 3,
          slot: 1,
          absent: 1,
          bad: 2,
        },
      });
    });
  });

  it('does not take silence for a loss', async () => {
    await reading(async ({ setting, ports, sets, sources, flip }) => {
      for (const bucket of [0, 1]) await flip(bucket, 1);
      setting.world.setProfiles({ ...CALM_BUCKETS, timeoutMillis: 1_000 }, CALM_METASTORE);
      setting.world.bucket(2).goDown();
      const begun = ports.clock.monotonic();
      await expect(
        readSpan(ports, sets, sources[1]!, { timeoutMillis: 5_000 }),
      ).rejects.toMatchObject({
        code: 'BUCKET_UNAVAILABLE',
        retryable: true,
        details: { slot: 1, start: 3 },
      });
      expect(ports.clock.monotonic() - begun).toBeLessThan(5_200);
      // Within its deadline, the reader waits for the bucket that may have it.
      const waiting = readSpan(ports, sets, sources[1]!, { timeoutMillis: 20_000 });
      setting.world.scheduler.schedule(6_000, 'recovery', () => setting.world.bucket(2).recover());
      expect(await waiting).toHaveLength(2);
    });
  });

  it('ends at once where all that may hold a copy refuse', async () => {
    await reading(async ({ setting, ports, sets, sources, flip }) => {
      await flip(0, 1);
      setting.world.bucketScript.add({ op: 'readRange', times: 2, fate: { kind: 'refused' } });
      const begun = ports.clock.monotonic();
      await expect(readSpan(ports, sets, sources[1]!)).rejects.toMatchObject({
        code: 'BUCKET_REFUSED',
        retryable: false,
      });
      expect(ports.clock.monotonic() - begun).toBeLessThan(100);
      // Nothing is remembered of it.
      expect(await readSpan(ports, sets, sources[1]!)).toHaveLength(2);
    });
  });

  it('asks again while one that does not refuse may hold a copy, and then says what refused', async () => {
    await reading(async ({ setting, ports, sets, sources }) => {
      const target = 'bucket-0';
      setting.world.bucketScript.add({ target, times: 1_000, fate: { kind: 'refused' } });
      for (const bucket of [1, 2]) setting.world.bucket(bucket).goDown();
      const waiting = readSpan(ports, sets, sources[1]!, { timeoutMillis: 60_000 });
      setting.world.scheduler.schedule(20_000, 'recovery', () => setting.world.bucket(2).recover());
      expect(await waiting).toHaveLength(2);
      setting.world.bucket(2).goDown();
      await expect(
        readSpan(ports, sets, sources[1]!, { timeoutMillis: 20_000 }),
      ).rejects.toMatchObject({ code: 'BUCKET_UNAVAILABLE', cause: { code: 'BUCKET_REFUSED' } });
    });
  });

  it('hedges a bucket that hangs, and asks it last for a while', async () => {
    await reading(async ({ setting, ports, sets, sources, calls }) => {
      setting.world.bucketScript.add({
        target: 'bucket-1',
        op: 'readRange',
        times: 10,
        fate: { kind: 'hang' },
      });
      const begun = ports.clock.monotonic();
      expect(await readSpan(ports, sets, sources[1]!)).toHaveLength(2);
      expect(ports.clock.monotonic() - begun).toBeLessThan(300);
      expect(calls.map(({ target }) => target)).toEqual(['bucket-1', 'bucket-2']);
      expect(ports.metrics.counter('read.hedges').value).toBe(1);
      await readSpan(ports, sets, sources[1]!);
      expect(calls.map(({ target }) => target).slice(2)).toEqual(['bucket-2']);
    });
  });

  it('takes a slow answer that comes before the hedge has one', async () => {
    await reading(async ({ setting, ports, sets, sources }) => {
      setting.world.bucketScript.add({
        target: 'bucket-1',
        op: 'readRange',
        fate: { kind: 'pass', requestMillis: 300, responseMillis: 1 },
      });
      setting.world.bucketScript.add({
        target: 'bucket-2',
        op: 'readRange',
        fate: { kind: 'pass', requestMillis: 900, responseMillis: 1 },
      });
      const begun = ports.clock.monotonic();
      expect(await readSpan(ports, sets, sources[1]!)).toHaveLength(2);
      expect(ports.clock.monotonic() - begun).toBeLessThan(400);
    });
  });

  it('ends with the signal of its caller', async () => {
    await reading(async ({ setting, ports, sets, sources }) => {
      for (const bucket of setting.world.buckets) bucket.goDown();
      const controller = new AbortController();
      const waiting = readSpan(ports, sets, sources[0]!, { signal: controller.signal });
      setting.world.scheduler.schedule(100, 'abort', () => controller.abort());
      await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' });
      await expect(
        readSpan(ports, sets, sources[0]!, { signal: controller.signal }),
      ).rejects.toMatchObject({ code: 'ABORTED' });
    });
  });
});

describe('reading many spans', () => {
  it('answers them in order, fetching ahead', async () => {
    await reading(async ({ setting, ports, sets, sources, calls }) => {
      // The first is the slowest.
      setting.world.bucketScript.add({
        key: slotKey('dead', 3, 0),
        op: 'readRange',
        fate: { kind: 'pass', requestMillis: 100 },
      });
      const seen: number[] = [];
      for await (const { records } of readSpans(ports, sets, sources)) {
        if (seen.length === 0) expect(calls).toHaveLength(3);
        seen.push(...records.map(({ seqNum }) => seqNum));
      }
      expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });
  });

  it('bounds how far ahead it fetches', async () => {
    await reading(async ({ ports, sets, sources, calls }) => {
      const two = readSpans(ports, sets, sources, { concurrency: 2 });
      await two.next();
      expect(calls).toHaveLength(2);
      await two.return();
      calls.length = 0;
      // A bound below one span still reads one.
      const one = readSpans(ports, sets, sources, { readAheadBytes: 1 });
      await one.next();
      expect(calls).toHaveLength(1);
      await one.return();
    });
  });

  it('fails where the loss is, after what comes before it', async () => {
    await reading(async ({ setting, ports, sets, sources }) => {
      for (const { store } of setting.world.buckets) await store.delete(slotKey('dead', 3, 1));
      const seen: number[] = [];
      const loop = async (): Promise<void> => {
        for await (const { records } of readSpans(ports, sets, sources)) seen.push(records.length);
      };
      await expect(loop()).rejects.toMatchObject({
        code: 'DATA_LOSS',
        details: { absent: 3, bad: 0, slot: 1 },
      });
      expect(seen).toEqual([3]);
    });
  });

  it('ends what is under way, and its sources, when the consumer leaves', async () => {
    await reading(async ({ setting, ports, sets, sources }) => {
      setting.world.bucketScript.add({
        op: 'readRange',
        key: slotKey('dead', 3, 1),
        times: 10,
        fate: { kind: 'hang' },
      });
      let ended = 0;
      async function* lazily(): AsyncGenerator<SpanSource> {
        try {
          yield* sources;
        } finally {
          ended++;
        }
      }
      for await (const { records } of readSpans(ports, sets, lazily(), { concurrency: 2 })) {
        expect(records).toHaveLength(3);
        break;
      }
      expect(ended).toBe(1);
      const aborted = new AbortController();
      aborted.abort();
      const none = readSpans(ports, sets, sources, { signal: aborted.signal });
      await expect(none.next()).rejects.toMatchObject({ code: 'ABORTED' });
    });
  });
});

/** Appends through the public engine and measures what its callers see. */
import { bucketCountOf, type Components } from '../src/engine/components.ts';
import { openEngine, type HostedEngine } from '../src/engine/host.ts';
import { instantiate } from '../src/engine/instantiate.ts';
import type { AppendRecord, Stream } from '../src/engine/api.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { resolveSettings, type EngineSettings } from '../src/protocol/settings.ts';

export const IN_FLIGHT = 64;
const STREAMS = 4;
const BATCH_RECORDS = 1_000;

/**
 * `closed`: so many batches under way, each answered one is followed by the next. `saturated`: batches are
 * submitted as fast as back-pressure admits them.
 */
export type LoadMode = 'closed' | 'saturated';

export interface Load {
  readonly recordBytes: number;
  /** Records of one batch; 1,000 unless said. */
  readonly batchRecords?: number;
  readonly batches: number;
  readonly mode: LoadMode;
  /** Of `closed`; 64 unless said. */
  readonly inFlight?: number;
}

export interface LoadResult {
  /** From the first submission to the last acknowledgement. */
  readonly seconds: number;
  readonly records: number;
  /** Bytes of the bodies. */
  readonly payloadBytes: number;
  /** From submission to acknowledgement, of each batch. */
  readonly ackMillis: Float64Array;
}

export interface OpenLoadEngine {
  readonly engine: HostedEngine;
  readonly streams: readonly Stream[];
  close(): Promise<void>;
}

export async function openLoadEngine(options: {
  readonly components: Components;
  readonly settings: EngineSettings;
  /** Puts something in front of a bucket. */
  readonly wrap: (index: number, store: BucketStore) => BucketStore;
}): Promise<OpenLoadEngine> {
  const { components } = options;
  const settings = resolveSettings(options.settings, bucketCountOf(components));
  const { ports, release } = await instantiate(components, settings, {
    log: undefined,
    mode: 'write',
  });
  const wrapped = ports.buckets.map((store, index) => options.wrap(index, store));
  const byName = new Map(wrapped.map((store) => [store.name, store]));
  const engine = await openEngine(
    { ...ports, buckets: wrapped, bucketByName: (name) => byName.get(name) },
    settings,
    { release },
  );
  const names = Array.from({ length: STREAMS }, (_, index) => `bench-${index}`);
  const streams = await Promise.all(names.map((name) => engine.open(name)));
  return { engine, streams, close: () => engine.close() };
}

/** Records of distinct memory, as from distinct callers; as many as a batch may hold unless said. */
export function batchOf(recordBytes: number, records = BATCH_RECORDS): readonly AppendRecord[] {
  return Array.from({ length: records }, (_, index) => ({
    body: new Uint8Array(recordBytes).fill(index),
  }));
}

export function batchPayloadBytes(recordBytes: number): number {
  return BATCH_RECORDS * recordBytes;
}

export async function runLoad(streams: readonly Stream[], load: Load): Promise<LoadResult> {
  const { recordBytes, batches, mode, inFlight = IN_FLIGHT } = load;
  const batch = batchOf(recordBytes, load.batchRecords);
  const ackMillis = new Float64Array(batches);
  let next = 0;
  const started = performance.now();
  const appendOne = async (index: number): Promise<() => Promise<void>> => {
    const submittedAt = performance.now();
    const ticket = await streams[index % streams.length]!.submit(batch);
    return async () => {
      await ticket.ack();
      ackMillis[index] = performance.now() - submittedAt;
    };
  };
  if (mode === 'closed') {
    const work = async (): Promise<void> => {
      while (next < batches) await (await appendOne(next++))();
    };
    await Promise.all(Array.from({ length: Math.min(inFlight, batches) }, work));
  } else {
    const acks: Promise<void>[] = [];
    while (next < batches) acks.push((await appendOne(next++))());
    await Promise.all(acks);
  }
  const seconds = (performance.now() - started) / 1000;
  return {
    seconds,
    records: batches * batch.length,
    payloadBytes: batches * batch.length * recordBytes,
    ackMillis: ackMillis.sort(),
  };
}

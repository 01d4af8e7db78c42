/** Ports that lie: how a test plants a break without a switch in the product. */
import type { StarPorts } from '../../actors/ports.ts';
import type { Stream } from '../../src/engine/api.ts';
import type { BucketStore, CreateOutcome, ReadOutcome } from '../../src/ports/bucket-store.ts';
import type { MetaEntry, MetaVersion, Metastore, PutResult } from '../../src/ports/metastore.ts';
import { encodeRecordValue } from '../../src/protocol/records.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';

/** Puts something between the engine of a process and its ports. */
export type Mutation = (ports: StarPorts, process: SimulatedProcess) => StarPorts;

export interface BucketLie {
  create?(
    key: string,
    bytes: Uint8Array,
    send: (bytes: Uint8Array) => Promise<CreateOutcome>,
  ): Promise<CreateOutcome>;
  readHead?(key: string, ask: () => Promise<ReadOutcome>): Promise<ReadOutcome>;
}

export function lyingBuckets(
  lieOf: (bucket: BucketStore, process: SimulatedProcess) => BucketLie,
): Mutation {
  return (ports, process) => {
    const buckets = ports.buckets.map((bucket) => lyingBucket(bucket, lieOf(bucket, process)));
    return {
      ...ports,
      buckets,
      bucketByName: (name) => buckets.find((bucket) => bucket.name === name),
    };
  };
}

function lyingBucket(inner: BucketStore, lie: BucketLie): BucketStore {
  return {
    name: inner.name,
    createOnly: (key, bytes, options) => {
      const send = (sent: Uint8Array): Promise<CreateOutcome> =>
        inner.createOnly(key, sent, options);
      return lie.create === undefined ? send(bytes) : lie.create(key, bytes, send);
    },
    readHead: (key, length, options) => {
      const ask = (): Promise<ReadOutcome> => inner.readHead(key, length, options);
      return lie.readHead === undefined ? ask() : lie.readHead(key, ask);
    },
    readRange: (key, start, end, options) => inner.readRange(key, start, end, options),
    delete: (key, options) => inner.delete(key, options),
    deleteMany: (keys, options) => inner.deleteMany(keys, options),
    list: (prefix, options) => inner.list(prefix, options),
    probe: (options) => inner.probe(options),
    close: () => inner.close(),
  };
}

export interface MetaLie {
  put?(
    key: string,
    value: Uint8Array,
    expected: MetaVersion | 'absent',
    send: (value: Uint8Array) => Promise<PutResult>,
  ): Promise<PutResult>;
  /** Changes what is found, by `get`, by a conflict or as a last child. */
  found?(entry: MetaEntry): MetaEntry | undefined;
  lastChild?(
    prefix: string,
    found: MetaEntry | undefined,
  ): Promise<MetaEntry | undefined> | MetaEntry | undefined;
}

export function lyingMetastore(
  lieOf: (inner: Metastore, process: SimulatedProcess) => MetaLie,
): Mutation {
  return (ports, process) => {
    const inner = ports.metastore;
    const lie = lieOf(inner, process);
    const found = (entry: MetaEntry | undefined): MetaEntry | undefined =>
      entry === undefined || lie.found === undefined ? entry : lie.found(entry);
    const metastore: Metastore = {
      get: async (key, options) => found(await inner.get(key, options)),
      put: async (key, value, expected, options) => {
        const send = (sent: Uint8Array): Promise<PutResult> =>
          inner.put(key, sent, expected, options);
        const result = await (lie.put?.(key, value, expected, send) ?? send(value));
        return result.kind === 'conflict' ? { ...result, current: found(result.current) } : result;
      },
      delete: (key, expected, options) => inner.delete(key, expected, options),
      floor: (key, lowerBound, options) => inner.floor(key, lowerBound, options),
      lastChild: async (prefix, options) => {
        const last = found(await inner.lastChild(prefix, options));
        return lie.lastChild === undefined ? last : lie.lastChild(prefix, last);
      },
      children: (prefix, options) => inner.children(prefix, options),
      barrier: (partition, options) => inner.barrier(partition, options),
      watch: (prefix, listener) => inner.watch(prefix, listener),
      close: () => inner.close(),
    };
    return { ...ports, metastore };
  };
}

export type Json = Record<string, unknown>;

export function jsonOf(value: Uint8Array): Json {
  return JSON.parse(new TextDecoder().decode(value)) as Json;
}

/** Changes values on their way to the metastore. */
export function rewriting(
  pattern: RegExp,
  change: (record: Json, process: SimulatedProcess) => Json,
): Mutation {
  return lyingMetastore((_inner, process) => ({
    put: (key, value, _expected, send) =>
      send(pattern.test(key) ? encodeRecordValue(change(jsonOf(value), process)) : value),
  }));
}

/** One mutation around the other; undefined ones leave the ports alone. */
export function inTurn(...mutations: readonly (Mutation | undefined)[]): Mutation {
  return (ports, process) =>
    mutations.reduce((left, mutation) => mutation?.(left, process) ?? left, ports);
}

/**
 * Sees no other star's lease record: takes every leader for dead and fences it at once. No safety
 * rule rests on a lease (T3), so that all invariants hold in such a world, only nobody is spared.
 */
export const blindToLeases: Mutation = lyingMetastore((_inner, process) => ({
  found: (entry) => {
    const own = `stars/${process.name.split('.')[0]!}`;
    return entry.key.startsWith('stars/') && entry.key !== own ? undefined : entry;
  },
}));

/** Everybody but star a takes a for dead: no safety rule rests on a lease (T3). */
export const othersBlind: Mutation = (ports, process) =>
  process.name.startsWith('a.') ? ports : blindToLeases(ports, process);

/** The stream itself, for a break to override parts of. */
export function facade(stream: Stream): Stream {
  return {
    name: stream.name,
    id: stream.id,
    mode: stream.mode,
    submit: (records, options) => stream.submit(records, options),
    append: (records, options) => stream.append(records, options),
    read: (options) => stream.read(options),
    checkTail: (options) => stream.checkTail(options),
    trim: (seqNum, options) => stream.trim(seqNum, options),
    fence: (token, options) => stream.fence(token, options),
    close: (options) => stream.close(options),
    [Symbol.asyncDispose]: () => stream[Symbol.asyncDispose](),
  };
}

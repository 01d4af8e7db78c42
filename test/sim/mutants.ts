/**
 * Planted breaks. Each stands in for a mistake that an engine could make, and names the checkers
 * that must notice it; test/sim/mutants.sim.test.ts shows that they do. All work from outside: by
 * ports that lie, or by the rules of the walk, so that the product has no switch for any of them.
 */
import type { StarPorts } from '../../actors/ports.ts';
import { encodePreamble, parsePreamble } from '../../src/format/preamble.ts';
import type { BucketStore, CreateOutcome, ReadOutcome } from '../../src/ports/bucket-store.ts';
import type { MetaEntry, Metastore, MetaVersion, PutResult } from '../../src/ports/metastore.ts';
import { FENCE_RULES, type FenceRules } from '../../src/protocol/fence.ts';
import { encodeRecordValue } from '../../src/protocol/records.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import { addressOf } from './slot-index.ts';

export interface Mutant {
  readonly name: string;
  /** Rules of which one must be reported. */
  readonly kills: readonly string[];
  readonly mutate?: (ports: StarPorts, process: SimulatedProcess) => StarPorts;
  readonly rules?: Partial<FenceRules>;
  /** Seeds of this shape only: K / W as `3/2`. */
  readonly quorum?: string;
}

type Create = (
  key: string,
  bytes: Uint8Array,
  next: () => Promise<CreateOutcome>,
) => Promise<CreateOutcome>;
type Read = (key: string, next: () => Promise<ReadOutcome>) => Promise<ReadOutcome>;
type Put = (
  key: string,
  value: Uint8Array,
  send: (value: Uint8Array) => Promise<PutResult>,
) => Promise<PutResult>;

function buckets(lie: {
  readonly create?: (bucket: BucketStore, process: SimulatedProcess) => Create;
  readonly read?: (bucket: BucketStore, process: SimulatedProcess) => Read;
}): NonNullable<Mutant['mutate']> {
  return (ports, process) => {
    const lying = ports.buckets.map((bucket) => lyingBucket(bucket, process, lie));
    return {
      ...ports,
      buckets: lying,
      bucketByName: (name) => lying.find((bucket) => bucket.name === name),
    };
  };
}

function lyingBucket(
  inner: BucketStore,
  process: SimulatedProcess,
  lie: Parameters<typeof buckets>[0],
): BucketStore {
  const create = lie.create?.(inner, process);
  const read = lie.read?.(inner, process);
  return {
    name: inner.name,
    createOnly: (key, bytes, options) => {
      const next = (): Promise<CreateOutcome> => inner.createOnly(key, bytes, options);
      return create === undefined ? next() : create(key, bytes, next);
    },
    readHead: (key, length, options) => {
      const next = (): Promise<ReadOutcome> => inner.readHead(key, length, options);
      return read === undefined ? next() : read(key, next);
    },
    readRange: (key, start, end, options) => inner.readRange(key, start, end, options),
    delete: (key, options) => inner.delete(key, options),
    deleteMany: (keys, options) => inner.deleteMany(keys, options),
    list: (prefix, options) => inner.list(prefix, options),
    probe: (options) => inner.probe(options),
    close: () => inner.close(),
  };
}

function metastore(lie: {
  readonly put?: (process: SimulatedProcess) => Put;
  readonly lastChild?: (
    inner: Metastore,
    prefix: string,
    found: MetaEntry | undefined,
  ) => Promise<MetaEntry | undefined>;
}): NonNullable<Mutant['mutate']> {
  return (ports, process) => {
    const inner = ports.metastore;
    const put = lie.put?.(process);
    const lying: Metastore = {
      get: (key, options) => inner.get(key, options),
      put: (key, value, expected: MetaVersion | 'absent', options) => {
        const send = (sent: Uint8Array): Promise<PutResult> =>
          inner.put(key, sent, expected, options);
        return put === undefined ? send(value) : put(key, value, send);
      },
      delete: (key, expected, options) => inner.delete(key, expected, options),
      floor: (key, lowerBound, options) => inner.floor(key, lowerBound, options),
      lastChild: async (prefix, options) => {
        const found = await inner.lastChild(prefix, options);
        return lie.lastChild === undefined ? found : lie.lastChild(inner, prefix, found);
      },
      children: (prefix, options) => inner.children(prefix, options),
      barrier: (partition, options) => inner.barrier(partition, options),
      watch: (prefix, listener) => inner.watch(prefix, listener),
      close: () => inner.close(),
    };
    return { ...ports, metastore: lying };
  };
}

/** Changes the JSON of a value on its way to the metastore. */
function rewriting(
  pattern: RegExp,
  change: (record: Record<string, unknown>, process: SimulatedProcess) => Record<string, unknown>,
): NonNullable<Mutant['mutate']> {
  return metastore({
    put: (process) => (key, value, send) => {
      if (!pattern.test(key)) return send(value);
      const record = JSON.parse(new TextDecoder().decode(value)) as Record<string, unknown>;
      return send(encodeRecordValue(change(record, process)));
    },
  });
}

const EPOCH = /^chains\/[^/]+\/\d+$/;
const WRITER = /^streams\/[^/]+\/writer$/;
const ROW = /^streams\/[^/]+\/refs\//;

function kindOf(bytes: Uint8Array): 'flight' | 'poison' | undefined {
  const read = parsePreamble(bytes);
  return read.ok ? read.preamble.kind : undefined;
}

function isFlight(key: string, bytes: Uint8Array): boolean {
  return addressOf(key) !== undefined && kindOf(bytes) === 'flight';
}

/** The same flight under another released watermark, checksummed anew. */
function resealed(bytes: Uint8Array): Uint8Array {
  const read = parsePreamble(bytes);
  if (!read.ok || read.preamble.released === 0) return bytes;
  const copy = bytes.slice();
  encodePreamble(copy, 0, { ...read.preamble, released: read.preamble.released - 1 });
  return copy;
}

function movedCut(by: (process: SimulatedProcess) => number): NonNullable<Mutant['mutate']> {
  return rewriting(EPOCH, (record, process) =>
    typeof record['cut'] === 'number'
      ? { ...record, cut: Math.max(Number(record['checkpoint']), record['cut'] + by(process)) }
      : record,
  );
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a bucket says created and stores nothing',
    kills: ['A1'],
    mutate: buckets({
      create: (bucket) => async (key, bytes, next) =>
        bucket.name === 'bucket-0' && isFlight(key, bytes) ? { kind: 'created' } : next(),
    }),
  },
  {
    name: 'a flight of unknown outcome is sealed anew before it is sent again',
    kills: ['A2'],
    mutate: buckets({
      create: (bucket) => {
        const tried = new Set<string>();
        return (key, bytes, next) => {
          if (!isFlight(key, bytes)) return next();
          if (tried.has(key)) return bucket.createOnly(key, resealed(bytes));
          tried.add(key);
          return next();
        };
      },
    }),
  },
  {
    name: 'a writer does not recognise poison',
    kills: ['A3'],
    mutate: buckets({
      create: () => async (key, bytes, next) => {
        const outcome = await next();
        const blind =
          outcome.kind === 'exists' && isFlight(key, bytes) && kindOf(outcome.head) === 'poison';
        return blind ? { kind: 'unknown', cause: undefined as never } : outcome;
      },
      read: () => async (_key, next) => {
        const outcome = await next();
        const blind = outcome.kind === 'found' && kindOf(outcome.bytes) === 'poison';
        return blind ? { kind: 'absent' } : outcome;
      },
    }),
  },
  {
    name: 'every 412 counts as an own copy',
    kills: ['A1'],
    mutate: buckets({
      create: () => async (key, bytes, next) => {
        const outcome = await next();
        return outcome.kind === 'exists' && isFlight(key, bytes) ? { kind: 'created' } : outcome;
      },
    }),
  },
  {
    name: 'an unknown outcome counts as a copy',
    kills: ['A1', 'A4'],
    mutate: buckets({
      create: () => async (key, bytes, next) => {
        const outcome = await next();
        return outcome.kind === 'unknown' && isFlight(key, bytes) ? { kind: 'created' } : outcome;
      },
    }),
  },
  {
    name: 'a copy counts before anything proves it, though it is there',
    kills: ['A4'],
    mutate: buckets({
      create: () => async (key, bytes, next) => {
        if (!isFlight(key, bytes)) return next();
        // Right in most cases, which is why only the missing evidence gives it away.
        void next();
        return { kind: 'created' };
      },
    }),
  },
  {
    name: 'a fencer takes a poison of unknown outcome for placed',
    kills: ['F1', 'F2', 'F3', 'F4'],
    mutate: buckets({
      create: () => async (key, bytes, next) => {
        const outcome = await next();
        const lies = addressOf(key) !== undefined && kindOf(bytes) === 'poison';
        return lies && outcome.kind !== 'created' ? { kind: 'created' } : outcome;
      },
      read: () => async (_key, next) => next(),
    }),
  },
  {
    name: 'the blocking set is one bucket too small',
    kills: ['F1', 'F2'],
    quorum: '3/2',
    rules: {
      classify: (quorum, seen) => {
        const found = FENCE_RULES_INTACT.classify(quorum, seen);
        if (found.kind === 'committed') return found;
        const poisons = seen.subarray(0, quorum.buckets).filter((cell) => cell === 3).length;
        return poisons >= quorum.buckets - quorum.copies ? { kind: 'dead' } : found;
      },
    },
  },
  {
    name: 'a slot with a flight is poisoned instead of repaired',
    kills: ['F3', 'F1', 'F2', 'F4'],
    rules: {
      classify: (quorum, seen) => {
        const found = FENCE_RULES_INTACT.classify(quorum, seen);
        return found.kind === 'repair' ? { kind: 'poison', bucket: found.empty[0]! } : found;
      },
    },
  },
  {
    name: 'buckets that do not answer count as poisoned',
    kills: ['F1', 'F2'],
    rules: {
      classify: (quorum, seen) => {
        const guess = seen.map((cell) => (cell === 0 ? 3 : cell));
        return FENCE_RULES_INTACT.classify(quorum, guess);
      },
    },
  },
  { name: 'the cut is published one slot low', kills: ['F1'], mutate: movedCut(() => -1) },
  { name: 'the cut is published one slot high', kills: ['F4', 'F1'], mutate: movedCut(() => 1) },
  {
    name: 'two fencers derive different cuts',
    kills: ['F3'],
    mutate: movedCut((process) => (process.name.startsWith('a') ? 0 : 1)),
  },
  {
    name: 'the writer record is taken for written before it is',
    kills: ['T1'],
    mutate: metastore({
      put: () => async (key, value, send) => {
        if (!WRITER.test(key)) return send(value);
        void send(value).catch(() => undefined);
        return { kind: 'applied', version: 'not known yet' };
      },
    }),
  },
  {
    name: 'a stream is released above its tail',
    kills: ['N'],
    mutate: rewriting(WRITER, (record) =>
      record['kind'] === 'released' ? { ...record, tail: Number(record['tail']) + 1 } : record,
    ),
  },
  {
    name: 'the checkpoint runs one slot ahead of the rows',
    kills: ['B', 'F3', 'internal'],
    mutate: rewriting(EPOCH, (record) =>
      record['state'] === 'open' && Number(record['checkpoint']) > 0
        ? { ...record, checkpoint: Number(record['checkpoint']) + 1 }
        : record,
    ),
  },
  {
    name: 'a row maps a neighbouring slot',
    kills: ['S4'],
    mutate: rewriting(ROW, (record) => ({
      ...record,
      spans: (record['spans'] as { slot: number }[]).map((span) => ({
        ...span,
        slot: span.slot + 1,
      })),
    })),
  },
  {
    name: 'the tail is taken from the last row but one',
    kills: ['T2', 'S4', 'A1', 'N', 'internal'],
    mutate: metastore({
      lastChild: async (inner, prefix, found) => {
        if (found === undefined || !prefix.endsWith('/refs/')) return found;
        return (await inner.children(prefix)).at(-2) ?? found;
      },
    }),
  },
  {
    name: 'an empty slot is taken for a confirmation, whatever stands in it',
    kills: ['L1'],
    mutate: buckets({
      read: () => async (key, next) => {
        const outcome = await next();
        const blind = outcome.kind === 'found' && kindOf(outcome.bytes) === 'poison';
        return blind && addressOf(key) !== undefined ? { kind: 'absent' } : outcome;
      },
    }),
  },
];

const FENCE_RULES_INTACT: FenceRules = { ...FENCE_RULES };

/** Runs with the rules of the walk changed, and puts them back. */
export async function withRules<T>(rules: Partial<FenceRules>, run: () => Promise<T>): Promise<T> {
  Object.assign(FENCE_RULES, rules);
  try {
    return await run();
  } finally {
    Object.assign(FENCE_RULES, FENCE_RULES_INTACT);
  }
}

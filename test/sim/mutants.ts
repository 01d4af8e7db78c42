/**
 * Planted breaks, at least one for each checker. Each stands for a mistake that an engine could
 * make; test/sim/mutants.sim.test.ts shows that the checker notices it, with all others deaf.
 */
import type { Position, ReadRecord, RecordReader, Stream } from '../../src/engine/api.ts';
import { encodePreamble, parsePreamble } from '../../src/format/preamble.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { MetaEntry } from '../../src/ports/metastore.ts';
import { FENCE_RULES, type FenceRules } from '../../src/protocol/fence.ts';
import { encodeRecordValue } from '../../src/protocol/records.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import {
  jsonOf,
  lyingBuckets,
  lyingMetastore,
  rewriting,
  type Json,
  type Mutation,
} from './lies.ts';
import { addressOf } from './slot-index.ts';

export interface Mutant {
  readonly name: string;
  /** The checker that must notice. */
  readonly rule: string;
  readonly mutate?: Mutation;
  /** Stands between callers and a stream. */
  readonly stream?: (stream: Stream) => Stream;
  /** Rules of the walk that are changed. */
  readonly walk?: Partial<FenceRules>;
  /** Seeds of this shape only: K / W as `3/2`. */
  readonly quorum?: string;
}

const EPOCH = /^chains\/[^/]+\/\d+$/;
const WRITER = /^streams\/[^/]+\/writer$/;
const ROW = /^streams\/[^/]+\/refs\//;
const EMPTY_CELL = 1;
const FLIGHT_CELL = 2;
const POISON_CELL = 3;
const INTACT: FenceRules = { ...FENCE_RULES };

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

function movedCut(by: (process: SimulatedProcess) => number): Mutation {
  return rewriting(EPOCH, (record, process) =>
    typeof record['cut'] === 'number'
      ? { ...record, cut: Math.max(Number(record['checkpoint']), record['cut'] + by(process)) }
      : record,
  );
}

const everyConflictCounts = lyingBuckets(() => ({
  async create(key, bytes, send) {
    const outcome = await send(bytes);
    return outcome.kind === 'exists' && isFlight(key, bytes) ? { kind: 'created' } : outcome;
  },
}));

const smallBlockingSet: Partial<FenceRules> = {
  blockingSet: ({ buckets, copies }) => Math.max(1, buckets - copies),
  classify: (quorum, seen) => {
    const found = INTACT.classify(quorum, seen);
    if (found.kind === 'committed') return found;
    const poisons = seen.subarray(0, quorum.buckets).filter((cell) => cell === POISON_CELL).length;
    return poisons >= Math.max(1, quorum.buckets - quorum.copies) ? { kind: 'dead' } : found;
  },
};

const silenceIsPoison: Partial<FenceRules> = {
  classify: (quorum, seen) =>
    INTACT.classify(
      quorum,
      seen.map((cell) => (cell === 0 ? POISON_CELL : cell)),
    ),
};

/** Acknowledges rows without storing them, and shows them to nobody else. */
export const rowsInMemory = lyingMetastore(() => {
  const rows = new Map<string, MetaEntry>();
  return {
    put: async (key, value, expected, send) => {
      if (!ROW.test(key) || expected !== 'absent') return send(value);
      rows.set(key, { key, value: value.slice(), version: `memory ${rows.size}` });
      return { kind: 'applied', version: `memory ${rows.size - 1}` };
    },
    lastChild: (prefix, found) => {
      const own = [...rows.values()].filter(({ key }) => key.startsWith(prefix));
      return [...own, ...(found === undefined ? [] : [found])]
        .sort((a, b) => (a.key < b.key ? -1 : 1))
        .at(-1);
    },
  };
});

/** Takes every tenure for the own one. */
const everyTenureIsOwn = lyingMetastore(() => {
  let own: Json | undefined;
  return {
    put: (key, value, _expected, send) => {
      if (EPOCH.test(key)) {
        const { star, incarnation, epoch, class: storageClass, state } = jsonOf(value);
        if (state === 'open') own = { star, incarnation, class: storageClass, epoch };
      }
      return send(value);
    },
    found: (entry) => {
      if (!WRITER.test(entry.key) || own === undefined) return entry;
      const record = jsonOf(entry.value);
      if (record['kind'] !== 'tenure') return entry;
      return { ...entry, value: encodeRecordValue({ ...record, tenure: own }) };
    },
  };
});

/** Finds the slot after the highest written one empty without looking. */
const blindConfirmation = lyingBuckets((_bucket, process) => {
  const highest = new Map<number, number>();
  return {
    create: (key, bytes, send) => {
      const address = addressOf(key);
      if (address !== undefined && isFlight(key, bytes) && address.star === starOf(process)) {
        highest.set(address.epoch, Math.max(highest.get(address.epoch) ?? -1, address.slot));
      }
      return send(bytes);
    },
    readHead: async (key, ask) => {
      const address = addressOf(key);
      if (address?.star !== starOf(process)) return ask();
      const isNext = address.slot === (highest.get(address.epoch) ?? -1) + 1;
      return isNext && highest.has(address.epoch) ? { kind: 'absent' } : ask();
    },
  };
});

function starOf(process: SimulatedProcess): string {
  return process.name.split('.')[0]!;
}

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

function without(reader: RecordReader, isSkipped: (seqNum: number) => boolean): RecordReader {
  async function* left(): AsyncGenerator<ReadRecord> {
    for await (const record of reader) if (!isSkipped(record.seqNum)) yield record;
  }
  return { batches: () => reader.batches(), [Symbol.asyncIterator]: left };
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a bucket says created and stores nothing',
    rule: 'A1',
    mutate: lyingBuckets((bucket) => ({
      create: async (key, bytes, send) =>
        bucket.name === 'bucket-0' && isFlight(key, bytes) ? { kind: 'created' } : send(bytes),
    })),
  },
  { name: 'every 412 counts as an own copy', rule: 'A1', mutate: everyConflictCounts },
  {
    name: 'a flight of unknown outcome is sealed anew before it is sent again',
    rule: 'A2',
    mutate: lyingBuckets(() => {
      const tried = new Set<string>();
      return {
        create: (key, bytes, send) => {
          const again = isFlight(key, bytes) && tried.has(key);
          tried.add(key);
          return send(again ? resealed(bytes) : bytes);
        },
      };
    }),
  },
  {
    name: 'a writer does not recognise poison',
    rule: 'A3',
    mutate: lyingBuckets(() => ({
      async create(key, bytes, send) {
        const outcome = await send(bytes);
        const blind =
          outcome.kind === 'exists' && isFlight(key, bytes) && kindOf(outcome.head) === 'poison';
        return blind ? { kind: 'unknown', cause: undefined as never } : outcome;
      },
      async readHead(_key, ask) {
        const outcome = await ask();
        const blind = outcome.kind === 'found' && kindOf(outcome.bytes) === 'poison';
        return blind ? { kind: 'absent' } : outcome;
      },
    })),
  },
  {
    name: 'an unknown outcome counts as a copy',
    rule: 'A4',
    mutate: lyingBuckets(() => ({
      async create(key, bytes, send) {
        const outcome = await send(bytes);
        return outcome.kind === 'unknown' && isFlight(key, bytes) ? { kind: 'created' } : outcome;
      },
    })),
  },
  {
    name: 'a passed deadline is reported as a definite failure',
    rule: 'A5',
    stream: (stream) => ({
      ...facade(stream),
      append: (records, options) =>
        stream.append(records, { ...options, timeoutMillis: 15 }).catch((error: unknown) => {
          const { code } = error as EngineError;
          throw new EngineError(code, 'nothing was appended', { sideEffects: 'none' });
        }),
    }),
  },
  { name: 'the cut is published one slot low', rule: 'F1', mutate: movedCut(() => -1) },
  {
    name: 'the blocking set is one bucket too small',
    rule: 'F1',
    walk: smallBlockingSet,
    quorum: '3/2',
  },
  { name: 'buckets that do not answer count as poisoned', rule: 'F1', walk: silenceIsPoison },
  { name: 'a writer counts poison as a copy', rule: 'F2', mutate: everyConflictCounts },
  {
    name: 'two fencers derive different cuts',
    rule: 'F3',
    mutate: movedCut((process) => (starOf(process) === 'a' ? 0 : 1)),
  },
  { name: 'the cut is published one slot high', rule: 'F4', mutate: movedCut(() => 1) },
  {
    name: 'the walk starts above the highest flight seen',
    rule: 'F4',
    walk: { startOf: (highest) => highest + 1 },
  },
  {
    name: 'a probe takes poison for a flight',
    rule: 'F4',
    walk: { probeCounts: (cell) => cell === FLIGHT_CELL || cell === POISON_CELL },
  },
  {
    name: 'a slot with a flight is poisoned instead of repaired',
    rule: 'C',
    walk: {
      classify: (quorum, seen) => {
        const found = INTACT.classify(quorum, seen);
        return found.kind === 'repair'
          ? { kind: 'poison', bucket: seen.indexOf(EMPTY_CELL) }
          : found;
      },
    },
  },
  { name: 'rows are acknowledged and not stored', rule: 'S3', mutate: rowsInMemory },
  {
    name: 'a row maps a neighbouring slot',
    rule: 'S4',
    mutate: rewriting(ROW, (record) => ({
      ...record,
      spans: (record['spans'] as { slot: number }[]).map((span) => ({
        ...span,
        slot: span.slot + 1,
      })),
    })),
  },
  {
    name: 'the checkpoint runs one slot ahead of the rows',
    rule: 'B',
    mutate: rewriting(EPOCH, (record) =>
      record['state'] === 'open' && Number(record['checkpoint']) > 0
        ? { ...record, checkpoint: Number(record['checkpoint']) + 1 }
        : record,
    ),
  },
  {
    name: 'the writer record is taken for written before it is',
    rule: 'T1',
    mutate: lyingMetastore(() => ({
      put: async (key, value, _expected, send) => {
        if (!WRITER.test(key)) return send(value);
        void send(value).catch(() => undefined);
        return { kind: 'applied', version: 'not known yet' };
      },
    })),
  },
  {
    name: 'positions are off by one',
    rule: 'T2',
    stream: (stream) => ({
      ...facade(stream),
      async append(records, options) {
        const ack = await stream.append(records, options);
        const moved = ({ seqNum, timestamp }: Position): Position => ({
          seqNum: seqNum + 1,
          timestamp,
        });
        return { start: moved(ack.start), end: moved(ack.end), tail: moved(ack.tail) };
      },
    }),
  },
  {
    name: 'a reader skips a record now and then',
    rule: 'T2',
    stream: (stream) => ({
      ...facade(stream),
      read: (options) => without(stream.read(options), (seqNum) => seqNum % 7 === 6),
    }),
  },
  {
    name: 'a tail is remembered',
    rule: 'L1',
    stream: (stream) => {
      let known: Promise<Position> | undefined;
      return { ...facade(stream), checkTail: (options) => (known ??= stream.checkTail(options)) };
    },
  },
  { name: 'every tenure is taken for the own one', rule: 'T6', mutate: everyTenureIsOwn },
  {
    name: 'a stream is released above its tail',
    rule: 'N',
    mutate: rewriting(WRITER, (record) =>
      record['kind'] === 'released' ? { ...record, tail: Number(record['tail']) + 1 } : record,
    ),
  },
  { name: 'a tail is confirmed without looking', rule: 'L1', mutate: blindConfirmation },
];

/** Runs with the rules of the walk changed, and puts them back. */
export async function withWalk<T>(rules: Partial<FenceRules>, run: () => Promise<T>): Promise<T> {
  Object.assign(FENCE_RULES, rules);
  try {
    return await run();
  } finally {
    Object.assign(FENCE_RULES, INTACT);
  }
}

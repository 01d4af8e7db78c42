/**
 * Engines with a planted break, each one a mistake that an engine could make. Nothing but the
 * histories of their clients is looked at: the checker must reject them.
 */
import type { Position, ReadRecord, RecordReader, Stream } from '../../src/engine/api.ts';
import { parsePreamble } from '../../src/format/preamble.ts';
import { EngineError } from '../../src/lib/errors.ts';
import { facade, lyingBuckets, rewriting, type Mutation } from '../sim/lies.ts';

export interface Break {
  readonly name: string;
  /** The seed to begin with: one that shows it, as long as worlds stay as they are. */
  readonly from: number;
  readonly mutate?: Mutation;
  /** Stands between clients and a stream. */
  readonly stream?: (stream: Stream) => Stream;
}

const EPOCH = /^chains\/[^/]+\/\d+$/;

function isFlight(bytes: Uint8Array): boolean {
  const read = parsePreamble(bytes);
  return read.ok && read.preamble.kind === 'flight';
}

const everyConflictCounts = lyingBuckets(() => ({
  async create(_key, bytes, send) {
    const outcome = await send(bytes);
    return outcome.kind === 'exists' && isFlight(bytes) ? { kind: 'created' } : outcome;
  },
}));

const lowCut = rewriting(EPOCH, (record) =>
  typeof record['cut'] === 'number'
    ? { ...record, cut: Math.max(Number(record['checkpoint']), record['cut'] - 1) }
    : record,
);

async function* skipping(
  batches: AsyncIterable<readonly ReadRecord[]>,
): AsyncGenerator<readonly ReadRecord[]> {
  for await (const batch of batches) yield batch.filter(({ seqNum }) => seqNum % 7 !== 6);
}

function skippingReader(reader: RecordReader): RecordReader {
  const batches = (): AsyncGenerator<readonly ReadRecord[]> => skipping(reader.batches());
  return {
    batches,
    async *[Symbol.asyncIterator]() {
      for await (const batch of batches()) yield* batch;
    },
  };
}

export const BREAKS: readonly Break[] = [
  {
    name: 'a tail is remembered',
    from: 0,
    stream: (stream) => {
      let known: Promise<Position> | undefined;
      return { ...facade(stream), checkTail: (options) => (known ??= stream.checkTail(options)) };
    },
  },
  {
    name: 'positions are off by one',
    from: 0,
    stream: (stream) => ({
      ...facade(stream),
      async append(records, options) {
        const { start, end, tail } = await stream.append(records, options);
        return { start, end: { ...end, seqNum: end.seqNum + 1 }, tail };
      },
    }),
  },
  {
    name: 'a reader skips a record now and then',
    from: 0,
    stream: (stream) => ({
      ...facade(stream),
      read: (options) => skippingReader(stream.read(options)),
    }),
  },
  {
    name: 'conditions of appends are not looked at',
    from: 4,
    stream: (stream) => ({
      ...facade(stream),
      append: (records, { signal, timeoutMillis } = {}) =>
        stream.append(records, { signal, timeoutMillis }),
    }),
  },
  {
    name: 'a passed deadline is reported as a definite failure',
    from: 1,
    stream: (stream) => ({
      ...facade(stream),
      append: (records, options) =>
        stream.append(records, { ...options, timeoutMillis: 10 }).catch((error: unknown) => {
          const { code } = error as EngineError;
          throw new EngineError(code, 'nothing was appended', { sideEffects: 'none' });
        }),
    }),
  },
  {
    name: 'an append of unknown outcome is sent again',
    from: 1,
    stream: (stream) => ({
      ...facade(stream),
      append: (records, options) =>
        stream
          .append(records, { ...options, timeoutMillis: 10 })
          .catch(() => stream.append(records, options)),
    }),
  },
  { name: 'every 412 counts as an own copy', from: 47, mutate: everyConflictCounts },
  { name: 'the cut is published one slot low', from: 1, mutate: lowCut },
];

/**
 * Names of streams: `names/<basin>/<hex>` leads to an id that is never used again.
 * Source: DESIGN "Metastore", T5.
 */
import { EngineError } from '../src/lib/errors.ts';
import { assert } from '../src/lib/assert.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import {
  nameHex,
  nameKey,
  nameOfHex,
  namesPrefix,
  streamKey,
  writerKey,
} from '../src/protocol/keys.ts';
import {
  encodeRecordValue,
  nameRecord,
  parseRecordValue,
  streamRecord,
  type StreamConfig,
  type StreamRecord,
} from '../src/protocol/records.ts';
import { partitionOf, type MetaEntry } from '../src/ports/metastore.ts';
import { conditionalDelete, conditionalPut } from './conditional-write.ts';
import { isDeleted } from './deleted-stream.ts';
import type { StarPorts } from './ports.ts';

type NamePorts = Pick<StarPorts, 'clock' | 'random' | 'metastore'>;

const LIST_PARALLEL = 32;

/** Where a name leads; may be old, as every read. */
export interface NamedStream {
  readonly entry: MetaEntry;
  readonly stream: string;
}

/** The id a name leads to, or undefined. May be stale: `writer` decides (T5). */
export async function lookUpName(
  ports: NamePorts,
  basin: string,
  name: string,
  options: WaitOptions = {},
): Promise<NamedStream | undefined> {
  const entry = await ports.metastore.get(nameKey(basin, name), { signal: options.signal });
  if (entry === undefined) return undefined;
  return { entry, stream: streamOf(entry) };
}

/** The stream a name leads to, or undefined; a deleted stream counts as absent (T5). Writes nothing. */
export async function lookUpStream(
  ports: NamePorts,
  basin: string,
  name: string,
  options: WaitOptions = {},
): Promise<StreamRecord | undefined> {
  const named = await lookUpName(ports, basin, name, options);
  return named === undefined ? undefined : readLiveStream(ports, named.entry, options);
}

/**
 * Creates the stream and its name.
 *
 * @returns the record and whether this call created it: the name may be another's by then.
 */
export async function registerStream(
  ports: NamePorts,
  request: { readonly basin: string; readonly name: string; readonly config: StreamConfig },
  options: WaitOptions = {},
): Promise<{ readonly created: boolean; readonly record: StreamRecord }> {
  const { metastore, clock, random } = ports;
  const context = { clock, random, ...options };
  const stream = random.hex(16);
  const draft = { ...request, stream, createdAtMillis: clock.now() };
  const created = await conditionalPut(
    metastore,
    {
      key: streamKey(stream),
      expected: 'absent',
      encode: (attempt: string) => encodeRecordValue({ ...draft, attempt }),
    },
    context,
  );
  const key = nameKey(request.basin, request.name);
  for (;;) {
    const named = await conditionalPut(
      metastore,
      {
        key,
        expected: 'absent',
        encode: (attempt: string) => encodeRecordValue({ stream, attempt }),
      },
      context,
    );
    if (named.kind === 'applied') return { created: true, record: { ...draft, attempt: '' } };
    if (named.current === undefined) continue;
    // An earlier attempt of ours came through late: the stream is the one just made.
    if (streamOf(named.current) === stream)
      return { created: true, record: { ...draft, attempt: '' } };
    const winner = await readLiveStream(ports, named.current, options);
    if (winner !== undefined) {
      await forsake(ports, stream, options);
      if (created.kind === 'applied') {
        const { version } = created;
        await conditionalDelete(metastore, { key: streamKey(stream), expected: version }, context);
      }
      return { created: false, record: winner };
    }
    // It leads to a deleted stream: nobody needs it any more.
    await conditionalDelete(metastore, { key, expected: named.current.version }, context);
  }
}

/** T5: who loses a name to another id ends its own id before it answers. */
async function forsake(ports: NamePorts, stream: string, options: WaitOptions): Promise<void> {
  const { metastore, clock, random } = ports;
  await conditionalPut(
    metastore,
    {
      key: writerKey(stream),
      expected: 'absent',
      encode: (attempt: string) => encodeRecordValue({ kind: 'deleted', attempt }),
    },
    { clock, random, ...options },
  );
}

/**
 * Removes a name that leads to the deleted stream; a name that leads elsewhere by now stays. Looks
 * behind a barrier: what is read of the name next is no older, so that nobody is led here again.
 */
export async function removeName(
  ports: NamePorts,
  basin: string,
  name: string,
  streamId: string,
  options: WaitOptions = {},
): Promise<void> {
  const { metastore, clock, random } = ports;
  const key = nameKey(basin, name);
  await metastore.barrier(partitionOf(key), { signal: options.signal });
  const entry = await metastore.get(key, { signal: options.signal });
  if (entry === undefined) return;
  if (streamOf(entry) !== streamId) return;
  await conditionalDelete(
    metastore,
    { key, expected: entry.version },
    { clock, random, ...options },
  );
}

export interface ListRequest {
  readonly basin: string;
  readonly prefix: string;
  readonly startAfter: string | undefined;
  readonly limit: number;
}

/** One page of streams in the byte order of their names; deleted ones are left out. */
export async function listStreamRecords(
  ports: NamePorts,
  request: ListRequest,
  options: WaitOptions = {},
): Promise<{ readonly records: readonly StreamRecord[]; readonly more: boolean }> {
  const under = namesPrefix(request.basin);
  const records: StreamRecord[] = [];
  let after = request.startAfter === undefined ? undefined : under + nameHex(request.startAfter);
  for (;;) {
    const want = request.limit + 1 - records.length;
    const entries = await ports.metastore.children(under + nameHex(request.prefix), {
      signal: options.signal,
      limit: want,
      ...(after === undefined ? {} : { startAfter: after }),
    });
    for (let start = 0; start < entries.length; start += LIST_PARALLEL) {
      const chunk = entries.slice(start, start + LIST_PARALLEL);
      const found = await Promise.all(chunk.map((entry) => readLiveStream(ports, entry, options)));
      records.push(...found.filter((record) => record !== undefined));
    }
    after = entries.at(-1)?.key;
    if (entries.length < want || records.length > request.limit) break;
  }
  return { records: records.slice(0, request.limit), more: records.length > request.limit };
}

async function readLiveStream(
  ports: NamePorts,
  entry: MetaEntry,
  options: WaitOptions,
): Promise<StreamRecord | undefined> {
  if (await isDeleted(ports, streamOf(entry), options.signal)) return undefined;
  return readNamedStream(ports, entry, options);
}

function streamOf({ key, value }: MetaEntry): string {
  return parseRecordValue(nameRecord, key, value).stream;
}

/** Undefined for a name that still leads to a deleted stream whose record is gone. */
export async function readNamedStream(
  ports: NamePorts,
  name: MetaEntry,
  options: WaitOptions,
): Promise<StreamRecord | undefined> {
  const stream = streamOf(name);
  const key = streamKey(stream);
  let entry = await ports.metastore.get(key, { signal: options.signal });
  if (entry === undefined) {
    // The name may be newer than what this partition answered: an absence counts after a barrier.
    await ports.metastore.barrier(partitionOf(key), { signal: options.signal });
    entry = await ports.metastore.get(key, { signal: options.signal });
  }
  if (entry === undefined) {
    const hex = name.key.slice(name.key.lastIndexOf('/') + 1);
    if (await isDeleted(ports, stream, options.signal)) return undefined;
    throw new EngineError('METASTORE_CORRUPT', 'a name leads to a stream without a record', {
      details: { name: nameOfHex(hex), key },
    });
  }
  const record = parseRecordValue(streamRecord, key, entry.value);
  assert(record.stream === stream, 'a stream record names its own id');
  return record;
}

/** The engine without storage: what its own work costs, against encoding, checksum and copies alone. */
import { memoryComponents } from '../src/engine/components.ts';
import { crc32 } from '../src/format/crc.ts';
import { encodeRecord, recordEncodedBytes } from '../src/format/records.ts';
import type { BucketStore, CreateOutcome } from '../src/ports/bucket-store.ts';
import { DEFAULT_SETTINGS } from '../src/protocol/settings.ts';
import { batchOf, batchPayloadBytes, openLoadEngine, runLoad } from './_append-load.ts';
import type { Load, LoadMode } from './_append-load.ts';
import { cpuSeconds, rounded, rowOf, type Pair, type Row } from './_rows.ts';

const MIB = 1 << 20;
const SHAPES = [
  { buckets: 1, copyQuorum: 1 },
  { buckets: 3, copyQuorum: 2 },
];
const NO_HEADERS: [] = [];

export async function memoryRows(smoke: boolean): Promise<Row[]> {
  const rows: Row[] = [];
  for (const shape of SHAPES) {
    for (const recordBytes of [100, 1024]) {
      for (const mode of ['closed', 'saturated'] as const) {
        rows.push(await measure(shape, recordBytes, mode, smoke));
      }
    }
  }
  return rows;
}

async function measure(
  shape: (typeof SHAPES)[number],
  recordBytes: number,
  mode: LoadMode,
  smoke: boolean,
): Promise<Row> {
  const payloadBytes = (smoke ? 4 : 256) * MIB;
  const batches = Math.ceil(payloadBytes / batchPayloadBytes(recordBytes));
  const load: Load = { recordBytes, batches, mode };
  const loaded = await openLoadEngine({
    components: memoryComponents({ buckets: shape.buckets }),
    settings: { copyQuorum: shape.copyQuorum },
    wrap: (_, store) => new CopyingBucket(store),
  });
  const pairs: Pair[] = [];
  try {
    await runLoad(loaded.streams, load);
    bareAppends(load, shape.buckets);
    for (let round = 0; round < (smoke ? 1 : 7); round++) {
      const before = process.cpuUsage();
      const { records } = await runLoad(loaded.streams, load);
      const engine = records / cpuSeconds(before);
      pairs.push({ floor: records / bareAppends(load, shape.buckets), engine });
    }
  } finally {
    await loaded.close();
  }
  const name = `memory K=${shape.buckets}/W=${shape.copyQuorum}, ${recordBytes} B, ${mode}`;
  const row = rowOf(`${name}, of encode + checksum + copies`, 'records/s of CPU', pairs);
  return {
    ...row,
    engineNanosPerRecord: rounded(1e9 / row.engine),
    floorNanosPerRecord: rounded(1e9 / row.floor),
  };
}

/** Copies flights into memory that it uses again, so that no round pays for new memory. */
class CopyingBucket implements BucketStore {
  readonly #store: BucketStore;
  readonly #memory = new Uint8Array(4 * MIB);

  constructor(store: BucketStore) {
    this.#store = store;
  }

  get name(): string {
    return this.#store.name;
  }

  createOnly: BucketStore['createOnly'] = async (key, bytes, options): Promise<CreateOutcome> => {
    if (bytes.byteLength < 4096) return this.#store.createOnly(key, bytes, options);
    this.#memory.set(bytes);
    return { kind: 'created' };
  };

  readHead: BucketStore['readHead'] = (...args) => this.#store.readHead(...args);
  readRange: BucketStore['readRange'] = (...args) => this.#store.readRange(...args);
  delete: BucketStore['delete'] = (...args) => this.#store.delete(...args);
  deleteMany: BucketStore['deleteMany'] = (...args) => this.#store.deleteMany(...args);
  list: BucketStore['list'] = (...args) => this.#store.list(...args);
  probe: BucketStore['probe'] = (...args) => this.#store.probe(...args);
  close: BucketStore['close'] = () => this.#store.close();
}

const flight = new Uint8Array(4 * MIB);
const flightView = new DataView(flight.buffer);
const copy = new Uint8Array(4 * MIB);

/** CPU seconds for the same records in flights of the default size, without anything around them. */
function bareAppends({ recordBytes, batches }: Load, copies: number): number {
  const batch = batchOf(recordBytes);
  const batchBytes = batch.length * recordEncodedBytes(batch[0]!.body!, NO_HEADERS);
  const before = process.cpuUsage();
  let end = 0;
  let done = 0;
  while (done < batches) {
    const timestamp = Date.now();
    for (const { body } of batch) {
      end = encodeRecord(flight, flightView, end, timestamp, body!, NO_HEADERS);
    }
    done++;
    if (end + batchBytes <= DEFAULT_SETTINGS.flightBytes && done < batches) continue;
    const bytes = flight.subarray(0, end);
    crc32(bytes);
    for (let index = 0; index < copies; index++) copy.set(bytes);
    end = 0;
  }
  return cpuSeconds(before);
}

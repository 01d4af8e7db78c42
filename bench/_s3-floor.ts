/**
 * Bare loops over undici that put the bytes of flights into K buckets, without an engine: no order, no
 * window in slots, no acknowledgement, no retry. One also does the work that no engine can leave out.
 */
import { Pool, type Dispatcher } from 'undici';
import { amzDate, sha256Hex, Signer } from '../src/adapters/s3/sigv4.ts';
import { crc32 } from '../src/format/crc.ts';
import { encodeRecord, recordEncodedBytes } from '../src/format/records.ts';
import { atTimes } from './_s3-clockwork.ts';
import type { S3Place } from './_s3-engine.ts';

export interface BareFlight {
  readonly sizeBytes: number;
  /** In an open loop: when it is sent, in milliseconds from the start. */
  readonly atMillis?: number;
}

export interface BareOptions extends S3Place {
  readonly buckets: readonly string[];
  readonly copyQuorum: number;
  /** Flights at once. */
  readonly concurrency: number;
  /** Encodes records of this size, sums, hashes and signs; undefined: sends what is there. */
  readonly recordBytes: number | undefined;
}

export interface BareResult {
  /** From the first request until every flight is in W buckets. */
  readonly seconds: number;
  /** Of every flight, until it is in W buckets; in ascending order. */
  readonly storedMillis: Float64Array;
}

const NO_HEADERS: [] = [];
let nextKey = 0;

export class BareLoop {
  readonly #options: BareOptions;
  readonly #pools: readonly Pool[];
  readonly #signer = new Signer({ region: 'us-east-1', service: 's3' });
  readonly #records: Uint8Array;
  readonly #memory: { readonly bytes: Uint8Array; readonly view: DataView }[] = [];
  readonly #host: string;
  #underWay: Promise<unknown>[] = [];

  constructor(options: BareOptions) {
    this.#options = options;
    this.#host = new URL(options.endpoint).host;
    this.#records = new Uint8Array(options.recordBytes ?? 0).fill(7);
    this.#pools = options.buckets.map(
      () => new Pool(options.endpoint, { connections: 64, pipelining: 1 }),
    );
  }

  /** So many at once, each followed by the next. */
  async closed(flights: readonly BareFlight[]): Promise<BareResult> {
    const storedMillis = new Float64Array(flights.length);
    let next = 0;
    const started = performance.now();
    const lane = async (_: unknown, index: number): Promise<void> => {
      for (let at = next++; at < flights.length; at = next++) {
        const begun = performance.now();
        await this.#flight(index, flights[at]!.sizeBytes);
        storedMillis[at] = performance.now() - begun;
      }
    };
    await Promise.all(Array.from({ length: this.#options.concurrency }, lane));
    const seconds = (performance.now() - started) / 1_000;
    await this.#drain();
    return { seconds, storedMillis: storedMillis.sort() };
  }

  /** Each at its time, whatever became of those before. */
  async open(flights: readonly BareFlight[]): Promise<BareResult> {
    const storedMillis = new Float64Array(flights.length);
    const started = performance.now();
    const times = Float64Array.from(flights, ({ atMillis = 0 }) => atMillis);
    await atTimes(times, async (at, dueAt) => {
      await this.#flight(at % this.#options.concurrency, flights[at]!.sizeBytes);
      storedMillis[at] = performance.now() - dueAt;
    });
    const seconds = (performance.now() - started) / 1_000;
    await this.#drain();
    return { seconds, storedMillis: storedMillis.sort() };
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }

  /** Also copies that nobody waits for belong to a round. */
  async #drain(): Promise<void> {
    await Promise.all(this.#underWay);
    this.#underWay = [];
  }

  /** Resolves when W buckets have it. */
  #flight(lane: number, sizeBytes: number): Promise<void> {
    const { buckets, copyQuorum, recordBytes } = this.#options;
    const bytes = this.#memoryOf(lane, sizeBytes);
    let hash: string | undefined;
    if (recordBytes !== undefined) {
      this.#encode(lane, sizeBytes);
      crc32(bytes);
      hash = sha256Hex(bytes);
    }
    const key = `bare/${nextKey++}`;
    return new Promise((resolve, reject) => {
      let stored = 0;
      const all = buckets.map((bucket, index) => {
        const path = `/${bucket}/${key}`;
        const headers = hash === undefined ? BARE_HEADERS : this.#signed(path, hash);
        const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        return put(this.#pools[index]!, path, headers, body).then(() => {
          if (++stored === copyQuorum) resolve();
        }, reject);
      });
      if (buckets.length > copyQuorum) this.#underWay.push(...all);
    });
  }

  #memoryOf(lane: number, sizeBytes: number): Uint8Array {
    let memory = this.#memory[lane];
    if (memory === undefined || memory.bytes.byteLength < sizeBytes) {
      const bytes = new Uint8Array(Math.ceil(sizeBytes / 65_536) * 65_536).fill(1);
      memory = { bytes, view: new DataView(bytes.buffer) };
      this.#memory[lane] = memory;
    }
    return memory.bytes.subarray(0, sizeBytes);
  }

  #encode(lane: number, sizeBytes: number): void {
    const { bytes, view } = this.#memory[lane]!;
    const record = this.#records;
    const recordBytes = recordEncodedBytes(record, NO_HEADERS);
    const timestamp = Date.now();
    for (let end = 0; end + recordBytes <= sizeBytes;) {
      end = encodeRecord(bytes, view, end, timestamp, record, NO_HEADERS);
    }
  }

  #signed(path: string, payloadHash: string): string[] {
    const at = amzDate(Date.now());
    const signed: [string, string][] = [
      ['host', this.#host],
      ['if-none-match', '*'],
      ['x-amz-content-sha256', payloadHash],
      ['x-amz-date', at],
    ];
    const request = { method: 'PUT', path, query: '', headers: signed, payloadHash };
    const headers = ['authorization', this.#signer.authorization(request, this.#options, at)];
    for (const [name, value] of signed) if (name !== 'host') headers.push(name, value);
    return headers;
  }
}

const BARE_HEADERS = ['if-none-match', '*'];

function put(pool: Pool, path: string, headers: string[], body: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: () => undefined,
      onResponseStart: (_, status) => {
        if (status !== 200) reject(new Error(`a bare request was answered ${status}`));
      },
      onResponseData: () => undefined,
      onResponseEnd: () => resolve(),
      onResponseError: (_, error) => reject(error),
    };
    pool.dispatch({ path, method: 'PUT', headers, body }, handler);
  });
}

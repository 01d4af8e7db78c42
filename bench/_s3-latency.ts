/**
 * How long acknowledgements take in an open loop: batches are due at fixed times, whatever became of
 * those before. The bare loop sends the flights that the engine made of them, at the same times.
 */
import type { Stream } from '../src/engine/api.ts';
import { batchOf } from './_append-load.ts';
import { median, quantile, rounded, type Row } from './_rows.ts';
import { atTimes } from './_s3-clockwork.ts';
import { nameOf, openS3Engine, THREE_BUCKETS, type S3Place } from './_s3-engine.ts';
import { BareLoop, type BareFlight } from './_s3-floor.ts';
import type { Sink, SinkService } from './_s3-sink.ts';
import { flightsOf, sizeName, SLOW_MILLIS, SLOW_SHARE, WINDOW } from './_s3-throughput.ts';
import type { Workspace } from './_workspace.ts';

const RECORD_BYTES = 1_024;
const BATCH_RECORDS = 16;
const BATCH_BYTES = RECORD_BYTES * BATCH_RECORDS;
const LINGER_MILLIS = 5;
/** Of what the floor reaches: the bare loop, and where the server takes no time the working one. */
const LOAD = 0.5;
const BARE_SHARE_MAX = 1.15;
/** How much slower the third bucket is made, and by how much that may show. */
const SLOWER = 10;
const CHANGE_MAX = 1.1;
const CALIBRATION_BYTES = 64 << 20;
const CALIBRATION_FLIGHTS_MAX = 400;

export interface LatencyCell {
  readonly flightBytes: number;
  readonly serviceMillis: number;
}

export interface LatencyScale {
  readonly rounds: number;
  readonly seconds: number;
}

interface Latencies {
  readonly ackP50Millis: number;
  readonly ackP99Millis: number;
  readonly floorP99Millis: number;
}

const ALL = THREE_BUCKETS.buckets;

/** All buckets alike, with the tail that storage has; then one of three slower, without the tail. */
export async function latencyRows(
  workspace: Workspace,
  sink: Sink,
  place: S3Place,
  { flightBytes, serviceMillis }: LatencyCell,
  scale: LatencyScale,
): Promise<Row[]> {
  await sink.forget();
  const even: SinkService = { buckets: ALL, millis: serviceMillis };
  await sink.serve(even);
  const settings = { flightBytes, window: WINDOW, lingerMillis: LINGER_MILLIS };
  const engine = await openS3Engine(workspace, place, THREE_BUCKETS, settings);
  const loop = new BareLoop({
    ...place,
    ...THREE_BUCKETS,
    concurrency: WINDOW,
    recordBytes: undefined,
  });
  const shape = nameOf(THREE_BUCKETS);
  const name = `${shape}, open loop, ${sizeName(flightBytes)}, ${serviceMillis} ms`;
  try {
    const rate = LOAD * (await floorRate(place, flightBytes, serviceMillis));
    const round = async (): Promise<Latencies> => {
      engine.log.clear();
      const ackMillis = await appendAtRate(engine.streams, rate, scale.seconds);
      await engine.log.idle();
      const { storedMillis } = await loop.open(flightsOf(engine));
      return {
        ackP50Millis: quantile(ackMillis, 0.5),
        ackP99Millis: quantile(ackMillis, 0.99),
        floorP99Millis: quantile(storedMillis, 0.99),
      };
    };
    const withTail: SinkService = { ...even, slowShare: SLOW_SHARE, slowMillis: SLOW_MILLIS };
    const slower: SinkService = { buckets: ALL.slice(2), millis: SLOWER * serviceMillis };
    const [tail, alike, uneven]: [Latencies[], Latencies[], Latencies[]] = [[], [], []];
    // What compilers and connections need.
    await round();
    for (let left = scale.rounds; left > 0; left--) {
      await sink.serve(serviceMillis === 0 ? even : withTail);
      tail.push(await round());
      if (serviceMillis === 0) continue;
      await sink.serve(even);
      alike.push(await round());
      await sink.serve(slower, even);
      uneven.push(await round());
    }
    const details = { megabytesPerSecond: rounded(rate / 1e6), lingerMillis: LINGER_MILLIS };
    const rows = [tailRow(`${name}, ack p99 of the bare loop's`, tail, details)];
    if (alike.length > 0) rows.push(unevenRow(`${name}, one bucket 10x slower`, alike, uneven));
    return rows;
  } finally {
    await Promise.all([engine.close(), loop.close()]);
  }
}

/** Bytes a second that the floor of this server stores in flights of this size. */
async function floorRate(
  place: S3Place,
  flightBytes: number,
  serviceMillis: number,
): Promise<number> {
  const recordBytes = serviceMillis === 0 ? RECORD_BYTES : undefined;
  const loop = new BareLoop({ ...place, ...THREE_BUCKETS, concurrency: WINDOW, recordBytes });
  const count = Math.min(CALIBRATION_FLIGHTS_MAX, CALIBRATION_BYTES / flightBytes);
  const flights: BareFlight[] = Array.from({ length: count }, () => ({ sizeBytes: flightBytes }));
  await loop.closed(flights);
  const { seconds } = await loop.closed(flights);
  await loop.close();
  return (flights.length * flightBytes) / seconds;
}

/** Milliseconds from when each batch was due until it was acknowledged, in ascending order. */
async function appendAtRate(
  streams: readonly Stream[],
  bytesPerSecond: number,
  seconds: number,
): Promise<Float64Array> {
  const batch = batchOf(RECORD_BYTES, BATCH_RECORDS);
  const count = Math.ceil((bytesPerSecond * seconds) / BATCH_BYTES);
  const ackMillis = new Float64Array(count);
  const times = Float64Array.from(ackMillis, (_, at) => (at * BATCH_BYTES * 1e3) / bytesPerSecond);
  await atTimes(times, async (at, dueAt) => {
    const ticket = await streams[at % streams.length]!.submit(batch);
    await ticket.ack();
    ackMillis[at] = performance.now() - dueAt;
  });
  return ackMillis.sort();
}

function medianOf(all: readonly Latencies[], key: keyof Latencies): number {
  return rounded(median(all.map((each) => each[key])));
}

function tailRow(
  name: string,
  all: readonly Latencies[],
  details: Readonly<Record<string, number>>,
): Row {
  const floor = medianOf(all, 'floorP99Millis');
  const engine = medianOf(all, 'ackP99Millis');
  const allowed = (each: Latencies): number => LINGER_MILLIS + BARE_SHARE_MAX * each.floorP99Millis;
  return {
    name,
    floor,
    engine,
    // Of what is allowed: 1 and above keeps the promise.
    ratio: rounded(median(all.map((each) => allowed(each) / each.ackP99Millis))),
    target: 1,
    unit: 'ms, of linger + 1.15 x floor',
    ackP50Millis: medianOf(all, 'ackP50Millis'),
    ackP99Millis: engine,
    floorP99Millis: floor,
    ...details,
  };
}

function unevenRow(name: string, alike: readonly Latencies[], uneven: readonly Latencies[]): Row {
  const floor = medianOf(alike, 'ackP99Millis');
  const engine = medianOf(uneven, 'ackP99Millis');
  const ratios = alike.map((each, round) => each.ackP99Millis / uneven[round]!.ackP99Millis);
  return {
    name,
    floor,
    engine,
    ratio: rounded(median(ratios)),
    target: rounded(1 / CHANGE_MAX),
    unit: 'ms, ack p99 with all alike',
    ackP50Millis: medianOf(uneven, 'ackP50Millis'),
    ackP99Millis: engine,
    floorP99Millis: medianOf(uneven, 'floorP99Millis'),
  };
}

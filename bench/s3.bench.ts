/**
 * Appends through the whole engine into buckets of an S3 server that does next to nothing, against bare
 * loops that run in the same process, in turns. What each row means: README.md beside this file.
 */
import { benchOptions } from './_harness.ts';
import type { Row } from './_rows.ts';
import { ONE_BUCKET, THREE_BUCKETS } from './_s3-engine.ts';
import { latencyRows, type LatencyCell, type LatencyScale } from './_s3-latency.ts';
import { Sink } from './_s3-sink.ts';
import { rgwRows } from './_s3-rgw.ts';
import { headroomRows, idleRow } from './_s3-sink-rows.ts';
import { cellName, throughputRows, type Cell, type Scale } from './_s3-throughput.ts';
import { Workspace } from './_workspace.ts';

const { json, smoke } = benchOptions();
/** A part of the names of the rows wanted. */
const only = process.env['BENCH_ONLY'];
/** Ceph's gateway besides: minutes more, and packages to be had first. */
const wantsRgw = process.argv.includes('--rgw');
const KIB = 1 << 10;

const SCALE: Scale = smoke
  ? { rounds: 1, seconds: 0.05, warmUpFlights: 8, fillsPool: false }
  : { rounds: 7, seconds: 0.4, warmUpFlights: 300, fillsPool: true };
/** One request in a hundred is slow: a turn has to hold some of them, or rounds differ by their number. */
const TAIL_SCALE: Scale = smoke ? SCALE : { ...SCALE, rounds: 5, seconds: 1.5 };
/** Short turns: the zone keeps everything in 2 GB of memory. */
const RGW_SCALE: Scale = { rounds: 7, seconds: 0.15, warmUpFlights: 16, fillsPool: false };
const LATENCY_SCALE: LatencyScale = smoke
  ? { rounds: 1, seconds: 0.2 }
  : { rounds: 7, seconds: 0.7 };
const LATENCY_CELLS: readonly LatencyCell[] = [
  { flightBytes: 64 * KIB, serviceMillis: 20 },
  { flightBytes: 1_024 * KIB, serviceMillis: 20 },
  { flightBytes: 64 * KIB, serviceMillis: 0 },
];

function* cells(): Iterable<Cell> {
  for (const serviceMillis of [0, 20]) {
    for (const shape of [ONE_BUCKET, THREE_BUCKETS]) {
      for (const recordBytes of [100, 1_024]) {
        for (const flightBytes of [64 * KIB, 1_024 * KIB, 4_096 * KIB]) {
          yield { shape, recordBytes, flightBytes, serviceMillis };
        }
      }
    }
  }
}

/** Of a smoke run: enough to pass through all of the code. */
function isSmokeCell({ shape, recordBytes, flightBytes }: Cell): boolean {
  return shape === THREE_BUCKETS && recordBytes === 100 && flightBytes === 64 * KIB;
}

const workspace = new Workspace();
const sink = await Sink.start();
const place = { endpoint: sink.endpoint, accessKeyId: 'bench', secretAccessKey: 'bench' };
const rows: Row[] = [];

async function add(name: string, measure: () => Promise<readonly Row[]>): Promise<void> {
  if (only !== undefined && !name.includes(only)) return;
  const more = await measure();
  rows.push(...more);
  if (!json) for (const row of more) print(row);
}

function print({ name, floor, engine, ratio, unit, ...details }: Row): void {
  console.log(`${name}: ${engine} of ${floor} ${unit}, ratio ${ratio}`);
  const text = Object.entries(details).map(([key, value]) => `${key} ${value}`);
  if (text.length > 0) console.log(`    ${text.join(', ')}`);
}

try {
  await add('server', () => headroomRows(sink, place, (smoke ? 4 : 256) * 1_024 * KIB));
  for (const cell of cells()) {
    if (smoke && !isSmokeCell(cell)) continue;
    const scale = cell.serviceMillis > 0 ? TAIL_SCALE : SCALE;
    await add(cellName(cell), () => throughputRows(workspace, sink, place, cell, scale));
  }
  for (const cell of smoke ? LATENCY_CELLS.slice(0, 1) : LATENCY_CELLS) {
    await add('open loop', () => latencyRows(workspace, sink, place, cell, LATENCY_SCALE));
  }
  if (wantsRgw) await add('rgw', () => rgwRows(workspace, RGW_SCALE));
  await add('idle', async () => [await idleRow(workspace, sink, place, smoke ? 1 : 5)]);
} finally {
  sink.stop();
  workspace.remove();
}
if (json) console.log(JSON.stringify({ bench: 's3', rows }));

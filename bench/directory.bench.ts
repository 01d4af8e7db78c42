/**
 * Creations in a directory bucket against bare loops that run in the same process, in turns, with
 * the same concurrency, on the same disk. Per size of object three rows:
 *
 * - `create`: the floor is the durable steps of the bucket as one would write them down (temporary
 *   file, write, fdatasync, link, fsync of the directory, close, unlink).
 * - `create, tuned`: the better of that and the same steps with O_DIRECT from aligned memory.
 * - `write only`: the best rate at which the disk takes files at all: under their own names (torn
 *   files, no create-only), names not synced; the better of buffered and O_DIRECT.
 *
 * Ratios are medians over rounds; absolute figures are this machine's and vary. `BENCH_DIRECTORY`
 * names a folder on the disk to measure.
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocatePages } from '../src/lib/pages.ts';
import { DirectoryBucketStore } from '../src/adapters/directory/bucket-store.ts';
import { NODE_FILE_SYSTEM } from '../src/adapters/directory/node-file-system.ts';
import { benchOptions } from './_harness.ts';

const { json, smoke } = benchOptions();
const CONCURRENCY = 16;
const ROUNDS = smoke ? 1 : 9;
/** Per slice; a round has five. */
const SLICE_BYTES_MAX = smoke ? 1 << 20 : 32 << 20;
const SLICE_CREATES_MAX = smoke ? 32 : 400;
const SIZES = [4 << 10, 64 << 10, 512 << 10, 1 << 20];

interface Row {
  readonly name: string;
  readonly floor: number;
  readonly engine: number;
  readonly ratio: number;
  readonly unit: string;
}

type WriteMode = 'create' | 'create-direct';
type Create = (index: number) => Promise<void>;

const bare = NODE_FILE_SYSTEM;
const root = fs.mkdtempSync(join(process.env['BENCH_DIRECTORY'] ?? tmpdir(), 'asterlog-bench-'));
let folders = 0;

function freshFolder(): string {
  const path = join(root, String(folders++));
  fs.mkdirSync(path);
  return path;
}

/** Creates per second of `count` creations, `CONCURRENCY` at a time. */
async function rate(count: number, create: Create): Promise<number> {
  let next = 0;
  const started = performance.now();
  const loop = async (): Promise<void> => {
    while (next < count) await create(next++);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, loop));
  return (count * 1000) / (performance.now() - started);
}

async function writeFile(path: string, bytes: Uint8Array, mode: WriteMode): Promise<number> {
  const fd = await bare.open(path, mode);
  await bare.write(fd, bytes, 0);
  await bare.syncFile(fd, 'object');
  return fd;
}

/** The steps of the bucket, bare. */
async function bareCreates(count: number, bytes: Uint8Array, mode: WriteMode): Promise<number> {
  const [temps, objects] = [freshFolder(), freshFolder()];
  const directory = await bare.open(objects, 'directory');
  const result = await rate(count, async (index) => {
    const temp = `${temps}/${index}`;
    const fd = await writeFile(temp, bytes, mode);
    await bare.link(temp, `${objects}/${index}`);
    await bare.syncDirectory(directory, ['created']);
    await bare.close(fd);
    await bare.unlink(temp);
  });
  await bare.close(directory);
  return result;
}

async function bareWrites(count: number, bytes: Uint8Array, mode: WriteMode): Promise<number> {
  const folder = freshFolder();
  return await rate(count, async (index) => {
    await bare.close(await writeFile(`${folder}/${index}`, bytes, mode));
  });
}

async function bucketCreates(count: number, bytes: Uint8Array): Promise<number> {
  const store = await DirectoryBucketStore.open({ root: freshFolder() });
  // The first creations pay once for memory and the directory.
  await rate(CONCURRENCY, async (index) => {
    await store.createOnly(`0000/bench/0/first-${index}`, bytes);
  });
  const result = await rate(count, async (index) => {
    const outcome = await store.createOnly(`0000/bench/0/${index}`, bytes);
    if (outcome.kind !== 'created') throw new Error(`creation answered ${outcome.kind}`);
  });
  await store.close();
  return result;
}

async function measure(sizeBytes: number): Promise<Row[]> {
  const count = Math.max(
    CONCURRENCY,
    Math.min(SLICE_CREATES_MAX, Math.floor(SLICE_BYTES_MAX / sizeBytes)),
  );
  // Page-aligned, so that O_DIRECT takes it.
  const bytes = allocatePages(sizeBytes).fill(0x5a);
  const orNone = (promise: Promise<number>): Promise<number> => promise.catch(() => 0);
  const slices = {
    steps: () => bareCreates(count, bytes, 'create'),
    engine: () => bucketCreates(count, bytes),
    // Where there is no O_DIRECT, the buffered slices stand alone.
    directSteps: () => orNone(bareCreates(count, bytes, 'create-direct')),
    writes: () => bareWrites(count, bytes, 'create'),
    directWrites: () => orNone(bareWrites(count, bytes, 'create-direct')),
  };
  const rounds: Record<keyof typeof slices, number>[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const rates = { steps: 0, engine: 0, directSteps: 0, writes: 0, directWrites: 0 };
    const names = Object.keys(slices) as (keyof typeof slices)[];
    // What runs first in a round changes: none of them always profits from a quiet moment.
    if (round % 2 === 1) names.reverse();
    for (const name of names) rates[name] = await slices[name]();
    rounds.push(rates);
  }
  const size = sizeBytes < 1 << 20 ? `${sizeBytes >> 10} KiB` : `${sizeBytes >> 20} MiB`;
  const megabytes = sizeBytes / 1e6;
  const against = (name: keyof typeof slices, scale = 1): Pair[] =>
    rounds.map((rates) => [rates[name] * scale, rates.engine * scale]);
  return [
    row(`create ${size}`, 'creates/s', [against('steps')]),
    row(`create ${size}, tuned`, 'creates/s', [against('steps'), against('directSteps')]),
    row(`write only ${size}`, 'MB/s', [
      against('writes', megabytes),
      against('directWrites', megabytes),
    ]),
  ];
}

type Pair = readonly [floor: number, engine: number];

/** Against the fastest of several floors. */
function row(name: string, unit: string, floors: readonly Pair[][]): Row {
  const rows = floors.map((pairs) => {
    const floor = Math.round(median(pairs.map(([rateOfFloor]) => rateOfFloor)));
    const engine = Math.round(median(pairs.map(([, rateOfBucket]) => rateOfBucket)));
    const ratio = median(pairs.map(([rateOfFloor, rateOfBucket]) => rateOfBucket / rateOfFloor));
    return { name, floor, engine, ratio: Math.round(ratio * 100) / 100, unit };
  });
  return rows.reduce((best, other) => (other.floor > best.floor ? other : best));
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

try {
  const rows: Row[] = [];
  for (const size of SIZES) rows.push(...(await measure(size)));
  if (json) console.log(JSON.stringify({ bench: 'directory', concurrency: CONCURRENCY, rows }));
  else console.table(rows);
} finally {
  fs.rmSync(root, { recursive: true, force: true });
}

/**
 * Creations in a directory bucket against bare loops that run in the same process, in turns, with
 * the same concurrency, on the same disk:
 *
 * - `create`: against the same durable steps written out by hand (temporary file, write, fdatasync,
 *   link, fsync of the directory, close, unlink), without sharing syncs and without bounds.
 * - `payload`: against the best a file a flight can do, whatever it gives up: written under its own
 *   name (torn files, no create-only), no sync of the directory; the better of buffered and O_DIRECT.
 *
 * Ratios are medians over rounds; absolute figures are this machine's and vary.
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allocatePages } from '../src/adapters/directory/aligned-buffers.ts';
import { DirectoryBucketStore } from '../src/adapters/directory/bucket-store.ts';
import type { DirectoryFileSystem } from '../src/adapters/directory/file-system.ts';
import { NODE_FILE_SYSTEM } from '../src/adapters/directory/node-file-system.ts';
import { benchOptions } from './_harness.ts';

const { json, smoke } = benchOptions();
const CONCURRENCY = 16;
const ROUNDS = smoke ? 1 : 7;
/** Per slice; one round has four slices. */
const SLICE_BYTES_MAX = smoke ? 1 << 20 : 96 << 20;
const SLICE_CREATES_MAX = smoke ? 32 : 2_000;
const SIZES = [4 << 10, 64 << 10, 512 << 10, 1 << 20];
const BLOCK_BYTES = 4096;

interface Row {
  readonly name: string;
  readonly floor: number;
  readonly engine: number;
  readonly ratio: number;
  readonly unit: string;
}

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

async function writeFile(
  path: string,
  bytes: Uint8Array,
  mode: 'create' | 'create-direct',
): Promise<number> {
  const fd = await bare.open(path, mode);
  await bare.write(fd, bytes, 0);
  await bare.syncFile(fd, 'object');
  return fd;
}

/** The steps of the bucket, bare. */
async function bareCreates(count: number, bytes: Uint8Array): Promise<number> {
  const [temps, objects] = [freshFolder(), freshFolder()];
  const directory = await bare.open(objects, 'directory');
  const result = await rate(count, async (index) => {
    const temp = `${temps}/${index}`;
    const fd = await writeFile(temp, bytes, 'create');
    await bare.link(temp, `${objects}/${index}`);
    await bare.syncDirectory(directory, ['created']);
    await bare.close(fd);
    await bare.unlink(temp);
  });
  await bare.close(directory);
  return result;
}

async function bareWrites(
  count: number,
  bytes: Uint8Array,
  mode: 'create' | 'create-direct',
): Promise<number> {
  const folder = freshFolder();
  try {
    return await rate(count, async (index) => {
      await bare.close(await writeFile(`${folder}/${index}`, bytes, mode));
    });
  } catch {
    return 0; // No O_DIRECT here.
  }
}

async function bucketCreates(count: number, bytes: Uint8Array): Promise<number> {
  const self = { bootId: 'b', hostName: 'h', pidNamespace: 'n', pid: process.pid, startTime: '1' };
  const processes = { self: () => self, judge: () => 'alive' as const };
  const fileSystem: DirectoryFileSystem = NODE_FILE_SYSTEM;
  const store = await DirectoryBucketStore.open({ root: freshFolder(), processes, fileSystem });
  await store.createOnly('0000/bench/0/first', bytes.subarray(0, BLOCK_BYTES));
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
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    const steps = await bareCreates(count, bytes);
    const engine = await bucketCreates(count, bytes);
    const buffered = await bareWrites(count, bytes, 'create');
    const direct = await bareWrites(count, bytes, 'create-direct');
    rounds.push({ steps, engine, payload: Math.max(buffered, direct) });
  }
  const size = sizeBytes < 1 << 20 ? `${sizeBytes >> 10} KiB` : `${sizeBytes >> 20} MiB`;
  const megabytes = sizeBytes / 1e6;
  return [
    row(
      `create ${size}`,
      'creates/s',
      rounds.map(({ steps, engine }) => [steps, engine]),
    ),
    row(
      `payload ${size}`,
      'MB/s',
      rounds.map(({ payload, engine }) => [payload * megabytes, engine * megabytes]),
    ),
  ];
}

function row(name: string, unit: string, pairs: readonly (readonly number[])[]): Row {
  const floor = median(pairs.map(([value]) => value!));
  const engine = median(pairs.map(([, value]) => value!));
  const ratio = median(pairs.map(([bareRate, bucketRate]) => bucketRate! / bareRate!));
  return {
    name,
    floor: Math.round(floor),
    engine: Math.round(engine),
    ratio: rounded(ratio),
    unit,
  };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

try {
  const rows: Row[] = [];
  for (const size of SIZES) rows.push(...(await measure(size)));
  if (json) console.log(JSON.stringify({ bench: 'directory', concurrency: CONCURRENCY, rows }));
  else console.table(rows);
} finally {
  fs.rmSync(root, { recursive: true, force: true });
}

/**
 * Bare loops over files, the floors of the append benchmark: what a few lines without an engine
 * reach on the same disk, with the same sizes, in the same process.
 */
import { NODE_FILE_SYSTEM as files } from '../src/adapters/directory/node-file-system.ts';
import type { RecordedCreate } from './_recorder.ts';

/** `direct` writes past the page cache, in whole blocks. */
export type WriteMode = 'buffered' | 'direct';

/** How one object is created; the best one on this machine is the floor. */
export interface CreateSteps {
  readonly write: WriteMode;
  /** `shared`: one sync of the directory serves all who wait for it. `own`: one sync a creation. */
  readonly directorySync: 'shared' | 'own';
}

export const ALL_CREATE_STEPS: readonly CreateSteps[] = [
  { write: 'buffered', directorySync: 'shared' },
  { write: 'buffered', directorySync: 'own' },
  { write: 'direct', directorySync: 'shared' },
  { write: 'direct', directorySync: 'own' },
];

const BLOCK_BYTES = 4096;
const PAGE_BYTES = 65_536;
/** Room for the largest flight: its target and one batch. */
const SOURCE_BYTES = 64 * PAGE_BYTES;
const OPEN_MODES = { buffered: 'create', direct: 'create-direct' } as const;

const source = pageAligned(SOURCE_BYTES).fill(0x5a);

/** Memory that O_DIRECT takes: only WebAssembly's begins at a page. Node's types do not know it. */
function pageAligned(sizeBytes: number): Uint8Array {
  const { WebAssembly } = globalThis as unknown as {
    WebAssembly: { Memory: new (options: { initial: number }) => { buffer: ArrayBuffer } };
  };
  return new Uint8Array(new WebAssembly.Memory({ initial: sizeBytes / PAGE_BYTES }).buffer);
}

/** A folder of objects and one of temporary files, with creation by hand. */
class BareBucket {
  readonly #folder: string;
  readonly #steps: CreateSteps;
  #directory = -1;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  readonly #unlinks = new Set<Promise<void>>();

  private constructor(folder: string, steps: CreateSteps) {
    this.#folder = folder;
    this.#steps = steps;
  }

  static async open(folder: string, steps: CreateSteps): Promise<BareBucket> {
    const bucket = new BareBucket(folder, steps);
    await files.mkdir(`${folder}/temps`);
    await files.mkdir(`${folder}/objects`);
    bucket.#directory = await files.open(`${folder}/objects`, 'directory');
    return bucket;
  }

  async create(index: number, sizeBytes: number): Promise<void> {
    const temp = `${this.#folder}/temps/${index}`;
    const fd = await writeFile(temp, sizeBytes, this.#steps.write);
    await files.link(temp, `${this.#folder}/objects/${index}`);
    await this.#syncDirectory();
    const unlink = files.close(fd).then(() => files.unlink(temp));
    this.#unlinks.add(unlink);
    void unlink.finally(() => this.#unlinks.delete(unlink));
  }

  async close(): Promise<void> {
    await Promise.all(this.#unlinks);
    await files.close(this.#directory);
  }

  #syncDirectory(): Promise<void> {
    if (this.#steps.directorySync === 'own') return files.syncDirectory(this.#directory, []);
    this.#next ??= this.#syncAfter(this.#running);
    return this.#next;
  }

  async #syncAfter(running: Promise<void> | undefined): Promise<void> {
    await running;
    await Promise.resolve();
    this.#running = this.#next;
    this.#next = undefined;
    await files.syncDirectory(this.#directory, []);
  }
}

async function writeFile(path: string, sizeBytes: number, mode: WriteMode): Promise<number> {
  const fd = await files.open(path, OPEN_MODES[mode]);
  const wholeBytes = Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
  const writtenBytes = mode === 'direct' ? wholeBytes : sizeBytes;
  const taken = await files.write(fd, source.subarray(0, writtenBytes), 0);
  if (taken !== writtenBytes) throw new Error(`the disk took ${taken} of ${writtenBytes} bytes`);
  if (writtenBytes !== sizeBytes) await files.truncate(fd, sizeBytes);
  await files.syncFile(fd, 'object');
  return fd;
}

export interface Replay {
  readonly creates: readonly RecordedCreate[];
  /** Creations at once, a bucket. */
  readonly concurrency: readonly number[];
  /** A slot counts as stored when so many of its copies are. */
  readonly copyQuorum: number;
  readonly steps: CreateSteps;
  freshFolder(): string;
}

/**
 * Creates the same objects in the same order with the same concurrency.
 *
 * @returns seconds until every slot has its W copies: the engine's clock stops there, too.
 */
export async function replayCreates(replay: Replay): Promise<number> {
  const buckets = await Promise.all(
    replay.concurrency.map(() => BareBucket.open(replay.freshFolder(), replay.steps)),
  );
  const copies = new Map<string, number>();
  for (const { key } of replay.creates) copies.set(key, 0);
  let missing = copies.size;
  let storedAt = 0;
  const started = performance.now();
  await Promise.all(
    replay.concurrency.map(async (concurrency, bucket) => {
      const queue = replay.creates
        .filter((create) => create.bucket === bucket)
        .sort((a, b) => a.startedAt - b.startedAt);
      let next = 0;
      const work = async (): Promise<void> => {
        while (next < queue.length) {
          const index = next++;
          const { key, sizeBytes } = queue[index]!;
          await buckets[bucket]!.create(index, sizeBytes);
          const count = copies.get(key)! + 1;
          copies.set(key, count);
          if (count === replay.copyQuorum && --missing === 0) storedAt = performance.now();
        }
      };
      await Promise.all(Array.from({ length: concurrency }, work));
    }),
  );
  for (const bucket of buckets) await bucket.close();
  return (storedAt - started) / 1000;
}

/** Whatever the machine can do with a file a flight: no temporary name, no link, no directory sync. */
export interface PayloadLoop {
  readonly sizeBytes: number;
  readonly write: WriteMode;
  /** Files at once, in all folders. */
  readonly concurrency: number;
}

/** Seconds to store the payload K times, each copy in its own folder; Infinity without O_DIRECT. */
export async function storePayload(
  loop: PayloadLoop,
  payloadBytes: number,
  copies: number,
  freshFolder: () => string,
): Promise<number> {
  const folders = Array.from({ length: copies }, () => `${freshFolder()}/objects`);
  await Promise.all(folders.map((folder) => files.mkdir(folder)));
  const count = Math.ceil(payloadBytes / loop.sizeBytes) * copies;
  let next = 0;
  const started = performance.now();
  const work = async (): Promise<void> => {
    while (next < count) {
      const index = next++;
      const path = `${folders[index % copies]!}/${index}`;
      await files.close(await writeFile(path, loop.sizeBytes, loop.write));
    }
  };
  try {
    await Promise.all(Array.from({ length: loop.concurrency }, work));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EINVAL' || code === 'ENOTSUP') return Infinity;
    throw error;
  }
  const storedBytes = (count / copies) * loop.sizeBytes;
  return ((performance.now() - started) / 1000) * (payloadBytes / storedBytes);
}

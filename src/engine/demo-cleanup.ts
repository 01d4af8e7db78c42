/**
 * Removes what demos left on S3 that were killed. Only what is a demo's beyond doubt: a folder of a
 * demo's name that holds the mark of that demo, of which the process has ended, and to which nothing was
 * written lately. The mark goes last, so that whoever is interrupted can go on.
 */
import { EngineError } from '../lib/errors.ts';
import { within, type WaitOptions } from '../lib/wait.ts';
import type { CallOptions } from '../ports/bucket-store.ts';
import { DELETE_KEYS_MAX, type ListedObject } from '../adapters/s3/control-objects.ts';
import type { S3BucketStore } from '../adapters/s3/bucket-store.ts';
import type { S3Control } from '../adapters/s3/control.ts';
import { systemClock } from '../adapters/system/clock.ts';
import { systemProcesses } from '../adapters/system/processes.ts';
import { placeOfS3, speaksPlainS3 } from './s3-check.ts';
import type { S3BucketDescriptor, S3Components } from './s3-components.ts';
import {
  DEMO_MARK,
  DEMO_MARK_BYTES_MAX,
  DEMO_PREFIX,
  isDemoSegment,
  parseDemoMark,
} from './s3-demos.ts';
import { openS3Bucket, openS3Control } from './s3-stores.ts';

export interface FoundDemo {
  /** In the bucket, with the slash at its end. */
  readonly prefix: string;
  /** `removable`: it would be removed; `kept`: `why` says what speaks against it. */
  readonly outcome: 'removed' | 'removable' | 'kept' | 'failed';
  readonly objects: number;
  readonly bytes: number;
  readonly why?: string;
  readonly error?: EngineError;
}

export interface CleanedBucket {
  readonly name: string;
  readonly place: string;
  readonly demos: readonly FoundDemo[];
  /** Why not all of it was looked at. */
  readonly error?: EngineError;
}

export interface CleanDemosOptions extends WaitOptions {
  /** Removes nothing. */
  readonly dryRun?: boolean;
  /** What was written to within this time is kept. 120,000 by default. */
  readonly idleMillis?: number;
  readonly onDemo?: (bucket: string, demo: FoundDemo) => void;
  /** How many objects of it are removed so far. */
  readonly onProgress?: (bucket: string, prefix: string, removed: number) => void;
}

const IDLE_MILLIS_DEFAULT = 120_000;
/** A demo appends for an hour at most: one of another machine that began a day ago is over. */
const OTHERS_OVER_MILLIS = 24 * 3_600_000;

/**
 * @throws EngineError BUCKET_REFUSED without the package that looks after buckets. What is wrong with a bucket is in
 *   its entry.
 */
export async function cleanDemos(
  components: S3Components,
  options: CleanDemosOptions = {},
): Promise<CleanedBucket[]> {
  return within(systemClock(), options, 'removing demos', ({ signal }) =>
    Promise.all(
      components.buckets.map(async (descriptor) => {
        if (!speaksPlainS3(descriptor)) return entryOf(descriptor, [], otherTools(descriptor));
        const control = await openS3Control(descriptor);
        const store = await openS3Bucket(descriptor, { readOnly: true });
        try {
          return await new Cleaning(descriptor, control, store, { ...options, signal }).run();
        } finally {
          control.close();
          await store.close();
        }
      }),
    ),
  );
}

class Cleaning {
  readonly #descriptor: S3BucketDescriptor;
  readonly #control: S3Control;
  readonly #store: S3BucketStore;
  readonly #options: CleanDemosOptions;
  readonly #call: CallOptions;

  constructor(
    descriptor: S3BucketDescriptor,
    control: S3Control,
    store: S3BucketStore,
    options: CleanDemosOptions,
  ) {
    this.#descriptor = descriptor;
    this.#control = control;
    this.#store = store;
    this.#options = options;
    this.#call = { signal: options.signal };
  }

  async run(): Promise<CleanedBucket> {
    const { prefix, name } = this.#descriptor;
    const demos: FoundDemo[] = [];
    try {
      for await (const folder of this.#control.objects.folders(prefix + DEMO_PREFIX, this.#call)) {
        const segment = folder.slice(prefix.length, -1);
        if (!isDemoSegment(segment) || !folder.endsWith('/')) continue;
        const found = await this.#settle(folder, segment);
        demos.push(found);
        this.#options.onDemo?.(name, found);
      }
    } catch (error) {
      if (!EngineError.is(error)) throw error;
      return entryOf(this.#descriptor, demos, error);
    }
    return entryOf(this.#descriptor, demos);
  }

  async #settle(folder: string, demo: string): Promise<FoundDemo> {
    let found = { prefix: folder, objects: 0, bytes: 0 };
    try {
      const sizes = { objects: 0, bytes: 0, newestMillis: -Infinity, markedMillis: -Infinity };
      for await (const objects of this.#pages(folder)) {
        for (const { key, sizeBytes, modifiedMillis } of objects) {
          sizes.objects++;
          sizes.bytes += sizeBytes;
          sizes.newestMillis = Math.max(sizes.newestMillis, modifiedMillis);
          if (key === folder + DEMO_MARK) sizes.markedMillis = modifiedMillis;
        }
      }
      found = { prefix: folder, objects: sizes.objects, bytes: sizes.bytes };
      const why = await this.#reasonToKeep(demo, sizes);
      if (why !== undefined) return { ...found, outcome: 'kept', why };
      if (this.#options.dryRun === true) return { ...found, outcome: 'removable' };
      await this.#remove(folder);
      return { ...found, outcome: 'removed' };
    } catch (error) {
      // Once it is given up, so is the rest.
      if (!EngineError.is(error) || this.#call.signal?.aborted === true) throw error;
      return { ...found, outcome: 'failed', error };
    }
  }

  async #reasonToKeep(
    demo: string,
    {
      newestMillis,
      markedMillis,
    }: { readonly newestMillis: number; readonly markedMillis: number },
  ): Promise<string | undefined> {
    const key = `${demo}/${DEMO_MARK}`;
    const read = await this.#store.readHead(key, DEMO_MARK_BYTES_MAX, this.#call);
    if (read.kind === 'unknown') throw read.cause;
    const json = read.kind === 'found' ? Buffer.from(read.bytes).toString() : '';
    const { bucket, prefix } = this.#descriptor;
    const process = parseDemoMark(json, { demo, bucket, prefix: `${prefix}${demo}/` });
    if (process === undefined) return 'no mark says that it is of a demo';
    // Times that nobody told are no reason to remove anything.
    if (!Number.isFinite(markedMillis) || !Number.isFinite(newestMillis)) {
      return 'the bucket does not list its mark with the times of its objects';
    }
    const now = this.#control.serverMillis;
    const state = systemProcesses().judge(process);
    if (state === 'alive') return 'its demo runs';
    if (state === 'unknown' && now - markedMillis < OTHERS_OVER_MILLIS) {
      return 'its demo ran elsewhere, and began less than a day ago';
    }
    // Writers outlive a demo that was killed by what they have under way.
    const { idleMillis = IDLE_MILLIS_DEFAULT } = this.#options;
    // The server tells whole seconds of its clock: it may seem to be behind its own objects.
    return now - newestMillis < idleMillis && idleMillis > 0
      ? 'it was written to a moment ago'
      : undefined;
  }

  async #remove(folder: string): Promise<void> {
    const { name } = this.#descriptor;
    const mark = folder + DEMO_MARK;
    let removed = 0;
    for await (const objects of this.#pages(folder)) {
      const keys = objects.map(({ key }) => key).filter((key) => key !== mark);
      await this.#delete(keys);
      removed += keys.length;
      this.#options.onProgress?.(name, folder, removed);
    }
    for await (const objects of this.#pages(folder)) {
      if (objects.every(({ key }) => key === mark)) continue;
      throw new EngineError('BUCKET_UNAVAILABLE', 'objects of a demo came while it was removed', {
        details: { bucket: name, prefix: folder },
      });
    }
    await this.#delete([mark]);
  }

  async #delete(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += DELETE_KEYS_MAX) {
      const batch = keys.slice(at, at + DELETE_KEYS_MAX);
      const [failure] = await this.#control.objects.delete(batch, this.#call);
      if (failure !== undefined) throw failure;
    }
  }

  async *#pages(folder: string): AsyncGenerator<readonly ListedObject[]> {
    let startAfter = '';
    for (;;) {
      const { objects, more } = await this.#control.objects.page(folder, startAfter, this.#call);
      yield objects;
      if (!more) return;
      startAfter = objects.at(-1)!.key;
    }
  }
}

function entryOf(
  descriptor: S3BucketDescriptor,
  demos: readonly FoundDemo[],
  error?: EngineError,
): CleanedBucket {
  const { name } = descriptor;
  const entry = { name, place: placeOfS3(descriptor), demos };
  return error === undefined ? entry : { ...entry, error };
}

function otherTools({ dialect }: S3BucketDescriptor): EngineError {
  const details = { setting: 'dialect', dialect };
  const summary = 'buckets of this dialect are tidied up with other tools';
  return new EngineError('BUCKET_REFUSED', summary, { details });
}

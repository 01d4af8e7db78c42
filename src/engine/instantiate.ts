/** Turns component descriptors into ports, in the thread where the star runs. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../lib/errors.ts';
import { Metrics } from '../lib/metrics.ts';
import type { ResolvedSettings } from '../protocol/settings.ts';
import { SILENT_LOG, type Log } from '../ports/log.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';
import { DirectoryBucketStore } from '../adapters/directory/bucket-store.ts';
import { LmdbMetastore } from '../adapters/lmdb/metastore.ts';
import { MemoryBucketStore } from '../adapters/memory/bucket-store.ts';
import { MemoryMetastore, MemoryMetastoreState } from '../adapters/memory/metastore.ts';
import { systemClock } from '../adapters/system/clock.ts';
import { systemProcesses } from '../adapters/system/processes.ts';
import { systemRandom } from '../adapters/system/random.ts';
import { inlineCompute } from '../workers/inline.ts';
import { pooledCompute } from '../workers/pool.ts';
import type { StarPorts } from '../../actors/ports.ts';
import type { Components, DirectoryComponents, MemoryComponents } from './components.ts';

export interface Instantiated {
  readonly ports: StarPorts;
  /** Closes everything that was opened. */
  readonly release: () => Promise<void>;
}

export interface InstantiateOptions {
  readonly log: Log | undefined;
  /** `read` creates and changes nothing. */
  readonly mode: 'read' | 'write';
}

interface Stores {
  readonly buckets: readonly BucketStore[];
  readonly metastore: Metastore;
  readonly close: () => Promise<void>;
}

export async function instantiate(
  components: Components,
  settings: ResolvedSettings,
  options: InstantiateOptions,
): Promise<Instantiated> {
  const stores =
    components.kind === 'memory'
      ? memoryStores(components)
      : await directoryStores(components, options.mode);
  const compute =
    settings.computeThreads === 0
      ? inlineCompute()
      : pooledCompute({
          threads: settings.computeThreads,
          thresholdBytes: settings.computeThresholdBytes,
        });
  const byName = new Map(stores.buckets.map((bucket) => [bucket.name, bucket]));
  return {
    ports: {
      clock: systemClock(),
      random: systemRandom(),
      processes: systemProcesses(),
      compute,
      metastore: stores.metastore,
      log: options.log ?? SILENT_LOG,
      metrics: new Metrics(),
      buckets: stores.buckets,
      bucketByName: (name) => byName.get(name),
    },
    release: async () => {
      await Promise.all([stores.close(), compute.close()]);
    },
  };
}

async function directoryStores(
  components: DirectoryComponents,
  mode: 'read' | 'write',
): Promise<Stores> {
  const directory = join(components.root, 'metastore');
  if (mode === 'read') await checkPresent(components.root, directory);
  const processes = systemProcesses();
  const opened: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((store) => store.close()));
  };
  try {
    const buckets: BucketStore[] = [];
    for (const { name, path } of components.buckets) {
      const bucket = await DirectoryBucketStore.open({
        name,
        root: path,
        processes,
        readOnly: mode === 'read',
      });
      opened.push(bucket);
      buckets.push(bucket);
    }
    const metastore = await LmdbMetastore.open({ directory, readOnly: mode === 'read' });
    opened.push(metastore);
    return { buckets, metastore, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Looking at data creates none. */
async function checkPresent(root: string, directory: string): Promise<void> {
  try {
    await access(directory);
  } catch (cause) {
    throw new EngineError('INVALID_OPTION', 'this directory holds no data', {
      cause,
      details: { option: 'components.root', value: root },
    });
  }
}

interface SharedMemory {
  readonly buckets: readonly MemoryBucketStore[];
  readonly metastore: MemoryMetastoreState;
}

/** Data of memory components lives as long as the process: engines of one id come and go. */
const memories = new Map<string, SharedMemory>();

function memoryStores(components: MemoryComponents): Stores {
  const key = `${components.id}/${components.buckets.toString()}`;
  let memory = memories.get(key);
  if (memory === undefined) {
    memory = {
      buckets: Array.from(
        { length: components.buckets },
        (_, index) => new MemoryBucketStore({ name: `bucket-${index.toString()}` }),
      ),
      metastore: new MemoryMetastoreState(),
    };
    memories.set(key, memory);
  }
  const metastore = new MemoryMetastore(memory.metastore);
  return { buckets: memory.buckets, metastore, close: () => metastore.close() };
}

/** Turns component descriptors into ports, in the thread where the star runs. */
import { isAbsolute, join } from 'node:path';
import { EngineError } from '../lib/errors.ts';
import { RoundTripMeter } from '../lib/round-trips.ts';
import { Metrics } from '../lib/metrics.ts';
import { parseRecordValue, setRecord } from '../protocol/records.ts';
import type { ResolvedSettings } from '../protocol/settings.ts';
import { SILENT_LOG, type Log } from '../ports/log.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';
import type { Compute } from '../ports/compute.ts';
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
import type { Components, DirectoryComponents } from './components.ts';
import { meteredBuckets, meteredMetastore } from './metered.ts';
import { s3Stores } from './s3-stores.ts';
import { checkPresent, isPresent, otherMetastore, type Stores } from './stores.ts';

export interface Instantiated {
  readonly ports: StarPorts;
  /** Opens the buckets of another descriptor beside those that are open, on the same metastore. */
  readonly openBuckets: (components: Components) => Promise<readonly BucketStore[]>;
  /** Closes everything that was opened. */
  readonly release: () => Promise<void>;
}

export interface InstantiateOptions {
  readonly log: Log | undefined;
  /** `read` creates and changes nothing. */
  readonly mode: 'read' | 'write';
}

export async function instantiate(
  components: Components,
  settings: ResolvedSettings,
  options: InstantiateOptions,
): Promise<Instantiated> {
  const compute = computeOf(settings);
  const metrics = new Metrics();
  const stores = await openStores(components, options.mode, { compute, metrics });
  const byName = new Map<string, BucketStore>();
  const roundTrips = settings.meterRoundTrips ? new RoundTripMeter() : undefined;
  const metered = roundTrips === undefined ? undefined : meteredBuckets(roundTrips);
  const openBuckets = async (wanted: Components): Promise<readonly BucketStore[]> => {
    const stored = await stores.open(wanted);
    const opened = metered === undefined ? stored : stored.map(metered);
    for (const bucket of opened) byName.set(bucket.name, bucket);
    return opened;
  };
  try {
    const buckets = await openBuckets(components);
    for (const name of await namesOfSets(stores.metastore)) {
      const bucket = byName.has(name) ? undefined : await stores.openNamed(name);
      if (bucket !== undefined) byName.set(name, metered?.(bucket) ?? bucket);
    }
    const ports: StarPorts = {
      clock: systemClock(),
      random: systemRandom(),
      processes: systemProcesses(),
      compute,
      metastore:
        roundTrips === undefined
          ? stores.metastore
          : meteredMetastore(stores.metastore, roundTrips),
      ...(roundTrips === undefined ? {} : { roundTrips }),
      log: options.log ?? SILENT_LOG,
      metrics,
      buckets,
      bucketByName: (name) => byName.get(name),
    };
    const release = async (): Promise<void> => {
      await Promise.all([stores.close(), compute.close()]);
    };
    return { ports, openBuckets, release };
  } catch (error) {
    await stores.close();
    throw error;
  }
}

function openStores(
  components: Components,
  mode: 'read' | 'write',
  shared: { readonly compute: Compute; readonly metrics: Metrics },
): Promise<Stores> | Stores {
  switch (components.kind) {
    case 'memory':
      return memoryStores(components.id);
    case 'directory':
      return directoryStores(components.root, mode);
    case 's3':
      return s3Stores(components.metastore.root, mode, shared);
  }
}

function computeOf(settings: ResolvedSettings): Compute {
  const { computeThreads: threads, computeThresholdBytes: thresholdBytes } = settings;
  return threads === 0 ? inlineCompute() : pooledCompute({ threads, thresholdBytes });
}

/** Earlier epochs name the buckets they wrote to by their sets. */
async function namesOfSets(metastore: Metastore): Promise<ReadonlySet<string>> {
  const entries = await metastore.children('sets/');
  return new Set(
    entries.flatMap(({ key, value }) =>
      parseRecordValue(setRecord, key, value).buckets.map(({ name }) => name),
    ),
  );
}

async function directoryStores(root: string, mode: 'read' | 'write'): Promise<Stores> {
  const directory = join(root, 'metastore');
  const readOnly = mode === 'read';
  if (readOnly) await checkPresent('components.root', root, directory);
  const processes = systemProcesses();
  const buckets = new Map<
    string,
    { readonly bucket: DirectoryBucketStore; readonly path: string }
  >();
  const openAt = async (name: string, path: string): Promise<DirectoryBucketStore> => {
    const known = buckets.get(name);
    if (known !== undefined) {
      if (known.path === path) return known.bucket;
      throw new EngineError('INVALID_OPTION', 'a bucket of this name lies elsewhere', {
        details: { option: 'components.buckets', name, value: path, expected: known.path },
      });
    }
    const bucket = await DirectoryBucketStore.open({ name, root: path, processes, readOnly });
    buckets.set(name, { bucket, path });
    return bucket;
  };
  const metastore = await LmdbMetastore.open({ directory, readOnly });
  return {
    metastore,
    open: async (components) => {
      const { buckets: wanted } = checkSameRoot(components, root);
      const opened: BucketStore[] = [];
      for (const { name, path } of wanted) opened.push(await openAt(name, path));
      return opened;
    },
    openNamed: async (name) => {
      const path = isAbsolute(name) ? name : join(root, name);
      return (await isPresent(path)) ? openAt(name, path) : undefined;
    },
    close: async () => {
      await Promise.all([
        metastore.close(),
        ...[...buckets.values()].map(({ bucket }) => bucket.close()),
      ]);
    },
  };
}

function checkSameRoot(components: Components, root: string): DirectoryComponents {
  if (components.kind === 'directory' && components.root === root) return components;
  throw otherMetastore(
    'components.root',
    components.kind === 'directory' ? components.root : components.kind,
    root,
  );
}

interface SharedMemory {
  readonly buckets: Map<string, MemoryBucketStore>;
  readonly metastore: MemoryMetastoreState;
}

/** Data of memory components lives as long as the process: engines of one id come and go. */
const memories = new Map<string, SharedMemory>();

function memoryStores(id: string): Stores {
  const memory: SharedMemory = memories.get(id) ?? {
    buckets: new Map(),
    metastore: new MemoryMetastoreState(),
  };
  memories.set(id, memory);
  const openNamed = (name: string): MemoryBucketStore => {
    const bucket = memory.buckets.get(name) ?? new MemoryBucketStore({ name });
    memory.buckets.set(name, bucket);
    return bucket;
  };
  const metastore = new MemoryMetastore(memory.metastore);
  return {
    metastore,
    open: async (components) => {
      if (components.kind !== 'memory' || components.id !== id) {
        const value = components.kind === 'memory' ? components.id : components.kind;
        throw otherMetastore('components.id', value, id);
      }
      const names = Array.from({ length: components.buckets }, (_, i) => `bucket-${i.toString()}`);
      return names.map(openNamed);
    },
    openNamed: async (name) => memory.buckets.get(name),
    close: () => metastore.close(),
  };
}

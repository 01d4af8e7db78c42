import { MemoryBucketStore } from '../../src/adapters/memory/bucket-store.ts';
import { MemoryMetastore, MemoryMetastoreState } from '../../src/adapters/memory/metastore.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { systemProcesses } from '../../src/adapters/system/processes.ts';
import { systemRandom } from '../../src/adapters/system/random.ts';
import { openEngine, type HostedEngine, type HostOptions } from '../../src/engine/host.ts';
import { Metrics } from '../../src/lib/metrics.ts';
import type { BucketStore } from '../../src/ports/bucket-store.ts';
import { SILENT_LOG } from '../../src/ports/log.ts';
import type { Metastore } from '../../src/ports/metastore.ts';
import { resolveSettings, type EngineSettings } from '../../src/protocol/settings.ts';
import { inlineCompute } from '../../src/workers/inline.ts';
import type { StarPorts } from '../../actors/ports.ts';

/** Memory stores that several engines of one test share, within reach of the test. */
export class EngineWorld {
  readonly memory: readonly MemoryBucketStore[];
  readonly metastore = new MemoryMetastoreState();
  /** What engines see of the buckets; tests wrap it to plant faults. */
  wrap: (bucket: BucketStore, index: number) => BucketStore = (bucket) => bucket;
  wrapMetastore: (metastore: Metastore) => Metastore = (metastore) => metastore;

  constructor(buckets = 3) {
    this.memory = Array.from(
      { length: buckets },
      (_, index) => new MemoryBucketStore({ name: `bucket-${index}` }),
    );
  }

  ports(buckets = this.memory.length): StarPorts {
    const stores = this.memory.map((bucket, index) => this.wrap(bucket, index));
    return {
      clock: systemClock(),
      random: systemRandom(),
      processes: systemProcesses(),
      compute: inlineCompute(),
      metastore: this.wrapMetastore(new MemoryMetastore(this.metastore)),
      log: SILENT_LOG,
      metrics: new Metrics(),
      buckets: stores.slice(0, buckets),
      bucketByName: (name) => stores.find((store) => store.name === name),
    };
  }

  open(settings: EngineSettings = {}, options: HostOptions = {}): Promise<HostedEngine> {
    const ports = this.ports();
    return openEngine(ports, resolveSettings(settings, ports.buckets.length), options);
  }
}

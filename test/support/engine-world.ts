import { onTestFinished } from 'vitest';
import { MemoryBucketStore } from '../../src/adapters/memory/bucket-store.ts';
import { MemoryMetastore, MemoryMetastoreState } from '../../src/adapters/memory/metastore.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { systemProcesses } from '../../src/adapters/system/processes.ts';
import { systemRandom } from '../../src/adapters/system/random.ts';
import { openEngine, type HostedEngine, type HostOptions } from '../../src/engine/host.ts';
import type { Stream } from '../../src/engine/api.ts';
import { EngineError } from '../../src/lib/errors.ts';
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

  /** Opens with two copies; killed when the test ends. */
  async start(settings: EngineSettings = {}, options: HostOptions = {}): Promise<HostedEngine> {
    const engine = await this.open({ copyQuorum: 2, ...settings }, options);
    onTestFinished(() => engine.kill());
    return engine;
  }
}

/** The engine's error that the promise ends with; whatever else it ends with fails the test. */
export async function errorOf(promise: Promise<unknown>): Promise<EngineError> {
  const error: unknown = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (EngineError.is(error)) return error;
  throw new Error(`no engine error: ${String(error)}`);
}

/** What the stream holds from its beginning, as text. */
export async function bodiesOf(stream: Pick<Stream, 'read'>): Promise<string[]> {
  const found: string[] = [];
  for await (const { body } of stream.read()) found.push(Buffer.from(body).toString());
  return found;
}

/**
 * A world on virtual time: buckets and a metastore that all share, and processes that come and go,
 * each with its own faults. What runs in the processes is the product's own engine.
 */
import type { StarPorts } from '../../actors/ports.ts';
import { assert } from '../lib/assert.ts';
import { MemoryBucketStore } from '../adapters/memory/bucket-store.ts';
import { MemoryMetastore } from '../adapters/memory/metastore.ts';
import type { Prng } from '../lib/prng.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';
import {
  BUCKET_FATES,
  CALM_BUCKETS,
  type BucketCall,
  type BucketFate,
  type BucketFaultProfile,
} from './bucket-fates.ts';
import { BucketServer, type BucketObserver } from './bucket-server.ts';
import { FaultScript } from './fault-script.ts';
import { FaultyBucketStore } from './faulty-bucket-store.ts';
import { FaultyMetastore } from './faulty-metastore.ts';
import {
  CALM_METASTORE,
  META_FATES,
  type MetaCall,
  type MetaFate,
  type MetaFaultProfile,
} from './meta-fates.ts';
import { MetaServer, type MetaObserver } from './meta-server.ts';
import { ProcessTable } from './process-table.ts';
import { Scheduler, type SchedulerOptions } from './scheduler.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { VirtualClock } from './virtual-clock.ts';

/** Sees every call, change and start of a process. Must not throw but for a broken rule. */
export interface WorldObserver extends BucketObserver, MetaObserver {
  processStarted?(process: SimulatedProcess): void;
}

/** How a world is made; the seed decides everything that the options do not. */
export interface WorldOptions extends SchedulerOptions {
  readonly bucketCount: number;
  /** Makes an empty bucket or metastore without faults; in memory by default. */
  readonly createBucket?: (name: string) => BucketStore;
  readonly createMetastore?: () => Metastore;
  readonly bucketProfile?: BucketFaultProfile;
  readonly metaProfile?: MetaFaultProfile;
  /** Clocks of processes run up to this share fast or slow. */
  readonly clockDrift?: number;
  /** Stands between every engine and its ports: how a test plants a break. */
  readonly mutate?: ((ports: StarPorts, process: SimulatedProcess) => StarPorts) | undefined;
}

export interface SpawnOptions {
  /** Processes of one host can tell whether the others live. */
  readonly host?: string;
}

/** Shared stores, processes and the time they have in common. */
export class World {
  readonly scheduler: Scheduler;
  readonly buckets: readonly BucketServer[];
  readonly metastore: MetaServer;
  readonly bucketScript = new FaultScript<BucketFate, BucketCall>(BUCKET_FATES);
  readonly metaScript = new FaultScript<MetaFate, MetaCall>(META_FATES);
  readonly #options: WorldOptions;
  readonly #table = new ProcessTable();
  readonly #processes: SimulatedProcess[] = [];
  readonly #observers: WorldObserver[] = [];
  readonly #clocks: Prng;
  readonly #starts = new Map<string, number>();
  #bucketProfile: BucketFaultProfile;
  #metaProfile: MetaFaultProfile;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.scheduler = new Scheduler(options);
    this.#clocks = this.scheduler.prng('clocks');
    this.#bucketProfile = options.bucketProfile ?? CALM_BUCKETS;
    this.#metaProfile = options.metaProfile ?? CALM_METASTORE;
    const createBucket = options.createBucket ?? ((name) => new MemoryBucketStore({ name }));
    this.buckets = Array.from({ length: options.bucketCount }, (_, index) => {
      const name = `bucket-${index}`;
      const { scheduler } = this;
      return new BucketServer({ name, scheduler, create: () => createBucket(name) });
    });
    this.metastore = new MetaServer({
      scheduler: this.scheduler,
      inner: options.createMetastore?.() ?? new MemoryMetastore(),
    });
  }

  /** Everything that was ever started, the dead included. */
  get processes(): readonly SimulatedProcess[] {
    return this.#processes;
  }

  get living(): readonly SimulatedProcess[] {
    return this.#processes.filter((process) => process.state !== 'dead');
  }

  bucket(index: number): BucketServer {
    const bucket = this.buckets[index];
    assert(bucket !== undefined, 'the world has that bucket');
    return bucket;
  }

  observe(observer: WorldObserver): void {
    this.#observers.push(observer);
    this.metastore.observers.push(observer);
    for (const bucket of this.buckets) bucket.observers.push(observer);
  }

  /** Starts a process; a name that was used before gets a number behind it, as a restart does. */
  spawn(name: string, options: SpawnOptions = {}): SimulatedProcess {
    const { scheduler } = this;
    const start = (this.#starts.get(name) ?? 0) + 1;
    this.#starts.set(name, start);
    const process = new SimulatedProcess({
      name: `${name}.${start}`,
      scheduler,
      table: this.#table,
      hostName: options.host ?? `host-of-${name}`,
    });
    const drift = this.#options.clockDrift ?? 0;
    const clock = new VirtualClock(scheduler, {
      owner: process,
      wallMillis: 1_700_000_000_000 + this.#clocks.below(2_000),
      monotonicMillis: this.#clocks.below(1_000_000),
      rate: 1 + drift * (2 * this.#clocks.fraction() - 1),
      jitterMillis: 1,
      prng: scheduler.prng(`timers of ${process.name}`),
    });
    process.equip(
      { clock, buckets: this.#bucketsOf(process), metastore: this.#metastoreOf(process) },
      (ports) => this.#options.mutate?.(ports, process) ?? ports,
    );
    this.#processes.push(process);
    scheduler.note(`${process.name} starts`);
    for (const observer of this.#observers) observer.processStarted?.(process);
    return process;
  }

  /** Changes the odds for all processes, now and to come. */
  setProfiles(buckets: BucketFaultProfile, metastore: MetaFaultProfile): void {
    this.#bucketProfile = buckets;
    this.#metaProfile = metastore;
    for (const { layers } of this.#processes) {
      layers.metastore.profile = metastore;
      for (const bucket of layers.buckets) bucket.profile = buckets;
    }
  }

  /** Ends every fault: all is reachable, fast and awake from now on. What is late still arrives. */
  heal(): void {
    this.bucketScript.clear();
    this.metaScript.clear();
    this.setProfiles(CALM_BUCKETS, CALM_METASTORE);
    this.metastore.recover();
    for (const bucket of this.buckets) {
      bucket.slowness = 1;
      bucket.recover();
    }
    for (const process of this.living) process.wake();
  }

  #bucketsOf(owner: SimulatedProcess): FaultyBucketStore[] {
    return this.buckets.map(
      (server) =>
        new FaultyBucketStore(server, {
          scheduler: this.scheduler,
          owner,
          profile: this.#bucketProfile,
          script: this.bucketScript,
        }),
    );
  }

  #metastoreOf(owner: SimulatedProcess): FaultyMetastore {
    return new FaultyMetastore(this.metastore, {
      scheduler: this.scheduler,
      owner,
      profile: this.#metaProfile,
      script: this.metaScript,
    });
  }
}

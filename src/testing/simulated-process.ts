/**
 * One operating-system process of a world: its own clock, randomness and network, and one engine.
 * Killed, it never acts again, but what it had sent may still arrive; a restart is a new process.
 */
import type { StarPorts } from '../../actors/ports.ts';
import { assert } from '../lib/assert.ts';
import { Metrics } from '../lib/metrics.ts';
import { deferred, type Deferred } from '../lib/wait.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Log } from '../ports/log.ts';
import type { ProcessIdentity } from '../ports/processes.ts';
import { inlineCompute } from '../workers/inline.ts';
import type { FaultyBucketStore } from './faulty-bucket-store.ts';
import type { FaultyMetastore } from './faulty-metastore.ts';
import type { ProcessTable } from './process-table.ts';
import type { EventOwner, Scheduler } from './scheduler.ts';
import type { VirtualClock } from './virtual-clock.ts';

export type ProcessState = EventOwner['state'];

export interface SimulatedProcessParts {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly table: ProcessTable;
  readonly hostName: string;
}

/** What a process's faults reach: the layers that `World` put under its ports. */
export interface FaultLayers {
  readonly clock: VirtualClock;
  readonly buckets: readonly FaultyBucketStore[];
  readonly metastore: FaultyMetastore;
}

export class SimulatedProcess implements EventOwner {
  readonly name: string;
  readonly identity: ProcessIdentity;
  readonly metrics = new Metrics();
  readonly #scheduler: Scheduler;
  readonly #table: ProcessTable;
  readonly #death: Deferred<'dead'> = deferred();
  #state: ProcessState = 'running';
  #layers: FaultLayers | undefined;
  #ports: StarPorts | undefined;

  constructor(parts: SimulatedProcessParts) {
    this.name = parts.name;
    this.#scheduler = parts.scheduler;
    this.#table = parts.table;
    this.identity = parts.table.start(this, parts.hostName);
  }

  get state(): ProcessState {
    return this.#state;
  }

  get layers(): FaultLayers {
    assert(this.#layers !== undefined, 'the process has its layers');
    return this.#layers;
  }

  get ports(): StarPorts {
    assert(this.#ports !== undefined, 'the process has its ports');
    return this.#ports;
  }

  /** Resolves when the process dies: whoever waits for an answer of it waits no longer. */
  get death(): Promise<'dead'> {
    return this.#death.promise;
  }

  /** Gives the process its view of the world; `mutate` may stand between it and its layers. */
  equip(layers: FaultLayers, mutate: (ports: StarPorts) => StarPorts): void {
    this.#layers = layers;
    const buckets: readonly BucketStore[] = layers.buckets;
    this.#ports = mutate({
      clock: layers.clock,
      random: this.#scheduler.prng(`random of ${this.name}`),
      metastore: layers.metastore,
      // Worker threads would answer in an order that no seed decides.
      compute: inlineCompute(),
      processes: this.#table.viewOf(this),
      log: this.#log(),
      metrics: this.metrics,
      buckets,
      bucketByName: (name) => buckets.find((bucket) => bucket.name === name),
    });
  }

  /** Ends the process at once: no timer fires, no answer arrives, nothing more is sent. */
  crash(): void {
    if (this.#state === 'dead') return;
    this.#state = 'dead';
    this.#scheduler.note(`${this.name} dies`);
    this.#table.end(this);
    void this.#layers?.metastore.close();
    this.#death.resolve('dead');
  }

  /** Stops it as SIGSTOP does: time goes on, nothing is heard or done until `wake`. */
  pause(): void {
    if (this.#state !== 'running') return;
    this.#state = 'paused';
    this.#scheduler.note(`${this.name} is paused`);
  }

  wake(): void {
    if (this.#state !== 'paused') return;
    this.#state = 'running';
    this.#scheduler.note(`${this.name} wakes`);
    this.#scheduler.release(this);
  }

  #log(): Log {
    const line =
      (level: string) =>
      (fields: Readonly<Record<string, unknown>>, message: string): void => {
        this.#scheduler.note(`${this.name} ${level}: ${message}${describeFields(fields)}`);
      };
    return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  }
}

/** Only what is the same in every run: text, numbers, flags. */
function describeFields(fields: Readonly<Record<string, unknown>>): string {
  let text = '';
  for (const [name, value] of Object.entries(fields)) {
    if (['string', 'number', 'boolean'].includes(typeof value)) text += ` ${name}=${String(value)}`;
  }
  return text;
}

/** The metastore as all processes of a world share it: its state, its past, who is cut off from it. */
import type { Metastore } from '../ports/metastore.ts';
import type { MetaCall, MetaFate } from './meta-fates.ts';
import { assertProcessName } from './check.ts';
import { MetaJournal, type MetaChange } from './meta-journal.ts';
import type { Scheduler } from './scheduler.ts';

/** Sees every write at its moments. Must not throw but for a broken rule. */
export interface MetaObserver {
  metaSent?(call: MetaCall): void;
  /** What was drawn for the call. */
  metaFate?(call: MetaCall, fate: MetaFate): void;
  /** A write was applied. */
  metaChanged?(change: MetaChange): void;
  /** A write is about to be applied or refused, perhaps long after its caller gave up. */
  metaArrived?(call: MetaCall): void;
  /** A write met another version, when it was applied. */
  metaConflicted?(call: MetaCall): void;
  /** The caller was told an error. */
  metaFailed?(call: MetaCall, code: string): void;
  /** A read answered a state older than the newest. */
  metaStale?(call: MetaCall): void;
  /** A watcher is not told of a change; a resync follows. */
  metaWatchLost?(process: string): void;
}

export interface MetaServerOptions {
  readonly name?: string;
  readonly scheduler: Scheduler;
  /** All writes must go through faulty stores of this server, or stale reads would not know them. */
  readonly inner: Metastore;
  readonly observers?: readonly MetaObserver[];
}

export class MetaServer {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly inner: Metastore;
  readonly journal = new MetaJournal();
  readonly observers: MetaObserver[];
  readonly #isolated = new Map<string, number>();
  readonly #resyncs = new Set<(process: string) => void>();
  #isDown = false;

  constructor(options: MetaServerOptions) {
    this.name = options.name ?? 'metastore';
    this.scheduler = options.scheduler;
    this.inner = options.inner;
    this.observers = [...(options.observers ?? [])];
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Nobody gets an answer until `recover`. */
  goDown(): void {
    this.#isDown = true;
    this.scheduler.note(`${this.name} goes down`);
  }

  recover(): void {
    this.#isDown = false;
    this.scheduler.note(`${this.name} is available`);
    for (const process of [...this.#isolated.keys()]) this.rejoin(process);
  }

  /**
   * The process of this name talks to a member that the others have left behind: its reads answer the state of
   * this moment, its writes are never applied, its watches are silent.
   */
  isolate(process: string): void {
    assertProcessName(process);
    if (this.#isolated.has(process)) return;
    this.#isolated.set(process, this.journal.length);
    this.scheduler.note(`${process} is isolated with an old leader of ${this.name}`);
  }

  rejoin(process: string): void {
    assertProcessName(process);
    if (!this.#isolated.delete(process)) return;
    this.scheduler.note(`${process} sees ${this.name} again`);
    for (const resync of this.#resyncs) resync(process);
  }

  /** The position in the journal at which the process was isolated. */
  isolatedSince(process: string): number | undefined {
    return this.#isolated.get(process);
  }

  /** Calls `resync` with every process that comes back from isolation; answers how to stop that. */
  onRejoin(resync: (process: string) => void): () => void {
    this.#resyncs.add(resync);
    return () => this.#resyncs.delete(resync);
  }
}

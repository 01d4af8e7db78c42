/**
 * The metastore as one process reaches it: answers are late, lost or old, writes of unknown outcome
 * are applied at once, a minute later or never, watches lose events. Never breaks the port: a read
 * is no older than the last write or barrier that this client had acknowledged on the partition.
 */
import { EngineError, toEngineError } from '../lib/errors.ts';
import type { Prng } from '../lib/prng.ts';
import { abortedError, throwIfAborted } from '../lib/wait.ts';
import {
  partitionOf,
  type DeleteResult,
  type MetaCallOptions,
  type MetaEntry,
  type MetaVersion,
  type MetaWatch,
  type MetaWatchEvent,
  type Metastore,
  type PutResult,
} from '../ports/metastore.ts';
import { Exchange } from './exchange.ts';
import { FaultScript } from './fault-script.ts';
import { FaultyWatch } from './faulty-watch.ts';
import { drawLatency } from './latency.ts';
import {
  CALM_METASTORE,
  drawMetaFate,
  type MetaCall,
  type MetaFate,
  type MetaFaultProfile,
  type MetaOp,
} from './meta-fates.ts';
import { MetaServer } from './meta-server.ts';
import type { EventOwner, Scheduler } from './scheduler.ts';

export interface FaultyMetastoreOptions {
  readonly scheduler: Scheduler;
  /** The process that calls; without one, calls come from outside of all processes. */
  readonly owner?: EventOwner;
  readonly profile?: MetaFaultProfile;
  readonly script?: FaultScript<MetaFate, MetaCall>;
}

type Answer<T> = { readonly value: T } | { readonly error: EngineError };

/** Applies a call at the metastore. `index`: the journal position that a stale read answers from. */
type Apply<T> = (index: number | undefined) => T | Promise<T>;

export class FaultyMetastore implements Metastore {
  readonly server: MetaServer;
  profile: MetaFaultProfile;
  readonly script: FaultScript<MetaFate, MetaCall>;
  readonly #scheduler: Scheduler;
  readonly #owner: EventOwner | undefined;
  readonly #process: string;
  readonly #prng: Prng;
  /** Per partition: the journal position that this client's reads must have reached. */
  readonly #floors = new Map<string, number>();
  readonly #watches = new Set<FaultyWatch>();
  #serial = 0;

  constructor(target: Metastore | MetaServer, options: FaultyMetastoreOptions) {
    this.server =
      target instanceof MetaServer
        ? target
        : new MetaServer({ scheduler: options.scheduler, inner: target });
    this.profile = options.profile ?? CALM_METASTORE;
    this.script = options.script ?? new FaultScript();
    this.#scheduler = options.scheduler;
    this.#owner = options.owner;
    this.#process = options.owner?.name ?? 'outside';
    this.#prng = options.scheduler.prng(`${this.#process} to ${this.server.name}`);
  }

  get(key: string, options?: MetaCallOptions): Promise<MetaEntry | undefined> {
    const { inner, journal } = this.server;
    return this.#call<MetaEntry | undefined>(
      { op: 'get', key },
      (index) => (index === undefined ? inner.get(key) : journal.get(key, index)),
      options,
    );
  }

  floor(
    key: string,
    lowerBound: string,
    options?: MetaCallOptions,
  ): Promise<MetaEntry | undefined> {
    const { inner, journal } = this.server;
    return this.#call<MetaEntry | undefined>(
      { op: 'floor', key },
      (index) =>
        index === undefined
          ? inner.floor(key, lowerBound)
          : journal.range(lowerBound, `${key}\u0000`, index).at(-1),
      options,
    );
  }

  lastChild(prefix: string, options?: MetaCallOptions): Promise<MetaEntry | undefined> {
    const { inner, journal } = this.server;
    return this.#call<MetaEntry | undefined>(
      { op: 'lastChild', key: prefix },
      (index) =>
        index === undefined ? inner.lastChild(prefix) : journal.children(prefix, index).at(-1),
      options,
    );
  }

  children(
    prefix: string,
    options?: MetaCallOptions & { readonly startAfter?: string; readonly limit?: number },
  ): Promise<readonly MetaEntry[]> {
    const { inner, journal } = this.server;
    const { startAfter = '', limit = Number.POSITIVE_INFINITY } = options ?? {};
    return this.#call<readonly MetaEntry[]>(
      { op: 'children', key: prefix },
      (index) =>
        index === undefined
          ? inner.children(prefix, {
              ...(options?.startAfter === undefined ? {} : { startAfter }),
              ...(options?.limit === undefined ? {} : { limit }),
            })
          : journal
              .children(prefix, index)
              .filter((entry) => entry.key > startAfter)
              .slice(0, limit),
      options,
    );
  }

  put(
    key: string,
    value: Uint8Array,
    expected: MetaVersion | 'absent',
    options?: MetaCallOptions,
  ): Promise<PutResult> {
    const copy = value.slice();
    const call = { op: 'put' as const, key, bytes: copy, expected };
    return this.#call<PutResult>(
      call,
      async () => {
        const result = await this.server.inner.put(key, copy, expected);
        if (result.kind === 'applied') {
          this.#changed(key, { key, value: copy, version: result.version });
        }
        return result;
      },
      options,
    );
  }

  delete(key: string, expected: MetaVersion, options?: MetaCallOptions): Promise<DeleteResult> {
    return this.#call<DeleteResult>(
      { op: 'delete', key, expected },
      async () => {
        const result = await this.server.inner.delete(key, expected);
        if (result.kind === 'deleted') this.#changed(key, undefined);
        return result;
      },
      options,
    );
  }

  async barrier(partition: string, options?: MetaCallOptions): Promise<void> {
    await this.#call<null>(
      { op: 'barrier', key: partition },
      async () => {
        await this.server.inner.barrier(partition);
        return null;
      },
      options,
    );
  }

  watch(prefix: string, listener: (event: MetaWatchEvent) => void): MetaWatch {
    const watch = new FaultyWatch(this.server, prefix, listener, {
      scheduler: this.#scheduler,
      owner: this.#owner,
      process: this.#process,
      prng: this.#prng,
      profile: () => this.profile,
      closed: () => this.#watches.delete(watch),
    });
    this.#watches.add(watch);
    return watch;
  }

  async close(): Promise<void> {
    for (const watch of [...this.#watches]) watch.close();
  }

  async #call<T>(
    part: Omit<MetaCall, 'process' | 'target' | 'serial'>,
    apply: Apply<T>,
    options: MetaCallOptions | undefined,
  ): Promise<T> {
    const signal = options?.signal;
    throwIfAborted(signal, part.op);
    const call: MetaCall = {
      ...part,
      process: this.#process,
      target: this.server.name,
      serial: this.#serial++,
    };
    for (const observer of this.server.observers) observer.metaSent?.(call);
    const fate = this.script.decide(call) ?? drawMetaFate(this.#prng, this.profile, call.op);
    for (const observer of this.server.observers) observer.metaFate?.(call, fate);
    this.#scheduler.note(`${describe(call)} ${fate.kind}`);
    const answer = await new Promise<Answer<T>>((resolve) => {
      const exchange = new Exchange<Answer<T>>({
        scheduler: this.#scheduler,
        owner: this.#owner,
        signal,
        timeoutMillis: this.profile.timeoutMillis,
        abandoned: (why) => ({
          error: abandonedError(call.op, why === 'signal' ? signal : undefined),
        }),
        ended: resolve,
      });
      this.#carry(call, fate, exchange, apply);
    });
    if ('value' in answer) {
      this.#scheduler.note(`${describe(call)} answers${describeValue(answer.value)}`);
      return answer.value;
    }
    this.#scheduler.note(`${describe(call)} fails ${answer.error.code}`);
    for (const observer of this.server.observers) observer.metaFailed?.(call, answer.error.code);
    throw answer.error;
  }

  #carry<T>(call: MetaCall, fate: MetaFate, exchange: Exchange<Answer<T>>, apply: Apply<T>): void {
    const scripted: Partial<Extract<MetaFate, { kind: 'pass' }>> = fate.kind === 'pass' ? fate : {};
    const requestMillis = scripted.requestMillis ?? drawLatency(this.#prng, this.profile.request);
    // What the client had acknowledged when it asked; a later acknowledgement binds later reads.
    const floor = this.#floors.get(partitionOf(call.key)) ?? 0;
    const reach = (delayMillis: number, then: (answer: Answer<T>) => void): void => {
      const arrive = (): void => {
        void this.#arrive(call, floor, scripted.staleMillis, exchange, apply).then((answer) => {
          if (answer !== undefined) then(answer);
        });
      };
      this.#scheduler.schedule(delayMillis, 'request', () => {
        if (scripted.requestGate === undefined) arrive();
        else scripted.requestGate.pass(arrive);
      });
    };
    switch (fate.kind) {
      case 'pass':
        reach(requestMillis, (answer) => {
          const reply = (): void => {
            const millis =
              scripted.responseMillis ?? drawLatency(this.#prng, this.profile.response);
            exchange.answerAfter(millis, answer);
          };
          if (scripted.responseGate === undefined) reply();
          else scripted.responseGate.pass(reply);
        });
        return;
      case 'unavailable':
        exchange.answerAfter(requestMillis, { error: unavailable() });
        return;
      case 'lost-response':
        reach(requestMillis, () => undefined);
        return;
      case 'late':
        reach(this.profile.timeoutMillis + fate.afterMillis, () => undefined);
        return;
      case 'never':
        return;
    }
  }

  /** The request is at the metastore; undefined when nothing will answer it. */
  async #arrive<T>(
    call: MetaCall,
    floor: number,
    staleMillis: number | undefined,
    exchange: Exchange<Answer<T>>,
    apply: Apply<T>,
  ): Promise<Answer<T> | undefined> {
    const changes = call.op === 'put' || call.op === 'delete';
    const { journal } = this.server;
    if (this.server.isDown) {
      if (!changes && this.#prng.chance(0.5)) return { error: unavailable() };
      return undefined;
    }
    const cutOff = exchange.isAbandoned && exchange.age < this.profile.timeoutMillis;
    if (cutOff && this.#prng.chance(this.profile.cutOff)) return undefined;
    let index: number | undefined;
    const isolatedSince = this.server.isolatedSince(this.#process);
    if (isolatedSince !== undefined) {
      // An old leader cannot commit anything, and a barrier is a commit.
      if (changes || call.op === 'barrier') return undefined;
      index = Math.max(floor, isolatedSince);
    } else if (staleMillis !== undefined && !changes) {
      index = Math.max(floor, journal.indexAt(this.#scheduler.time - staleMillis));
    }
    if (index !== undefined && index < journal.length) {
      for (const observer of this.server.observers) observer.metaStale?.(call);
    }
    if (changes) for (const observer of this.server.observers) observer.metaArrived?.(call);
    try {
      const value = await apply(index);
      this.#advanceFloor(call, value, exchange);
      return { value };
    } catch (error) {
      return { error: toEngineError(error) };
    }
  }

  /** An acknowledged write or barrier binds the reads that follow it. */
  #advanceFloor(
    call: MetaCall,
    value: unknown,
    exchange: Pick<Exchange<unknown>, 'onAnswered'>,
  ): void {
    const kind = (value as { readonly kind?: string } | null | undefined)?.kind;
    if (kind === 'conflict') {
      this.#scheduler.note(`${describe(call)} meets another version`);
      for (const observer of this.server.observers) observer.metaConflicted?.(call);
      return;
    }
    const isWrite = kind === 'applied' || kind === 'deleted';
    if (!isWrite && call.op !== 'barrier') return;
    const index = this.server.journal.length;
    const partition = partitionOf(call.key);
    exchange.onAnswered(() => {
      this.#floors.set(partition, Math.max(this.#floors.get(partition) ?? 0, index));
    });
  }

  #changed(key: string, entry: MetaEntry | undefined): void {
    const { journal, observers } = this.server;
    const at = this.#scheduler.time;
    const change = journal.append({ at, key, entry, process: this.#process });
    this.#scheduler.note(
      `${this.server.name} #${change.index} ${key} ${entry === undefined ? 'deleted' : 'put'}`,
    );
    for (const observer of observers) observer.metaChanged?.(change);
  }
}

function unavailable(): EngineError {
  return new EngineError('METASTORE_UNAVAILABLE', 'the metastore is not available');
}

function abandonedError(op: MetaOp, signal: AbortSignal | undefined): EngineError {
  if (op === 'put' || op === 'delete') {
    return new EngineError('METASTORE_INDETERMINATE', 'the outcome of a write is not known', {
      sideEffects: 'possible',
      cause: signal?.reason,
    });
  }
  return signal === undefined ? unavailable() : abortedError(signal, op);
}

function describe(call: MetaCall): string {
  return `${call.process} ${call.op} ${call.key} #${call.serial}`;
}

function describeValue(value: unknown): string {
  const kind = (value as { readonly kind?: string } | null | undefined)?.kind;
  return kind === undefined ? '' : ` ${kind}`;
}

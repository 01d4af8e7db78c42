/**
 * Effects of the open gate of one stream: reads of name, writer record and rows, then the claim. A
 * clean open takes three metastore round trips: the name, what it leads to, the claim. The order is
 * in machines/stream.machine.ts, the rules in src/protocol/gate.ts.
 */
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { isCleanRelease, judgeGate, judgePredecessor } from '../src/protocol/gate.ts';
import { chainKey, writerKey } from '../src/protocol/keys.ts';
import {
  chainRecord,
  INITIAL_STREAM_STATE,
  parseRecordValue,
  type StreamConfig,
  type StreamRecord,
  type StreamState,
  type Tenure,
} from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import { partitionOf, type MetaEntry } from '../src/ports/metastore.ts';
import type { StreamEvent } from '../machines/stream.machine.ts';
import { runEffect, type EventTarget } from './effect.ts';
import type { EpochActor } from './epoch.actor.ts';
import { lookUpName, readNamedStream, registerStream, removeName } from './names.ts';
import type { StarPorts } from './ports.ts';
import type { StarHolder } from './star-observer.ts';
import { readLastRow, type StoredRow } from './ref-rows.ts';
import { heldError, notFoundError } from './stream-errors.ts';
import { TakeoverMeasure } from './takeover-measure.ts';
import { untilAvailable } from './until-available.ts';
import { tenureOf, WriterTenure } from './writer-tenure.ts';

export interface GateHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly defaultConfig: StreamConfig;
  epoch(): EpochActor;
  /** The lease of the incarnation, if it is registered: only ever a reason to wait (T3). */
  holderOf(star: string, incarnation: string, signal: AbortSignal): Promise<StarHolder | undefined>;
  /** Fences the epoch and covers the stream up to its cut. */
  settleFor(
    streamId: string,
    target: { readonly star: string; readonly epoch: number },
    options: { readonly signal: AbortSignal; readonly onFenced: () => void },
  ): Promise<void>;
}

/** What an open does about a name that leads nowhere. */
export type IfAbsent = 'create' | 'refuse';

/** What the first look at a stream found, all in one round trip; any of it may be old. */
interface FirstLook {
  readonly writer: MetaEntry | undefined;
  readonly last: StoredRow | undefined;
}

export class StreamGate {
  readonly #host: GateHost;
  readonly #measure: TakeoverMeasure;
  readonly #name: string;
  readonly #ifAbsent: IfAbsent;
  readonly #controller = forManyListeners(new AbortController());
  #record: StreamRecord | undefined;
  #writer: WriterTenure | undefined;
  #firstLook: FirstLook | undefined;
  /** The epoch whose tenure was claimed. */
  #claimedIn: EpochActor | undefined;
  #predecessor: Tenure | undefined;
  #found: { readonly tail: number; readonly state: StreamState } | undefined;
  #failure: EngineError | undefined;

  constructor(host: GateHost, name: string, ifAbsent: IfAbsent) {
    this.#host = host;
    this.#measure = new TakeoverMeasure(host.ports);
    this.#name = name;
    this.#ifAbsent = ifAbsent;
  }

  get record(): StreamRecord {
    assert(this.#record !== undefined, 'the name was resolved');
    return this.#record;
  }

  get writer(): WriterTenure {
    assert(this.#writer !== undefined, 'the name was resolved');
    return this.#writer;
  }

  get claimedIn(): EpochActor {
    assert(this.#claimedIn !== undefined, 'the writer record was claimed');
    return this.#claimedIn;
  }

  /** Fires when the stream is given up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get found(): { readonly tail: number; readonly state: StreamState } {
    assert(
      this.#found !== undefined,
      'the tail is known after the writer record names this tenure',
    );
    return this.#found;
  }

  failure(): EngineError {
    return this.#failure ?? new EngineError('INTERNAL', 'the stream did not open');
  }

  stop(): void {
    this.#controller.abort();
  }

  /** Runs effects whose failures become `effect.failed`; the error itself is kept for callers. */
  effects<E extends StreamEvent>(): (
    self: EventTarget<E>,
    effect: (signal: AbortSignal) => Promise<StreamEvent>,
  ) => void {
    return (self, effect) => {
      const step = (signal: AbortSignal): Promise<StreamEvent> =>
        this.#measure.step(() => effect(signal));
      runEffect<StreamEvent>(self, this.#controller.signal, step, (error) => {
        this.#failure = error;
        return { type: 'effect.failed', code: error.code };
      });
    };
  }

  async resolveName(): Promise<StreamEvent> {
    const { ports, settings, defaultConfig } = this.#host;
    const { signal } = this.#controller;
    this.#firstLook = undefined;
    const named = await lookUpName(ports, settings.basin, this.#name, { signal });
    let record: StreamRecord | undefined;
    if (named !== undefined) {
      const [known, writer, last] = await Promise.all([
        readNamedStream(ports, named.entry, { signal }),
        ports.metastore.get(writerKey(named.stream), { signal }),
        readLastRow(ports, named.stream, { signal }),
      ]);
      // T5: the record of a deleted stream is gone already, the name stayed.
      if (known === undefined) {
        await removeName(ports, settings.basin, this.#name, named.stream, { signal });
        return { type: 'gate.staleName' };
      }
      record = known;
      this.#firstLook = { writer, last };
    }
    if (record === undefined) {
      if (this.#ifAbsent === 'refuse') {
        throw notFoundError(this.#name);
      }
      this.#firstLook = undefined;
      const request = { basin: settings.basin, name: this.#name, config: defaultConfig };
      record = (await registerStream(ports, request, { signal })).record;
    }
    this.#record = record;
    this.#writer = new WriterTenure(ports, record.stream, signal);
    return { type: 'name.resolved', streamId: record.stream };
  }

  async judge(): Promise<StreamEvent> {
    const { ports } = this.#host;
    const { signal } = this.#controller;
    const { stream } = this.record;
    const { writer } = this;
    const first = this.#firstLook;
    this.#firstLook = undefined;
    const known = first === undefined ? writer.takeConflict() : { entry: first.writer };
    const { entry } = known ?? { entry: await ports.metastore.get(writer.key, { signal }) };
    writer.saw(entry);
    this.#found = undefined;
    const verdict = judgeGate(writer.record, tenureOf(this.#host.epoch().record));
    switch (verdict.kind) {
      case 'fresh':
        // Nobody led before, if the claim finds no record either: there is nothing to read after it.
        this.#found = { tail: 0, state: INITIAL_STREAM_STATE };
        return { type: 'gate.passed' };
      case 'join':
        // What this incarnation acknowledged before is covered before the tail is read.
        await this.#host.epoch().absorber.flush(stream, signal);
        return { type: 'gate.passed' };
      case 'deleted':
        await removeName(ports, this.#host.settings.basin, this.#name, stream, { signal });
        return { type: 'gate.staleName' };
      case 'released': {
        let last = first === undefined ? await this.#lastRow() : first.last;
        if (!isCleanRelease(verdict, last?.row)) {
          // Each read may have been old: only what is read after a barrier can disagree.
          await ports.metastore.barrier(partitionOf(writer.key), { signal });
          const again = await ports.metastore.get(writer.key, { signal });
          if (again?.version !== entry?.version) return this.judge();
          last = await this.#lastRow();
        }
        if (isCleanRelease(verdict, last?.row)) {
          // The tail that the claim replaces; the row certifies the state as of it.
          this.#found = { tail: verdict.tail, state: last?.row.state ?? INITIAL_STREAM_STATE };
          return { type: 'gate.passed' };
        }
        ports.metrics.counter('gate.markDisagrees').add();
        ports.log.error(
          { stream, tail: verdict.tail, rowsEnd: last?.row.end },
          'a release and its mark disagree',
        );
        return this.#unsettled(verdict.tenure);
      }
      case 'examine':
        return this.#examine(verdict.tenure, signal);
    }
  }

  async #examine(tenure: Tenure, signal: AbortSignal): Promise<StreamEvent> {
    const ownIncarnation = this.#host.epoch().record.incarnation;
    // Asked at once, for the case that it is needed.
    const looking = this.#host.holderOf(tenure.star, tenure.incarnation, signal);
    looking.catch(() => undefined);
    const facts = { tenure, ownIncarnation, head: await this.#headOf(tenure, signal) };
    if (judgePredecessor({ ...facts, registered: true }) === 'settle') {
      return this.#unsettled(tenure);
    }
    const holder = await looking;
    if (holder === undefined) return this.#unsettled(tenure);
    throw heldError(this.#name, tenure, holder);
  }

  async #headOf(tenure: Tenure, signal: AbortSignal): Promise<number | undefined> {
    const key = chainKey(tenure.star);
    const entry = await this.#host.ports.metastore.get(key, { signal });
    if (entry === undefined) return undefined;
    return parseRecordValue(chainRecord, key, entry.value).heads[tenure.class];
  }

  #unsettled(tenure: Tenure): StreamEvent {
    this.#predecessor = tenure;
    if (tenure.star !== this.#host.settings.star) this.#measure.detected();
    return { type: 'gate.unsettled', star: tenure.star, epoch: tenure.epoch };
  }

  async settlePredecessor(): Promise<StreamEvent> {
    assert(this.#predecessor !== undefined, 'a predecessor is settled after it was found');
    const { star, epoch } = this.#predecessor;
    await this.#host.settleFor(
      this.record.stream,
      { star, epoch },
      { signal: this.#controller.signal, onFenced: () => this.#measure.fenced() },
    );
    this.#measure.settled();
    return { type: 'predecessor.settled' };
  }

  /** T1: the writer record names this tenure before any flight carries a record. */
  async claim(): Promise<StreamEvent> {
    const epoch = this.#host.epoch();
    if (!(await this.writer.claim(tenureOf(epoch.record)))) return { type: 'writer.conflict' };
    this.#claimedIn = epoch;
    return { type: 'writer.claimed' };
  }

  /**
   * After the claim, whose value tells the tail of a clean release. Any other predecessor could still
   * have extended the rows before it: they are read now, for as long as that takes.
   */
  async readTail(): Promise<StreamEvent> {
    if (this.#found === undefined) {
      const { ports } = this.#host;
      const { signal } = this.#controller;
      const last = await untilAvailable(ports, signal, () => this.#lastRow());
      this.#found = { tail: last?.row.end ?? 0, state: last?.row.state ?? INITIAL_STREAM_STATE };
    }
    this.#measure.opened();
    return { type: 'tail.found', tail: this.#found.tail };
  }

  #lastRow(): Promise<StoredRow | undefined> {
    const { signal } = this.#controller;
    return readLastRow(this.#host.ports, this.record.stream, { signal });
  }
}

/**
 * Effects of the open gate and of Finish for one stream: reads and writes of names, writer record
 * and rows. The order is in machines/stream.machine.ts, the rules in src/protocol/gate.ts.
 */
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { isCleanRelease, judgeGate, judgePredecessor, sameTenure } from '../src/protocol/gate.ts';
import { chainKey, refsPrefix, streamKey, writerKey } from '../src/protocol/keys.ts';
import {
  chainRecord,
  encodeRecordValue,
  INITIAL_STREAM_STATE,
  parseRecordValue,
  writerRecord,
  type EpochRecord,
  type StreamConfig,
  type StreamRecord,
  type StreamState,
  type Tenure,
  type WriterRecord,
} from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import { partitionOf, type MetaEntry, type MetaVersion } from '../src/ports/metastore.ts';
import type { StreamEvent, StreamOutcome } from '../machines/stream.machine.ts';
import { conditionalDelete, conditionalPut } from './conditional-write.ts';
import { runEffect, type EventTarget } from './effect.ts';
import type { EpochActor } from './epoch.actor.ts';
import { lookUpStream, registerStream, removeName } from './names.ts';
import type { StarPorts } from './ports.ts';
import { markTail, readLastRow, readLastRowFresh, type StoredRow } from './ref-rows.ts';

export interface GateHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly defaultConfig: StreamConfig;
  epoch(): EpochActor;
  /** Whether the incarnation is registered; only ever a reason to wait (T3). */
  isRegistered(star: string, incarnation: string, signal: AbortSignal): Promise<boolean>;
  /** Fences the epoch and covers the stream up to its cut. */
  settleFor(streamId: string, star: string, epoch: number, signal: AbortSignal): Promise<void>;
}

export class StreamGate {
  readonly #host: GateHost;
  readonly #name: string;
  readonly #controller = forManyListeners(new AbortController());
  #record: StreamRecord | undefined;
  /** The epoch whose tenure was claimed. */
  #claimedIn: EpochActor | undefined;
  #writer: { readonly record: WriterRecord; readonly version: MetaVersion } | undefined;
  #predecessor: Tenure | undefined;
  #cleanTail: number | undefined;
  #found: { readonly tail: number; readonly state: StreamState } | undefined;
  #last: StoredRow | undefined;
  #failure: EngineError | undefined;
  #hasLeft = false;

  constructor(host: GateHost, name: string) {
    this.#host = host;
    this.#name = name;
  }

  get record(): StreamRecord {
    assert(this.#record !== undefined, 'the name was resolved');
    return this.#record;
  }

  get claimedIn(): EpochActor {
    assert(this.#claimedIn !== undefined, 'the writer record was claimed');
    return this.#claimedIn;
  }

  /** The final write of the tenure landed. */
  get hasLeft(): boolean {
    return this.#hasLeft;
  }

  /** Fires when the stream is given up. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The tenure that the writer record names for this star. */
  get #tenure(): Tenure {
    const record = this.#writer?.record;
    assert(record?.kind === 'tenure', 'T1 the writer record names this tenure');
    return record.tenure;
  }

  get found(): { readonly tail: number; readonly state: StreamState } {
    assert(this.#found !== undefined, 'the tail is read after the writer record names this tenure');
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
      runEffect<StreamEvent>(self, this.#controller.signal, effect, (error) => {
        this.#failure = error;
        return { type: 'effect.failed', code: error.code };
      });
    };
  }

  async resolveName(): Promise<StreamEvent> {
    const { ports, settings, defaultConfig } = this.#host;
    const { signal } = this.#controller;
    let record = await lookUpStream(ports, settings.basin, this.#name, { signal });
    if (record === undefined) {
      if (!settings.createStreamOnOpen) {
        throw new EngineError('STREAM_NOT_FOUND', 'no stream has this name', {
          details: { name: this.#name },
        });
      }
      const request = { basin: settings.basin, name: this.#name, config: defaultConfig };
      record = (await registerStream(ports, request, { signal })).record;
    }
    this.#record = record;
    return { type: 'name.resolved', streamId: record.stream };
  }

  async judge(): Promise<StreamEvent> {
    const { ports } = this.#host;
    const { signal } = this.#controller;
    const { stream } = this.record;
    const key = writerKey(stream);
    const entry = await ports.metastore.get(key, { signal });
    this.#remember(entry);
    this.#cleanTail = undefined;
    const verdict = judgeGate(this.#writer?.record, tenureOf(this.#host.epoch().record));
    switch (verdict.kind) {
      case 'fresh':
        return { type: 'gate.passed' };
      case 'join':
        // What this incarnation acknowledged before is covered before the tail is read.
        await this.#host.epoch().absorber.flush(stream, signal);
        return { type: 'gate.passed' };
      case 'deleted':
        await removeName(ports, this.#host.settings.basin, this.#name, stream, { signal });
        return { type: 'gate.staleName' };
      case 'released': {
        let last = await readLastRow(ports, stream, { signal });
        if (!isCleanRelease(verdict, last?.row)) {
          // Each read may have been old: only what is read after a barrier can disagree.
          await ports.metastore.barrier(partitionOf(key), { signal });
          const again = await ports.metastore.get(key, { signal });
          if (again?.version !== entry?.version) return this.judge();
          last = await readLastRow(ports, stream, { signal });
        }
        if (isCleanRelease(verdict, last?.row)) {
          this.#cleanTail = verdict.tail;
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
    const { ports } = this.#host;
    const key = chainKey(tenure.star);
    const entry = await ports.metastore.get(key, { signal });
    const chain = entry === undefined ? undefined : parseRecordValue(chainRecord, key, entry.value);
    const head = chain?.heads[tenure.class];
    const ownIncarnation = this.#host.epoch().record.incarnation;
    const superseded =
      judgePredecessor({ tenure, head, registered: true, ownIncarnation }) === 'settle';
    if (superseded) return this.#unsettled(tenure);
    const registered = await this.#host.isRegistered(tenure.star, tenure.incarnation, signal);
    if (judgePredecessor({ tenure, head, registered, ownIncarnation }) === 'settle') {
      return this.#unsettled(tenure);
    }
    throw new EngineError('STREAM_HELD', 'another star leads this stream', {
      details: { name: this.#name, star: tenure.star, epoch: tenure.epoch },
      retryAfterMillis: 1_000,
    });
  }

  #unsettled(tenure: Tenure): StreamEvent {
    this.#predecessor = tenure;
    return { type: 'gate.unsettled', star: tenure.star, epoch: tenure.epoch };
  }

  async settlePredecessor(): Promise<StreamEvent> {
    assert(this.#predecessor !== undefined, 'a predecessor is settled after it was found');
    const { star, epoch } = this.#predecessor;
    await this.#host.settleFor(this.record.stream, star, epoch, this.#controller.signal);
    return { type: 'predecessor.settled' };
  }

  /** T1: the writer record names this tenure before any flight carries a record. */
  async claim(): Promise<StreamEvent> {
    const epoch = this.#host.epoch();
    const claimed = await this.#write(tenureOf(epoch.record), this.#writer?.version ?? 'absent');
    if (!claimed) return { type: 'writer.conflict' };
    this.#claimedIn = epoch;
    return { type: 'writer.claimed' };
  }

  /** R4: the tenure moves to another epoch of this star only from the version it was appended under. */
  async reclaim(tenure: Tenure): Promise<boolean> {
    assert(this.#writer !== undefined, 'who reclaims has claimed');
    return this.#write(tenure, this.#writer.version);
  }

  async #write(tenure: Tenure, expected: MetaVersion | 'absent'): Promise<boolean> {
    const { ports } = this.#host;
    const put = await conditionalPut(
      ports.metastore,
      {
        key: writerKey(this.record.stream),
        expected,
        encode: (attempt: string) => encodeRecordValue({ kind: 'tenure', tenure, attempt }),
      },
      { clock: ports.clock, random: ports.random, signal: this.#controller.signal },
    );
    if (put.kind === 'conflict') return false;
    this.#writer = { record: { kind: 'tenure', tenure, attempt: '' }, version: put.version };
    return true;
  }

  /** After the claim: before it a predecessor could still extend the rows. */
  async readTail(): Promise<StreamEvent> {
    const { ports } = this.#host;
    const last = await readLastRow(ports, this.record.stream, { signal: this.#controller.signal });
    const tail = last?.row.end ?? 0;
    if (this.#cleanTail !== undefined) {
      assert(tail === this.#cleanTail, 'N the tail row ends at the released tail');
    }
    this.#found = { tail, state: last?.row.state ?? INITIAL_STREAM_STATE };
    return { type: 'tail.found', tail };
  }

  async flushRows(tail: number): Promise<StreamEvent> {
    const { signal } = this.#controller;
    const { stream } = this.record;
    const flushed = await this.#host.epoch().absorber.flush(stream, signal);
    this.#last = flushed ?? (await readLastRowFresh(this.#host.ports, stream, { signal }));
    const end = this.#last?.row.end ?? 0;
    assert(end === tail, 'N the rows end at the tail that is released');
    return { type: 'rows.flushed', end };
  }

  async markTail(tail: number, outcome: StreamOutcome): Promise<StreamEvent> {
    if (outcome === 'deleted' || tail === 0) return { type: 'tail.marked' };
    assert(this.#last !== undefined, 'a tail above 0 has a row');
    const mark = { tenure: this.#tenure, tail };
    const { signal } = this.#controller;
    const result = await markTail(this.#host.ports, this.record.stream, this.#last, mark, {
      signal,
    });
    if (result.kind === 'marked') return { type: 'tail.marked' };
    throw new EngineError('METASTORE_UNAVAILABLE', 'the tail row moved while it was marked', {
      details: { stream: this.record.stream, tail },
    });
  }

  /** The final write of a tenure; the condition is the version under which this tenure led. */
  async leave(tail: number, outcome: StreamOutcome): Promise<StreamEvent> {
    const { ports } = this.#host;
    const { signal } = this.#controller;
    const tenure = this.#tenure;
    assert(this.#writer !== undefined, 'who leaves has led');
    const put = await conditionalPut(
      ports.metastore,
      {
        key: writerKey(this.record.stream),
        expected: this.#writer.version,
        encode: (attempt: string) =>
          encodeRecordValue(
            outcome === 'deleted'
              ? { kind: 'deleted', attempt }
              : { kind: 'released', tenure, tail, attempt },
          ),
      },
      { clock: ports.clock, random: ports.random, signal },
    );
    if (put.kind === 'conflict' && !this.#isOwnLeave(put.current, tail, outcome)) {
      return { type: 'writer.moved' };
    }
    this.#hasLeft = true;
    if (outcome === 'deleted') await this.#cleanUp(signal);
    return { type: 'writer.left' };
  }

  /** An earlier attempt of the same Finish may have landed after its answer was given up. */
  #isOwnLeave(current: MetaEntry | undefined, tail: number, outcome: StreamOutcome): boolean {
    if (current === undefined) return false;
    const record = parseRecordValue(writerRecord, current.key, current.value);
    if (outcome === 'deleted') return record.kind === 'deleted';
    return (
      record.kind === 'released' && record.tail === tail && sameTenure(record.tenure, this.#tenure)
    );
  }

  /** T5: the stream is deleted already; name, rows and record are garbage whenever found. */
  async #cleanUp(signal: AbortSignal): Promise<void> {
    const { ports, settings } = this.#host;
    const { stream } = this.record;
    await removeName(ports, settings.basin, this.#name, stream, { signal });
    const context = { clock: ports.clock, random: ports.random, signal };
    for (;;) {
      const rows = await ports.metastore.children(refsPrefix(stream), { signal, limit: 100 });
      if (rows.length === 0) break;
      for (const { key, version } of rows) {
        await conditionalDelete(ports.metastore, { key, expected: version }, context);
      }
    }
    const entry = await ports.metastore.get(streamKey(stream), { signal });
    if (entry === undefined) return;
    const { key, version } = entry;
    await conditionalDelete(ports.metastore, { key, expected: version }, context);
  }

  #remember(entry: MetaEntry | undefined): void {
    this.#writer =
      entry === undefined
        ? undefined
        : {
            record: parseRecordValue(writerRecord, entry.key, entry.value),
            version: entry.version,
          };
  }
}

/** The tenure that a star writes into writer records while the epoch is its head. */
export function tenureOf(epoch: EpochRecord): Tenure {
  const { star, incarnation, class: storageClass } = epoch;
  return { star, incarnation, class: storageClass, epoch: epoch.epoch };
}

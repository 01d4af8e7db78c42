/**
 * Leads one stream: passes the open gate, appends, serves, finishes.
 * Chart: machines/stream.machine.ts; rules: src/protocol/gate.ts. Source: DESIGN "Tenure and the
 * open gate (T)", "Finish (N)", "Serving (L)".
 */
import { createActor, type ActorRefFrom } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { deferred, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import { checkBatch, type RecordInput } from '../src/protocol/batch.ts';
import type { StreamRecord, StreamState } from '../src/protocol/records.ts';
import { streamMachine, type StreamEvent, type StreamOutcome } from '../machines/stream.machine.ts';
import { AppendBatch, encodeBatch, type BatchOwner, type Position } from './append-batch.ts';
import { xstateClock } from './epoch.actor.ts';
import { StreamGate, type GateHost } from './stream-gate.ts';
import type { ReadView, RecentEntry } from './stream-reader.ts';
import { StreamTail, type TailEntry } from './stream-tail.ts';
import type { Admission } from './admission.ts';

export interface StreamHost extends GateHost {
  readonly admission: Admission;
  /** The actor has ended; it is not found under its name any more. */
  onEnded(actor: StreamActor): void;
}

export class StreamActor implements BatchOwner, ReadView {
  readonly name: string;
  readonly #host: StreamHost;
  readonly #gate: StreamGate;
  readonly #machine: ActorRefFrom<typeof streamMachine>;
  readonly #opened = deferred<void>();
  readonly #ended = deferred<void>();
  #tail = new StreamTail(0);
  /** State as assigned, ahead of `#durable` by the batches under way. */
  #assigned!: StreamState;
  #durable!: StreamState;
  #nextSeqNum = 0;
  readonly #underWay = new Set<AppendBatch>();
  /** Parties that wait for the tail to move. */
  #tailWaiters: (() => void)[] = [];
  #refusal: EngineError | undefined;
  /** Handles that callers hold; the last one to close finishes. */
  handleCount = 0;

  constructor(host: StreamHost, name: string) {
    this.name = name;
    this.#host = host;
    this.#gate = new StreamGate(host, name);
    this.#opened.promise.catch(() => undefined);
    this.#machine = this.#createMachine();
  }

  start(): void {
    this.#machine.start();
  }

  get clock(): StreamHost['ports']['clock'] {
    return this.#host.ports.clock;
  }

  get defaultTimeoutMillis(): number | undefined {
    return this.#host.settings.defaultTimeoutMillis || undefined;
  }

  /** Known once the stream is open. */
  get record(): StreamRecord {
    return this.#gate.record;
  }

  get tail(): StreamTail {
    return this.#tail;
  }

  get tailPosition(): Position {
    return { seqNum: this.#tail.end, timestamp: this.#durable.lastTimestamp };
  }

  get streamId(): string {
    return this.record.stream;
  }

  get firstSeqNum(): number {
    return this.#durable.trimPoint;
  }

  get tailSeqNum(): number {
    return this.#tail.end;
  }

  get recentStart(): number {
    return this.#tail.start;
  }

  recent(seqNum: number): RecentEntry | undefined {
    return this.#recentOf(this.#tail.find(seqNum));
  }

  recentByTimestamp(timestamp: number): RecentEntry | undefined {
    return this.#recentOf(this.#tail.findEntryByTimestamp(timestamp));
  }

  #recentOf(found: TailEntry | undefined): RecentEntry | undefined {
    if (found === undefined) return undefined;
    const { span, flight, entry } = found;
    const { star, epoch, set } = this.#host.epoch().record;
    return { span, source: { star, epoch, set }, copy: () => flight.copyEntry(entry) };
  }

  get isLeading(): boolean {
    return this.#machine.getSnapshot().matches('open');
  }

  get isInLimbo(): boolean {
    return this.#machine.getSnapshot().matches('limbo');
  }

  get isFinishing(): boolean {
    const snapshot = this.#machine.getSnapshot();
    return snapshot.matches('finishing') || snapshot.matches('limbo');
  }

  lastTrouble(): EngineError | undefined {
    return this.#host.epoch().writer.lastTrouble;
  }

  /** Resolves when the gate is passed. */
  opened(options: WaitOptions): Promise<void> {
    return waitFor(this.clock, this.#opened.promise, options, 'open');
  }

  /** Resolves when leadership has ended, in whichever way. */
  ended(options: WaitOptions): Promise<void> {
    return waitFor(this.clock, this.#ended.promise, options, 'close');
  }

  /**
   * Waits for memory, then assigns sequence numbers and encodes.
   *
   * @throws EngineError of a bad batch, POOL_EXHAUSTED, ABORTED, FENCED, CLOSED; nothing was accepted.
   */
  async submit(records: readonly RecordInput[], options: WaitOptions = {}): Promise<AppendBatch> {
    this.#throwIfRefusing();
    const { config } = this.record;
    const batch = checkBatch(records, config.timestamping === 'client-require');
    let accepted: AppendBatch | undefined;
    const timeoutMillis = options.timeoutMillis ?? this.defaultTimeoutMillis;
    await this.#host.admission.admit(
      {
        tryAdmit: () => {
          accepted = this.#accept(batch);
          return accepted !== undefined;
        },
      },
      { ...options, timeoutMillis },
      () => this.lastTrouble(),
    );
    assert(accepted !== undefined, 'an admitted batch was accepted');
    return accepted;
  }

  #accept(batch: ReturnType<typeof checkBatch>): AppendBatch | undefined {
    this.#throwIfRefusing();
    const { writer } = this.#host.epoch();
    const flight = writer.prepare(batch.encodedBytes);
    if (flight === undefined) return undefined;
    const encoded = encodeBatch(
      batch,
      { arena: flight.arena, offset: flight.writeOffset },
      {
        streamId: this.record.stream,
        firstSeqNum: this.#nextSeqNum,
        arrivalMillis: this.clock.now(),
        state: this.#assigned,
        config: this.record.config,
      },
    );
    const accepted = new AppendBatch(this, encoded, batch.meteredBytes);
    this.#nextSeqNum = accepted.endSeqNum;
    this.#assigned = encoded.state;
    this.#underWay.add(accepted);
    writer.commit(flight, encoded.shape, encoded.end, accepted);
    return accepted;
  }

  batchAcknowledged(batch: AppendBatch): Position {
    assert(this.#underWay.delete(batch), 'A5 a batch has one outcome');
    this.#durable = batch.state;
    const { metrics, clock } = this.#host.ports;
    metrics.histogram('append.ackMillis').record(clock.monotonic() - batch.submittedAt);
    metrics.counter('append.acknowledgedRecords').add(batch.endSeqNum - batch.startSeqNum);
    metrics.counter('append.acknowledgedBytes').add(batch.meteredBytes);
    this.#wakeTailWaiters();
    return { seqNum: this.#tail.end, timestamp: batch.state.lastTimestamp };
  }

  batchDropped(batch: AppendBatch): void {
    assert(this.#underWay.delete(batch), 'A5 a batch has one outcome');
    this.#host.ports.metrics.counter('append.dropped').add();
  }

  /** Confirms on the chain that this star still leads, after the call began (L1). */
  async confirm(): Promise<void> {
    this.#throwIfRefusing();
    await this.#host.epoch().confirmation.confirm();
    // L2: the confirmation says nothing any more once a released CAS was sent.
    this.#throwIfRefusing();
  }

  /** Resolves when the acknowledged tail is beyond `seqNum`, or this star stopped serving. */
  tailBeyond(seqNum: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        if (this.#refusal !== undefined) done(() => reject(this.#refusal!));
        else if (this.#tail.end > seqNum) done(resolve);
        else this.#tailWaiters.push(check);
      };
      const done = (end: () => void): void => {
        signal.removeEventListener('abort', onAbort);
        end();
      };
      const onAbort = (): void => {
        this.#tailWaiters = this.#tailWaiters.filter((waiter) => waiter !== check);
        resolve();
      };
      if (signal.aborted) resolve();
      else {
        signal.addEventListener('abort', onAbort, { once: true });
        check();
      }
    });
  }

  /** Begins a Finish; `ended` tells when it is over. */
  finish(outcome: StreamOutcome): void {
    this.#refuse(
      new EngineError('CLOSED', 'the stream was closed', { details: { stream: this.name } }),
    );
    this.#machine.send({ type: 'finish.requested', outcome });
  }

  /** The epoch has ended under the stream: nothing more is accepted or served here. */
  lose(error: EngineError): void {
    this.#refuse(error);
    this.#opened.reject(error);
    this.#machine.send({ type: 'epoch.lost' });
  }

  stop(error: EngineError): void {
    this.#refuse(error);
    this.#opened.reject(error);
    this.#gate.stop();
    this.#machine.stop();
    this.#ended.resolve();
  }

  #refuse(error: EngineError): void {
    this.#refusal ??= error;
    this.#wakeTailWaiters();
  }

  #wakeTailWaiters(): void {
    const waiters = this.#tailWaiters;
    if (waiters.length === 0) return;
    this.#tailWaiters = [];
    for (const waiter of waiters) waiter();
  }

  #throwIfRefusing(): void {
    if (this.#refusal !== undefined) throw this.#refusal;
    const { writer } = this.#host.epoch();
    if (writer.lost !== undefined) throw writer.fencedError();
  }

  #startServing(): void {
    const { tail, state } = this.#gate.found;
    this.#tail = new StreamTail(tail);
    this.#nextSeqNum = tail;
    this.#assigned = state;
    this.#durable = state;
    this.#host.epoch().addTail(this.record.stream, this.#tail);
    this.#opened.resolve();
  }

  /** N: every batch is acknowledged or placed by the published cut before anything is released. */
  async #resolveBatches(signal: AbortSignal): Promise<StreamEvent> {
    const { writer } = this.#host.epoch();
    writer.flush();
    while (this.#underWay.size > 0 && !signal.aborted) await writer.nextProgress(signal);
    return { type: 'batches.resolved' };
  }

  #createMachine(): ActorRefFrom<typeof streamMachine> {
    const gate = this.#gate;
    const run = gate.effects<StreamEvent>();
    const tailOf = (): number => this.#tail.end;
    const machine = streamMachine.provide({
      actions: {
        resolveName: ({ self }) => run(self, () => gate.resolveName()),
        judgeGate: ({ self }) => run(self, () => gate.judge()),
        settlePredecessor: ({ self }) => run(self, () => gate.settlePredecessor()),
        claimWriter: ({ self }) => run(self, () => gate.claim()),
        readTail: ({ self }) => run(self, () => gate.readTail()),
        startServing: () => this.#startServing(),
        resolveBatches: ({ self }) => run(self, (signal) => this.#resolveBatches(signal)),
        flushRows: ({ self }) => run(self, () => gate.flushRows(tailOf())),
        markTail: ({ self, context }) =>
          run(self, () => gate.markTail(tailOf(), context.outcome ?? 'released')),
        leaveWriter: ({ self, context }) =>
          run(self, () => gate.leave(tailOf(), context.outcome ?? 'released')),
        stopServing: () =>
          this.#refuse(
            new EngineError('CLOSED', 'the stream was closed', { details: { stream: this.name } }),
          ),
      },
    });
    const actor = createActor(machine, {
      input: { name: this.name },
      clock: xstateClock(this.clock),
      id: `star/${this.#host.settings.star}/stream/${Buffer.from(this.name).toString('hex')}`,
    });
    actor.subscribe({
      next: (snapshot) => {
        if (snapshot.matches('failed')) this.#opened.reject(gate.failure());
      },
      complete: () => {
        if (gate.hasRecord) this.#host.epoch().removeTail(this.record.stream);
        this.#ended.resolve();
        this.#host.onEnded(this);
      },
    });
    return actor;
  }
}

/**
 * Leads one stream: passes the open gate, appends, serves, finishes.
 * Chart: machines/stream.machine.ts; rules: src/protocol/gate.ts. Source: DESIGN "Tenure and the
 * open gate (T)", "Finish (N)", "Serving (L)".
 */
import { createActor, type ActorRefFrom } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import { EngineError } from '../src/lib/errors.ts';
import { deadlineError, deferred, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import {
  checkBatch,
  detachBatch,
  type CheckedBatch,
  type RecordInput,
} from '../src/protocol/batch.ts';
import type { StreamRecord, StreamState } from '../src/protocol/records.ts';
import { streamMachine, type StreamEvent, type StreamOutcome } from '../machines/stream.machine.ts';
import { AppendBatch, encodeBatch, type BatchOwner, type Position } from './append-batch.ts';
import { sendTo } from './effect.ts';
import { xstateClock, type EpochActor } from './epoch.actor.ts';
import { Progress } from './progress.ts';
import { changedError, movedError } from './stream-errors.ts';
import { StreamGate, tenureOf, type GateHost } from './stream-gate.ts';
import type { LeaderState } from './leader-view.ts';
import { StreamTail } from './stream-tail.ts';
import type { Admission } from './admission.ts';

export interface StreamHost extends GateHost {
  readonly admission: Admission;
  /** False while the star rolls: batches wait, they do not fail (R2). */
  readonly isAdmitting: boolean;
  /** Resolves when the star is not rolling any more. */
  rolled(): Promise<void>;
  /** Resolves with the end of the stream's rows once they reach the cut of an epoch of this star. */
  coverFor(streamId: string, epoch: number, signal: AbortSignal): Promise<number>;
  /** The actor has ended; it is not found under its name any more. */
  onEnded(actor: StreamActor): void;
}

export class StreamActor implements BatchOwner, LeaderState {
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
  /** A batch was acknowledged or dropped, or the stream is not served any more. */
  readonly #moved = new Progress();
  /** The epoch that `writer` names; behind the star's after a roll, until the stream enters it (R3). */
  #entered: EpochActor | undefined;
  #entering: Promise<void> | undefined;
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

  get durableState(): StreamState {
    return this.#durable;
  }

  /** The writer record was left by this actor's own Finish: released or deleted as asked. */
  get hasLeft(): boolean {
    return this.#gate.hasLeft;
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
  opened(
    options: WaitOptions,
    explain: () => EngineError | undefined = () => undefined,
  ): Promise<void> {
    return waitFor(
      this.clock,
      this.#opened.promise,
      options,
      'open',
      () => explain() ?? deadlineError('open', options.timeoutMillis ?? 0),
    );
  }

  /** Records that only slots hold yet. */
  get unabsorbedRecords(): number {
    return this.#tail.end - this.#tail.coveredEnd;
  }

  /** Whether this actor leads the stream, or finishes its leadership. */
  leads(streamId: string): boolean {
    return this.#entered !== undefined && this.record.stream === streamId;
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
    let batch = checkBatch(records, config.timestamping === 'client-require');
    let accepted: AppendBatch | undefined;
    const timeoutMillis = options.timeoutMillis ?? this.defaultTimeoutMillis;
    await this.#host.admission.admit(
      {
        tryAdmit: () => {
          accepted = this.#accept(batch);
          return accepted !== undefined;
        },
        // The caller may use its arrays again while the batch waits for its turn.
        queued: () => {
          batch = detachBatch(batch);
        },
      },
      { ...options, timeoutMillis },
      () => this.lastTrouble(),
    );
    assert(accepted !== undefined, 'an admitted batch was accepted');
    return accepted;
  }

  #accept(batch: CheckedBatch): AppendBatch | undefined {
    this.#throwIfRefusing();
    if (!this.#host.isAdmitting) return undefined;
    if (this.#entered !== this.#host.epoch()) {
      // T1: its records wait outside the flight until `writer` names the epoch.
      this.enter().then(
        () => this.#host.admission.drain(),
        () => undefined,
      );
      return undefined;
    }
    const { queue } = this.#entered.writer;
    const flight = queue.prepare(batch.encodedBytes);
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
    if (encoded.end - flight.writeOffset !== batch.encodedBytes) throw changedError(this.name);
    const accepted = new AppendBatch(this, encoded, batch.meteredBytes);
    // The flight first: a batch that it refuses has burned no number.
    queue.commit(flight, encoded.shape, encoded.end, accepted);
    this.#nextSeqNum = accepted.endSeqNum;
    this.#assigned = encoded.state;
    this.#underWay.add(accepted);
    return accepted;
  }

  batchAcknowledged(batch: AppendBatch): Position {
    assert(this.#underWay.delete(batch), 'A5 a batch has one outcome');
    this.#durable = batch.state;
    const { metrics, clock } = this.#host.ports;
    metrics.histogram('append.ackMillis').record(clock.monotonic() - batch.submittedAt);
    metrics.counter('append.acknowledgedRecords').add(batch.endSeqNum - batch.startSeqNum);
    metrics.counter('append.acknowledgedBytes').add(batch.meteredBytes);
    this.#moved.tell();
    return { seqNum: this.#tail.end, timestamp: batch.state.lastTimestamp };
  }

  batchDropped(batch: AppendBatch): void {
    assert(this.#underWay.delete(batch), 'A5 a batch has one outcome');
    this.#host.ports.metrics.counter('append.dropped').add();
    this.#moved.tell();
  }

  /** Confirms on the chain that this star still leads, after the call began (L1). */
  async confirm(): Promise<void> {
    for (;;) {
      this.#throwIfRefusing();
      await this.#host.rolled();
      await this.enter();
      const epoch = this.#entered!;
      try {
        await epoch.confirmation.confirm();
        // L2: the confirmation says nothing any more once a released CAS was sent.
        this.#throwIfRefusing();
        return;
      } catch (error) {
        // The epoch ended meanwhile: the next one may confirm, if the star goes on.
        if (this.#refusal !== undefined || epoch.writer.lost === undefined) throw error;
      }
    }
  }

  /**
   * Takes the stream into the star's current epoch: R3 only when its rows reach the cut of the one
   * before, and then by T1. Nothing to do without a roll.
   *
   * @throws EngineError FENCED when `writer` names somebody else by now; the stream is lost then.
   */
  enter(): Promise<void> {
    if (this.#entered === this.#host.epoch()) return Promise.resolve();
    this.#entering ??= this.#enter().finally(() => {
      this.#entering = undefined;
    });
    return this.#entering;
  }

  async #enter(): Promise<void> {
    const { signal } = this.#gate;
    const { stream } = this.record;
    for (;;) {
      const target = this.#host.epoch();
      const old = this.#entered;
      assert(old !== undefined, 'a stream that leads has entered an epoch');
      if (old === target) return;
      const end = await this.#host.coverFor(stream, old.record.epoch, signal);
      // What the old epoch acknowledged lies below its cut, so that its rows reach it all.
      assert(end >= this.#tail.end, 'R3 rows reach the last acknowledged record');
      if (!(await this.#gate.reclaim(tenureOf(target.record)))) {
        const error = movedError(this.name);
        this.lose(error);
        throw error;
      }
      // Rows beyond it are a successor's; then `writer` was not ours to take again.
      assert(end === this.#tail.end, 'R4 nobody else led meanwhile');
      this.#tail.setCovered(end);
      target.addTail(stream, this.#tail);
      old.removeTail(stream);
      this.#entered = target;
    }
  }

  /** Resolves when the acknowledged tail is beyond `seqNum` or the signal fires; rejects when not served. */
  async tailBeyond(seqNum: number, signal: AbortSignal): Promise<void> {
    while (this.#tail.end <= seqNum && !signal.aborted) {
      this.#throwIfRefusing();
      await this.#moved.next(signal);
    }
  }

  /** Begins a Finish; `ended` tells when it is over. */
  finish(outcome: StreamOutcome): void {
    this.#refuse(
      new EngineError('CLOSED', 'the stream was closed', { details: { stream: this.name } }),
    );
    sendTo<StreamEvent>(this.#machine, { type: 'finish.requested', outcome });
  }

  /** The epoch has ended under the stream: nothing more is accepted or served here. */
  lose(error: EngineError): void {
    this.#refuse(error);
    this.#opened.reject(error);
    sendTo<StreamEvent>(this.#machine, { type: 'epoch.lost' });
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
    this.#moved.tell();
  }

  #throwIfRefusing(): void {
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  #startServing(): void {
    const { tail, state } = this.#gate.found;
    this.#tail = new StreamTail(tail);
    this.#nextSeqNum = tail;
    this.#assigned = state;
    this.#durable = state;
    // The star may have rolled since the claim: then the stream enters the new epoch on its first use.
    this.#entered = this.#gate.claimedIn;
    this.#entered.addTail(this.record.stream, this.#tail);
    this.#opened.resolve();
  }

  /** N: every batch is acknowledged or placed by the published cut before anything is released. */
  async #resolveBatches(signal: AbortSignal): Promise<StreamEvent> {
    while (this.#underWay.size > 0 && !signal.aborted) {
      this.#host.epoch().writer.queue.seal();
      await this.#moved.next(signal);
    }
    await this.enter();
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
        this.#entered?.removeTail(this.record.stream);
        this.#ended.resolve();
        this.#host.onEnded(this);
      },
    });
    return actor;
  }
}

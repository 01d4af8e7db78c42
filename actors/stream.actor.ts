/**
 * Leads one stream: passes the open gate, serves, follows its star into new epochs, finishes.
 * Chart: machines/stream.machine.ts; rules: src/protocol/gate.ts. Source: DESIGN "Tenure and the
 * open gate (T)", "Finish (N)", "Serving (L)".
 */
import { createActor, type ActorRefFrom } from 'xstate';
import { assert } from '../src/lib/assert.ts';
import type { EngineError } from '../src/lib/errors.ts';
import { deadlineError, deferred, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import type { RecordInput } from '../src/protocol/batch.ts';
import type { StreamRecord, StreamState, Tenure } from '../src/protocol/records.ts';
import { streamMachine, type StreamEvent, type StreamOutcome } from '../machines/stream.machine.ts';
import type { AppendBatch, Position } from './append-batch.ts';
import { sendTo } from './effect.ts';
import { xstateClock, type EpochActor } from './epoch.actor.ts';
import type { LeaderState } from './leader-view.ts';
import {
  StreamAppends,
  type AppendRequest,
  type AppendsHost,
  type AppendsLeader,
} from './stream-appends.ts';
import { closedStreamError, deletedError, droppedError, movedError } from './stream-errors.ts';
import { StreamDeparture, type Departure } from './stream-departure.ts';
import { StreamFinish } from './stream-finish.ts';
import { StreamGate, type GateHost, type IfAbsent } from './stream-gate.ts';
import type { StreamSession } from './stream-sessions.ts';
import type { StreamTail } from './stream-tail.ts';
import { tenureOf } from './writer-tenure.ts';

export interface StreamHost extends GateHost, AppendsHost {
  /** Resolves when the star is not rolling any more. */
  rolled(): Promise<void>;
  /** Resolves with the end of the stream's rows once they reach the cut of an epoch of this star. */
  coverFor(streamId: string, epoch: number, signal: AbortSignal): Promise<number>;
  /** A Finish failed for the first time. */
  onLimbo(actor: StreamActor): void;
  /** The actor has ended; it is not found under its name any more. */
  onEnded(actor: StreamActor): void;
}

export class StreamActor implements AppendsLeader, LeaderState {
  readonly name: string;
  readonly #host: StreamHost;
  readonly #gate: StreamGate;
  readonly #appends: StreamAppends;
  readonly #machine: ActorRefFrom<typeof streamMachine>;
  readonly #opened = deferred<void>();
  readonly #ended = deferred<void>();
  #finish: StreamFinish | undefined;
  #entered: EpochActor | undefined;
  #entering: Promise<void> | undefined;
  #refusal: EngineError | undefined;
  #left: StreamOutcome | undefined;
  readonly #departure: StreamDeparture;
  /** Handles that callers hold; the last one to close finishes. */
  handleCount = 0;

  constructor(
    host: StreamHost,
    name: string,
    ifAbsent: IfAbsent = host.settings.createStreamOnOpen ? 'create' : 'refuse',
  ) {
    this.name = name;
    this.#host = host;
    this.#gate = new StreamGate(host, name, ifAbsent);
    this.#appends = new StreamAppends(host, this);
    this.#departure = new StreamDeparture(host.ports, name);
    this.#opened.promise.catch(() => undefined);
    this.#machine = this.#createMachine();
  }

  start(): void {
    this.#machine.start();
  }

  /** Known once the stream is open. */
  get record(): StreamRecord {
    return this.#gate.record;
  }

  get streamId(): string {
    return this.record.stream;
  }

  /** What the writer record names; known once it was claimed. */
  get tenure(): Tenure {
    return this.#gate.writer.own;
  }

  get tail(): StreamTail {
    return this.#appends.tail;
  }

  get tailPosition(): Position {
    return this.#appends.tailPosition;
  }

  get durableState(): StreamState {
    return this.#appends.durableState;
  }

  get entered(): EpochActor | undefined {
    return this.#entered;
  }

  /** How this actor's own Finish left the writer record; undefined while or if it did not. */
  get left(): StreamOutcome | undefined {
    return this.#left;
  }

  get isLeading(): boolean {
    return this.#machine.getSnapshot().matches('open');
  }

  get isInLimbo(): boolean {
    const snapshot = this.#machine.getSnapshot();
    return snapshot.matches('limbo') || snapshot.matches('locating');
  }

  get isFinishing(): boolean {
    const snapshot = this.#machine.getSnapshot();
    return snapshot.matches('finishing') || snapshot.matches('cleaning') || this.isInLimbo;
  }

  /** Present from the request of a Finish to its end. */
  get departure(): Departure | undefined {
    // Asked while the chart enters limbo, too.
    return this.isFinishing || this.wasInLimbo ? this.#departure.status : undefined;
  }

  /** Whether a Finish failed once; it is tried until it succeeds or the tenure is over. */
  get wasInLimbo(): boolean {
    return this.#departure.wasInLimbo;
  }

  lastTrouble(): EngineError | undefined {
    return this.#appends.lastTrouble();
  }

  /** Resolves when the gate is passed. */
  opened(
    options: WaitOptions,
    explain: () => EngineError | undefined = () => undefined,
  ): Promise<void> {
    return waitFor(
      this.#host.ports.clock,
      this.#opened.promise,
      options,
      'open',
      () => explain() ?? deadlineError('open', options.timeoutMillis ?? 0),
    );
  }

  /** Records that only slots hold yet. */
  get unabsorbedRecords(): number {
    return this.tail.end - this.tail.coveredEnd;
  }

  /** Whether this actor leads the stream, or finishes its leadership. */
  leads(streamId: string): boolean {
    return this.#entered !== undefined && this.record.stream === streamId;
  }

  /** Resolves when leadership has ended, in whichever way. */
  ended(options: WaitOptions): Promise<void> {
    return waitFor(this.#host.ports.clock, this.#ended.promise, options, 'close');
  }

  /** Resolves when leadership has ended, or when a Finish failed and is tried again. */
  departed(options: WaitOptions): Promise<'ended' | 'limbo'> {
    const either = Promise.race([
      this.#ended.promise.then(() => 'ended' as const),
      this.#departure.stuck.then(() => 'limbo' as const),
    ]);
    return waitFor(this.#host.ports.clock, either, options, 'close');
  }

  /** @throws EngineError as `StreamAppends.submit` does. */
  submit(records: readonly RecordInput[], request: AppendRequest = {}): Promise<AppendBatch> {
    return this.#appends.submit(records, request);
  }

  /** @throws EngineError as `StreamAppends.join` does. */
  join(session: StreamSession, options: WaitOptions): Promise<void> {
    return this.#appends.join(session, options);
  }

  part(session: StreamSession): void {
    this.#appends.part(session);
  }

  /** Confirms on the chain that this star still leads, after the call began (L1). */
  async confirm(): Promise<void> {
    for (;;) {
      this.throwIfRefusing();
      await this.#host.rolled();
      this.throwIfRefusing();
      await this.enter();
      const epoch = this.#entered!;
      try {
        await epoch.confirmation.confirm();
        // L2: the confirmation says nothing any more once a released CAS was sent.
        this.throwIfRefusing();
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
      // What the old epoch acknowledged lies below its cut, so that its rows reach it all; rows that
      // do not are those of a stream that a successor deleted, and then `writer` is not ours.
      const isCovered = end >= this.tail.end;
      const { writer } = this.#gate;
      if (!(await writer.claim(isCovered ? tenureOf(target.record) : writer.own))) {
        const error = movedError(this.name, this.#gate.writer.rival);
        this.lose(error);
        throw error;
      }
      assert(isCovered, 'R3 rows reach the last acknowledged record');
      // Rows beyond it are a successor's; then `writer` was not ours to take again.
      assert(end === this.tail.end, 'R4 nobody else led meanwhile');
      this.tail.setCovered(end);
      target.addTail(stream, this.tail);
      old.removeTail(stream);
      this.#entered = target;
    }
  }

  tailBeyond(seqNum: number, signal: AbortSignal): Promise<void> {
    return this.#appends.tailBeyond(seqNum, signal);
  }

  /**
   * Begins a Finish; `ended` tells when it is over.
   *
   * @param refusal - what callers are answered from now on.
   */
  finish(outcome: StreamOutcome, refusal?: EngineError): void {
    this.#refuse(
      refusal ?? (outcome === 'deleted' ? deletedError(this.name) : closedStreamError(this.name)),
    );
    this.#departure.requested();
    sendTo<StreamEvent>(this.#machine, { type: 'finish.requested', outcome });
  }

  /** The epoch has ended under the stream: nothing more is accepted or served here. */
  lose(error: EngineError): void {
    this.#refuse(error);
    this.#opened.reject(error);
    sendTo<StreamEvent>(this.#machine, { type: 'epoch.lost' });
  }

  /** Its numbers are gone: whatever was accepted behind it would leave a gap. */
  onDropped(): void {
    if (this.isLeading) this.finish('released', droppedError(this.name));
  }

  stop(error: EngineError): void {
    this.#refuse(error);
    this.#opened.reject(error);
    this.#gate.stop();
    this.#machine.stop();
    this.#ended.resolve();
  }

  throwIfRefusing(): void {
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  #refuse(error: EngineError): void {
    this.#refusal ??= error;
    this.#appends.tell();
  }

  #lead(): void {
    const gate = this.#gate;
    const { tail, state } = gate.found;
    this.#appends.start(tail, state);
    // The star may have rolled since the claim: then the stream enters the new epoch on its first use.
    this.#entered = gate.claimedIn;
    this.#entered.addTail(this.record.stream, this.tail);
    this.#finish = new StreamFinish({
      ports: this.#host.ports,
      record: gate.record,
      writer: gate.writer,
      epoch: () => this.#host.epoch(),
      signal: gate.signal,
    });
  }

  /** N: every batch is acknowledged or placed by the published cut before anything is released. */
  async #resolveBatches(signal: AbortSignal): Promise<StreamEvent> {
    await this.#appends.resolved(signal);
    // A lost epoch's records are in rows only when the roll has settled it.
    await this.#host.rolled();
    await this.enter();
    return { type: 'batches.resolved' };
  }

  async #leaveWriter(outcome: StreamOutcome): Promise<StreamEvent> {
    const answer = await this.#finish!.leave(this.tail.end, outcome);
    if (answer.type === 'writer.left') this.#left = outcome;
    return answer;
  }

  #park(): void {
    const isFirst = !this.wasInLimbo;
    const failure = this.#gate.failure();
    this.#departure.parked(failure);
    this.#opened.reject(failure);
    if (isFirst) this.#host.onLimbo(this);
  }

  #createMachine(): ActorRefFrom<typeof streamMachine> {
    const gate = this.#gate;
    const run = gate.effects<StreamEvent>();
    const tailOf = (): number => this.tail.end;
    const machine = streamMachine.provide({
      actions: {
        resolveName: ({ self }) => run(self, () => gate.resolveName()),
        judgeGate: ({ self }) => run(self, () => gate.judge()),
        settlePredecessor: ({ self }) => run(self, () => gate.settlePredecessor()),
        claimWriter: ({ self }) => run(self, () => gate.claim()),
        readTail: ({ self }) => run(self, () => gate.readTail()),
        lead: () => this.#lead(),
        startServing: () => this.#opened.resolve(),
        resolveBatches: ({ self }) => run(self, (signal) => this.#resolveBatches(signal)),
        flushRows: ({ self }) => run(self, () => this.#finish!.flushRows(tailOf())),
        markTail: ({ self, context }) =>
          run(self, () => this.#finish!.markTail(tailOf(), context.outcome ?? 'released')),
        leaveWriter: ({ self, context }) =>
          run(self, () => this.#leaveWriter(context.outcome ?? 'released')),
        cleanUp: ({ self }) => run(self, () => this.#finish!.cleanUp()),
        park: () => this.#park(),
        stopServing: () => this.#refuse(closedStreamError(this.name)),
      },
    });
    const actor = createActor(machine, {
      input: { name: this.name },
      clock: xstateClock(this.#host.ports.clock),
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

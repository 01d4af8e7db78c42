/**
 * The appends of one led stream: numbers are assigned when a batch is encoded into a flight, the
 * acknowledged tail follows behind. Plain code, no statechart per batch.
 * Source: DESIGN "Append (A)", A5.
 */
import { assert } from '../src/lib/assert.ts';
import type { Clock } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import type { Counter, Histogram } from '../src/lib/metrics.ts';
import { linkedSignal, waitFor, type WaitOptions } from '../src/lib/wait.ts';
import {
  checkBatch,
  detachBatch,
  type CheckedBatch,
  type RecordInput,
} from '../src/protocol/batch.ts';
import {
  judgeConditions,
  mismatchError,
  type AppendConditions,
  type Mismatch,
} from '../src/protocol/conditions.ts';
import {
  INITIAL_STREAM_STATE,
  type StreamRecord,
  type StreamState,
} from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { Admission } from './admission.ts';
import { AppendBatch, encodeBatch, type BatchOwner, type Position } from './append-batch.ts';
import { Deadlines } from './deadlines.ts';
import type { EpochActor } from './epoch.actor.ts';
import type { StarPorts } from './ports.ts';
import { Progress } from './progress.ts';
import { changedError, unconfirmedError } from './stream-errors.ts';
import { StreamSessions, type StreamSession } from './stream-sessions.ts';
import { StreamTail } from './stream-tail.ts';

/** The star, as far as appends need it. */
export interface AppendsHost {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly admission: Admission;
  /** False while the star rolls: batches wait, they do not fail (R2). */
  readonly isAdmitting: boolean;
  epoch(): EpochActor;
}

/** Who leads the stream. */
export interface AppendsLeader {
  readonly name: string;
  readonly record: StreamRecord;
  /** The epoch that `writer` names; behind the star's after a roll, until the stream enters it (R3). */
  readonly entered: EpochActor | undefined;
  enter(): Promise<void>;
  /** Throws once nothing is accepted or served any more. */
  throwIfRefusing(): void;
  /** Confirms on the chain that this star still leads, after the call began (L1). */
  confirm(): Promise<void>;
  /** A batch that has its numbers is not appended: nothing can follow it. */
  onDropped(): void;
}

/** A refusal by a condition: a read of the state up to `seqNum`. */
interface Rejection {
  readonly mismatch: Mismatch;
  readonly seqNum: number;
}

/** What the appends of a handle are judged by besides their own conditions. */
export interface AppendRequest extends WaitOptions, AppendConditions {
  readonly session?: StreamSession | undefined;
}

export class StreamAppends implements BatchOwner {
  readonly #host: AppendsHost;
  readonly #leader: AppendsLeader;
  #tail = new StreamTail(0);
  /** State as assigned, ahead of `#durable` by the batches under way. */
  #assigned: StreamState = INITIAL_STREAM_STATE;
  #durable: StreamState = INITIAL_STREAM_STATE;
  #nextSeqNum = 0;
  /** Batches without an outcome: a count, for a set of them costs more than the rest of the bookkeeping. */
  #underWay = 0;
  /** A batch was acknowledged or dropped, or the stream is not served any more. */
  readonly #moved = new Progress();
  readonly #sessions: StreamSessions;
  readonly #ackMillis: Histogram;
  readonly #acknowledgedRecords: Counter;
  readonly #acknowledgedBytes: Counter;
  readonly deadlines: Deadlines | undefined;
  #isEntering = false;
  #enterFailure: EngineError | undefined;

  constructor(host: AppendsHost, leader: AppendsLeader) {
    this.#host = host;
    this.#leader = leader;
    this.#sessions = new StreamSessions(leader.name);
    const { clock, metrics } = host.ports;
    this.#ackMillis = metrics.histogram('append.ackMillis');
    this.#acknowledgedRecords = metrics.counter('append.acknowledgedRecords');
    this.#acknowledgedBytes = metrics.counter('append.acknowledgedBytes');
    const { defaultTimeoutMillis } = host.settings;
    // 0: no deadline.
    if (defaultTimeoutMillis > 0) this.deadlines = new Deadlines(clock, defaultTimeoutMillis);
  }

  /** The stream is led from here on: rows cover everything below its tail. */
  start(tail: number, state: StreamState): void {
    this.#tail = new StreamTail(tail);
    this.#nextSeqNum = tail;
    this.#assigned = state;
    this.#durable = state;
  }

  get clock(): Clock {
    return this.#host.ports.clock;
  }

  get tail(): StreamTail {
    return this.#tail;
  }

  get durableState(): StreamState {
    return this.#durable;
  }

  get tailPosition(): Position {
    return { seqNum: this.#tail.end, timestamp: this.#durable.lastTimestamp };
  }

  lastTrouble(): EngineError | undefined {
    return this.#host.epoch().writer.lastTrouble;
  }

  /** Whoever waits for the tail looks again. */
  tell(): void {
    this.#moved.tell();
  }

  /**
   * Waits for memory, then judges the conditions, assigns sequence numbers and encodes.
   *
   * @throws EngineError of a bad batch, POOL_EXHAUSTED, ABORTED, FENCED, CLOSED; of the conditions
   *   SEQ_NUM_MISMATCH, FENCING_TOKEN_MISMATCH, REJECTION_UNCONFIRMED. Nothing was accepted.
   */
  async submit(records: readonly RecordInput[], request: AppendRequest = {}): Promise<AppendBatch> {
    this.#leader.throwIfRefusing();
    const { config } = this.#leader.record;
    let batch = checkBatch(records, config.timestamping === 'client-require');
    let outcome: AppendBatch | Rejection | undefined;
    const { signal, timeoutMillis = this.deadlines?.millis } = request;
    let queuedAt: number | undefined;
    const admitted = this.#host.admission.admit(
      {
        bytes: batch.encodedBytes,
        tryAdmit: () => {
          const answer = this.#accept(batch, request);
          if (answer === 'full' || answer === 'later') return answer;
          outcome = answer;
          return 'admitted';
        },
        // The caller may use its arrays again while the batch waits for its turn.
        queued: () => {
          batch = detachBatch(batch);
          queuedAt = this.clock.monotonic();
        },
      },
      { signal, timeoutMillis },
      () => this.lastTrouble(),
    );
    if (admitted !== undefined) await admitted;
    assert(outcome !== undefined, 'an admitted batch was judged');
    if (outcome instanceof AppendBatch) return outcome;
    const waited = queuedAt === undefined ? 0 : this.clock.monotonic() - queuedAt;
    return this.#reject(outcome, {
      signal,
      timeoutMillis: timeoutMillis === undefined ? undefined : Math.max(0, timeoutMillis - waited),
    });
  }

  /**
   * A handle under its token, or without one: exact equality with the token as assigned.
   *
   * @throws EngineError FENCING_TOKEN_MISMATCH, REJECTION_UNCONFIRMED, DEADLINE_EXCEEDED, ABORTED
   */
  async join(session: StreamSession, options: WaitOptions): Promise<void> {
    this.#leader.throwIfRefusing();
    const rejection = this.#judge({ fencingToken: session.token });
    if (rejection !== undefined) await this.#reject(rejection, options);
    this.#sessions.add(session);
  }

  part(session: StreamSession): void {
    this.#sessions.remove(session);
  }

  /** Most appends have no condition: they cost nothing here. */
  #judgeAppend({ matchSeqNum, fencingToken, session }: AppendRequest): Rejection | undefined {
    const token = fencingToken ?? session?.token;
    const isFree = token === undefined && matchSeqNum === undefined;
    if (isFree && this.#leader.record.config.mode === 'any') return undefined;
    return this.#judge({ matchSeqNum, fencingToken: token });
  }

  #judge(conditions: AppendConditions): Rejection | undefined {
    const { fencingToken } = this.#assigned;
    const { mode } = this.#leader.record.config;
    const seqNum = this.#nextSeqNum;
    const mismatch = judgeConditions(conditions, { mode, fencingToken, nextSeqNum: seqNum });
    return mismatch === undefined ? undefined : { mismatch, seqNum };
  }

  /**
   * L: a rejection is a read. It is answered when everything it was judged by is durable, and after a
   * confirmation that began after the request; if that does not come about it is no rejection.
   */
  async #reject({ mismatch, seqNum }: Rejection, options: WaitOptions): Promise<never> {
    const limited = linkedSignal(this.clock, options, 'append');
    const known = Promise.all([
      this.tailBeyond(seqNum - 1, limited.signal),
      this.#leader.confirm(),
    ]);
    try {
      await waitFor(this.clock, known, { signal: limited.signal }, 'append');
    } catch (cause) {
      const error = toEngineError(cause);
      // Whoever gave up knows why; nothing was accepted.
      if (limited.signal.aborted) throw givenUpError(limited.signal, error);
      if (error.kind === 'internal' || error.kind === 'corrupt') throw error;
      throw unconfirmedError(this.#leader.name, error);
    } finally {
      limited.release();
    }
    throw mismatchError(this.#leader.name, mismatch);
  }

  #accept(batch: CheckedBatch, request: AppendRequest): AppendBatch | Rejection | 'full' | 'later' {
    const leader = this.#leader;
    leader.throwIfRefusing();
    if (!this.#host.isAdmitting) return 'full';
    const { entered } = leader;
    if (entered !== this.#host.epoch()) {
      const failure = this.#enterFailure;
      this.#enterFailure = undefined;
      if (failure !== undefined) throw failure;
      this.#enter();
      return 'later';
    }
    const rejection = this.#judgeAppend(request);
    if (rejection !== undefined) return rejection;
    const { queue } = entered.writer;
    const flight = queue.prepare(batch.encodedBytes);
    if (flight === undefined) return 'full';
    const encoded = encodeBatch(
      batch,
      { arena: flight.arena, offset: flight.writeOffset },
      {
        streamId: leader.record.stream,
        firstSeqNum: this.#nextSeqNum,
        arrivalMillis: this.clock.now(),
        state: this.#assigned,
        config: leader.record.config,
      },
    );
    if (encoded.end - flight.writeOffset !== batch.encodedBytes) throw changedError(leader.name);
    const accepted = new AppendBatch(this, encoded, batch.meteredBytes);
    // The flight first: a batch that it refuses has burned no number.
    queue.commit(flight, encoded.shape, encoded.end, accepted);
    this.#nextSeqNum = accepted.endSeqNum;
    this.#assigned = encoded.state;
    this.#underWay++;
    const token = encoded.shape.delta?.fencingToken;
    if (token !== undefined) {
      this.#sessions.installed(token, accepted.endSeqNum, request.session);
    }
    return accepted;
  }

  /** T1: records wait outside the flight until `writer` names the epoch; those of other streams do not. */
  #enter(): void {
    if (this.#isEntering) return;
    this.#isEntering = true;
    const { admission } = this.#host;
    this.#leader.enter().then(
      () => {
        this.#isEntering = false;
        admission.drain();
      },
      (cause: unknown) => {
        this.#isEntering = false;
        const error = toEngineError(cause);
        // Tried again when admission looks again.
        if (error.retryable) return;
        // What no waiting mends is the answer of the next batch.
        this.#enterFailure = error;
        admission.drain();
      },
    );
  }

  batchAcknowledged(batch: AppendBatch, nowMillis: number): Position {
    this.#underWay--;
    assert(this.#underWay >= 0, 'A5 a batch has one outcome');
    this.#durable = batch.state;
    this.#sessions.acknowledged(batch.endSeqNum);
    this.#ackMillis.record(nowMillis - batch.submittedAt);
    this.#acknowledgedRecords.add(batch.endSeqNum - batch.startSeqNum);
    this.#acknowledgedBytes.add(batch.meteredBytes);
    this.#moved.tell();
    // The tail of a stream that was lost moves no more; what the cut places is acknowledged all the same.
    const seqNum = Math.max(this.#tail.end, batch.endSeqNum);
    return { seqNum, timestamp: batch.state.lastTimestamp };
  }

  batchDropped(): void {
    this.#underWay--;
    assert(this.#underWay >= 0, 'A5 a batch has one outcome');
    this.#host.ports.metrics.counter('append.dropped').add();
    this.#leader.onDropped();
    this.#moved.tell();
  }

  /** N: every batch is acknowledged or placed by the published cut, unless the signal fires first. */
  async resolved(signal: AbortSignal): Promise<void> {
    while (this.#underWay > 0 && !signal.aborted) {
      this.#host.epoch().writer.queue.seal();
      await this.#moved.next(signal);
    }
  }

  /** Resolves when the acknowledged tail is beyond `seqNum` or the signal fires; rejects when not served. */
  async tailBeyond(seqNum: number, signal: AbortSignal): Promise<void> {
    while (this.#tail.end <= seqNum && !signal.aborted) {
      this.#leader.throwIfRefusing();
      await this.#moved.next(signal);
    }
  }
}

/** The wait of a rejection ended early: unlike an append that was given up it left nothing behind. */
function givenUpError(signal: AbortSignal, error: EngineError): EngineError {
  const reason: unknown = signal.reason;
  if (!EngineError.is(reason) || reason.code !== 'DEADLINE_EXCEEDED') return error;
  const { details } = reason;
  return new EngineError('DEADLINE_EXCEEDED', 'a rejection was not confirmed in time', { details });
}

/**
 * The appends of one led stream: numbers are assigned when a batch is encoded into a flight, the
 * acknowledged tail follows behind. Plain code, no statechart per batch.
 * Source: DESIGN "Append (A)", A5.
 */
import { assert } from '../src/lib/assert.ts';
import type { Clock } from '../src/lib/clock.ts';
import type { EngineError } from '../src/lib/errors.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import {
  checkBatch,
  detachBatch,
  type CheckedBatch,
  type RecordInput,
} from '../src/protocol/batch.ts';
import {
  INITIAL_STREAM_STATE,
  type StreamRecord,
  type StreamState,
} from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { Admission } from './admission.ts';
import { AppendBatch, encodeBatch, type BatchOwner, type Position } from './append-batch.ts';
import type { EpochActor } from './epoch.actor.ts';
import type { StarPorts } from './ports.ts';
import { Progress } from './progress.ts';
import { changedError } from './stream-errors.ts';
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
  /** A batch that has its numbers is not appended: nothing can follow it. */
  onDropped(): void;
}

export class StreamAppends implements BatchOwner {
  readonly #host: AppendsHost;
  readonly #leader: AppendsLeader;
  #tail = new StreamTail(0);
  /** State as assigned, ahead of `#durable` by the batches under way. */
  #assigned: StreamState = INITIAL_STREAM_STATE;
  #durable: StreamState = INITIAL_STREAM_STATE;
  #nextSeqNum = 0;
  readonly #underWay = new Set<AppendBatch>();
  /** A batch was acknowledged or dropped, or the stream is not served any more. */
  readonly #moved = new Progress();

  constructor(host: AppendsHost, leader: AppendsLeader) {
    this.#host = host;
    this.#leader = leader;
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

  get defaultTimeoutMillis(): number | undefined {
    return this.#host.settings.defaultTimeoutMillis || undefined;
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
   * Waits for memory, then assigns sequence numbers and encodes.
   *
   * @throws EngineError of a bad batch, POOL_EXHAUSTED, ABORTED, FENCED, CLOSED; nothing was accepted.
   */
  async submit(records: readonly RecordInput[], options: WaitOptions = {}): Promise<AppendBatch> {
    this.#leader.throwIfRefusing();
    const { config } = this.#leader.record;
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
    const leader = this.#leader;
    leader.throwIfRefusing();
    if (!this.#host.isAdmitting) return undefined;
    const { entered } = leader;
    if (entered !== this.#host.epoch()) {
      // T1: its records wait outside the flight until `writer` names the epoch.
      leader.enter().then(
        () => this.#host.admission.drain(),
        () => undefined,
      );
      return undefined;
    }
    const { queue } = entered.writer;
    const flight = queue.prepare(batch.encodedBytes);
    if (flight === undefined) return undefined;
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
    this.#leader.onDropped();
    this.#moved.tell();
  }

  /** N: every batch is acknowledged or placed by the published cut, unless the signal fires first. */
  async resolved(signal: AbortSignal): Promise<void> {
    while (this.#underWay.size > 0 && !signal.aborted) {
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

/**
 * Reads of one fence wave: heads of slots and identities of buckets, all at once. A wave ends as
 * soon as every slot in it is decided whatever else answers; else it waits for each bucket as long
 * as its patience lasts. What is missing then is unknown.
 */
import { Buffer } from 'node:buffer';
import { setMaxListeners } from 'node:events';
import type { TimerHandle } from '../src/lib/clock.ts';
import { PREAMBLE_BYTES } from '../src/format/preamble.ts';
import type { ExpectedSlot } from '../src/format/slot-object.ts';
import type { ReadOutcome } from '../src/ports/bucket-store.ts';
import { hasBit, type SlotRead, type SlotSeen } from '../src/protocol/fence-rows.ts';
import type { FenceAnswers, FenceWave } from '../src/protocol/fence.ts';
import { epochPrefix, pad } from '../src/protocol/keys.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import { blockingSet, type Quorum } from '../src/protocol/quorum.ts';
import { EMPTY, FLIGHT, POISON, UNKNOWN, type CellCode } from '../src/protocol/slot.ts';
import type { BucketPatience } from './bucket-patience.ts';
import type { BucketSet, IdentityVerdict } from './bucket-set.ts';
import type { StarPorts } from './ports.ts';
import { inspectCell, type InspectedCell } from './slot-inspection.ts';

export type ObserverPorts = Pick<StarPorts, 'clock' | 'log' | 'metrics'>;

export interface FencedEpoch {
  readonly record: EpochRecord;
  readonly set: BucketSet;
  /** One for each bucket of the set. */
  readonly patience: readonly BucketPatience[];
}

/** What was asked of one slot, filled in as answers come. */
class SlotBoard implements SlotSeen {
  readonly slot: number;
  readonly key: string;
  readonly cells: CellCode[];
  readonly prints: number[];
  released = -1;
  sizeBytes = 0;
  /** No further answer changes what the walk makes of this slot. */
  isForced = false;
  #firstHead: Uint8Array | undefined;
  #firstSizeBytes = 0;
  #firstFound: InspectedCell | undefined;
  readonly #evidence: boolean;
  readonly #copies: number;
  readonly #blocking: number;
  #flights: number;
  #poisons: number;
  #empties = 0;

  constructor(read: SlotRead, key: string, quorum: Quorum, blocking: number) {
    this.slot = read.slot;
    this.key = key;
    this.cells = new Array<CellCode>(quorum.buckets).fill(UNKNOWN);
    this.prints = new Array<number>(quorum.buckets).fill(0);
    this.#evidence = read.evidence;
    this.#copies = quorum.copies;
    this.#blocking = blocking;
    this.#flights = read.flights;
    this.#poisons = read.poisons;
    this.#force();
  }

  /** Judges a head; copies of one flight have the same bytes, and so the same verdict. */
  inspect(head: Uint8Array, sizeBytes: number, expected: ExpectedSlot): InspectedCell {
    const first = this.#firstFound;
    const isSame = sizeBytes === this.#firstSizeBytes && first !== undefined;
    if (isSame && Buffer.compare(head, this.#firstHead!) === 0) return first;
    const found = inspectCell(head, sizeBytes, expected);
    if (first === undefined) {
      this.#firstHead = head;
      this.#firstSizeBytes = sizeBytes;
      this.#firstFound = found;
    }
    return found;
  }

  /** True when this cell is the one that forces the slot. */
  note(cell: CellCode): boolean {
    if (cell === FLIGHT) this.#flights++;
    else if (cell === POISON) this.#poisons++;
    else if (cell === EMPTY) this.#empties++;
    const wasForced = this.isForced;
    this.#force();
    return this.isForced && !wasForced;
  }

  #force(): void {
    this.isForced = this.#evidence
      ? this.#flights >= this.#copies || this.#poisons >= this.#blocking
      : this.#flights > 0 || this.#poisons + this.#empties >= this.#blocking;
  }

  /** Plain data: what the walk keeps. */
  seen(): SlotSeen {
    const { slot, cells, prints, released, sizeBytes } = this;
    return { slot, cells, prints, released, sizeBytes };
  }
}

/** Runs the reads of one wave. Never rejects; a fired signal makes what is missing unknown. */
export function observeWave(
  ports: ObserverPorts,
  epoch: FencedEpoch,
  wave: FenceWave,
  signal: AbortSignal,
): Promise<ObservedWave> {
  return new WaveObservation(ports, epoch, wave, signal).run();
}

export type ObservedWave = Pick<FenceAnswers, 'reads' | 'identities'> & { readonly gets: number };

class WaveObservation {
  readonly #ports: ObserverPorts;
  readonly #epoch: FencedEpoch;
  readonly #wave: FenceWave;
  readonly #signal: AbortSignal;
  readonly #boards: SlotBoard[];
  readonly #verdicts: IdentityVerdict[];
  readonly #abort: AbortController[];
  /** Answers that are still missing, and those of them that the wave waits for. */
  readonly #pending: number[];
  readonly #isAwaited: boolean[];
  readonly #timers: (TimerHandle | undefined)[];
  readonly #begunAt: number;
  #awaited = 0;
  #identitiesAwaited = 0;
  readonly #unidentified = new Set<number>();
  #unforced = 0;
  #gets = 0;
  #finish: (() => void) | undefined;
  #isOver = false;

  constructor(ports: ObserverPorts, epoch: FencedEpoch, wave: FenceWave, signal: AbortSignal) {
    const { record, set } = epoch;
    this.#ports = ports;
    this.#epoch = epoch;
    this.#wave = wave;
    this.#signal = signal;
    const prefix = epochPrefix(record.star, record.epoch);
    const quorum = { buckets: record.buckets, copies: record.copyQuorum };
    const blocking = blockingSet(quorum);
    this.#boards = wave.reads.map(
      (read) => new SlotBoard(read, prefix + pad(read.slot), quorum, blocking),
    );
    this.#verdicts = set.buckets.map(() => 'unknown');
    this.#abort = set.buckets.map(() => new AbortController());
    // One signal serves every read of a wave in its bucket: many listeners are no leak here.
    for (const { signal: each } of this.#abort) setMaxListeners(0, each);
    this.#pending = set.buckets.map(() => 0);
    this.#isAwaited = set.buckets.map(() => false);
    this.#timers = set.buckets.map(() => undefined);
    this.#begunAt = ports.clock.monotonic();
  }

  async run(): Promise<ObservedWave> {
    const { set } = this.#epoch;
    this.#unforced = this.#boards.length;
    for (const board of this.#boards) if (board.isForced) this.#unforced--;
    for (let bucket = 0; bucket < set.buckets.length; bucket++) this.#ask(bucket);
    if (!this.#isDone()) await this.#answers();
    this.#isOver = true;
    const identities: { bucket: number; verdict: IdentityVerdict }[] = [];
    this.#verdicts.forEach((verdict, bucket) => {
      if (hasBit(this.#wave.identities, bucket)) identities.push({ bucket, verdict });
    });
    return { reads: this.#boards.map((board) => board.seen()), identities, gets: this.#gets };
  }

  /** Sends everything that one bucket is asked in this wave. */
  #ask(bucket: number): void {
    const target = this.#epoch.set.buckets[bucket];
    // A bucket that is not configured any more answers nothing: it stays unknown.
    if (target === undefined) return;
    const { isOverdue } = this.#epoch.patience[bucket]!;
    const signal = this.#abort[bucket]!.signal;
    this.#isAwaited[bucket] = !isOverdue || this.#wave.kind === 'undecided';
    if (hasBit(this.#wave.identities, bucket)) {
      this.#count(bucket);
      this.#unidentified.add(bucket);
      if (this.#isAwaited[bucket]) this.#identitiesAwaited++;
      void target.confirm(signal).then((verdict) => {
        this.#identified(bucket, verdict);
      });
    }
    const { reads } = this.#wave;
    for (let index = 0; index < reads.length; index++) {
      const { slot, ask, evidence } = reads[index]!;
      // One request is enough to learn that a silent bucket is back.
      if (!hasBit(ask, bucket) || (isOverdue && slot !== this.#wave.slot)) continue;
      this.#count(bucket);
      void target.store
        .readHead(this.#boards[index]!.key, PREAMBLE_BYTES, { evidence, signal })
        .then((outcome) => {
          this.#seen(bucket, index, outcome);
        });
    }
  }

  #count(bucket: number): void {
    this.#gets++;
    this.#pending[bucket]!++;
    if (this.#isAwaited[bucket] === true) this.#awaited++;
  }

  #identified(bucket: number, verdict: IdentityVerdict): void {
    if (!this.#isOver) this.#verdicts[bucket] = verdict;
    this.#unidentified.delete(bucket);
    if (this.#isAwaited[bucket] === true) this.#identitiesAwaited--;
    this.#answered(bucket, verdict !== 'unknown');
  }

  #seen(bucket: number, index: number, outcome: ReadOutcome): void {
    if (outcome.kind === 'unknown') this.#epoch.patience[bucket]!.noteFailedRead(outcome.cause);
    if (!this.#isOver) this.#lay(this.#boards[index]!, bucket, outcome);
    this.#answered(bucket, outcome.kind !== 'unknown');
  }

  #lay(board: SlotBoard, bucket: number, outcome: ReadOutcome): void {
    if (outcome.kind === 'unknown') return;
    if (outcome.kind === 'absent') {
      board.cells[bucket] = EMPTY;
      if (board.note(EMPTY)) this.#unforced--;
      return;
    }
    const { star, epoch, nonce } = this.#epoch.record;
    const expected = { star, epoch, slot: board.slot, nonce };
    const found = board.inspect(outcome.bytes, outcome.sizeBytes, expected);
    board.cells[bucket] = found.cell;
    board.prints[bucket] = found.print;
    if (board.note(found.cell)) this.#unforced--;
    if (found.released > board.released) board.released = found.released;
    if (found.sizeBytes > board.sizeBytes) board.sizeBytes = found.sizeBytes;
    if (found.fault !== undefined) this.#report(board.slot, bucket, found.fault);
  }

  #report(slot: number, bucket: number, fault: string): void {
    const { record, set } = this.#epoch;
    this.#ports.metrics.counter('fence.corruptObjects').add();
    this.#ports.log.error(
      {
        star: record.star,
        epoch: record.epoch,
        slot,
        bucket: set.buckets[bucket]?.store.name,
        fault,
      },
      'an object in a slot is damaged or of another writer',
    );
  }

  #answered(bucket: number, told: boolean): void {
    const { clock } = this.#ports;
    const left = --this.#pending[bucket]!;
    if (told) {
      const patience = this.#epoch.patience[bucket]!;
      patience.noteAnswer();
      // The last answer is what a wave waits for.
      if (left === 0) patience.noteRead(clock.monotonic() - this.#begunAt);
    }
    if (this.#isAwaited[bucket] === true) this.#awaited--;
    const timer = this.#timers[bucket];
    if (left === 0 && timer !== undefined) clock.clearTimeout(timer);
    if (left === 0) this.#releaseSignal();
    if (this.#isDone()) this.#finish?.();
  }

  /** The identity reads of a probe are there to report a lost bucket early; it does not wait for them. */
  #isDone(): boolean {
    if (this.#awaited === 0) return true;
    return this.#unforced === 0 && (this.#identitiesAwaited === 0 || this.#wave.kind === 'probe');
  }

  /** Waits for the answers; whoever is late is given up and counts as unknown. */
  #answers(): Promise<void> {
    const { clock } = this.#ports;
    return new Promise<void>((resolve) => {
      this.#finish = (): void => {
        this.#finish = undefined;
        this.#isOver = true;
        resolve();
      };
      // A wave that ends early leaves these timers: they end what is still under way.
      this.#pending.forEach((count, bucket) => {
        if (count === 0) return;
        const giveUp = (): void => {
          this.#giveUp(bucket);
        };
        const waitMillis = this.#epoch.patience[bucket]!.readWaitMillis();
        this.#timers[bucket] = clock.setTimeout(giveUp, waitMillis);
      });
      this.#signal.addEventListener('abort', this.#onAbort, { once: true });
      if (this.#signal.aborted) this.#onAbort();
    });
  }

  readonly #onAbort = (): void => {
    const { clock } = this.#ports;
    for (const timer of this.#timers) if (timer !== undefined) clock.clearTimeout(timer);
    for (const controller of this.#abort) controller.abort(this.#signal.reason);
    this.#finish?.();
  };

  #releaseSignal(): void {
    if (this.#pending.some((count) => count > 0)) return;
    this.#signal.removeEventListener('abort', this.#onAbort);
  }

  #giveUp(bucket: number): void {
    if (this.#pending[bucket] === 0) return;
    this.#epoch.patience[bucket]!.noteOverdue();
    this.#abort[bucket]!.abort();
    if (this.#isOver) return;
    // Whatever an aborted request still answers is not waited for.
    this.#isAwaited[bucket] = false;
    this.#awaited = 0;
    this.#identitiesAwaited = 0;
    this.#pending.forEach((count, other) => {
      if (this.#isAwaited[other] === true) this.#awaited += count;
    });
    for (const other of this.#unidentified) {
      if (this.#isAwaited[other] === true) this.#identitiesAwaited++;
    }
    if (this.#isDone()) this.#finish?.();
  }
}

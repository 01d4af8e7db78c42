/**
 * Compares what is read back of a stream with what was submitted and acknowledged. Judges by the ids in
 * the records, so that it tells apart: lost, read twice, in the wrong place, altered.
 */
import type { ReadRecord } from '../../engine/api.ts';
import { crc32 } from '../../format/crc.ts';
import type { AckReport } from './reports.ts';
import { addChecksum, submissionIdOf, type SubmissionId } from './submission.ts';

export interface Verdict {
  /** Records read, and those of them that were never acknowledged to the parent. */
  readonly records: number;
  readonly unacknowledged: number;
  /** Acknowledged records that cannot be read as they were submitted, wherever they may be. */
  readonly lost: number;
  /** Those of the lost whose bytes or timestamps changed. */
  readonly altered: number;
  /** Records of one submission read more than once. */
  readonly duplicated: number;
  /** Records not where they must be: other position than acknowledged, gap, order, timestamps. */
  readonly outOfOrder: number;
  /** Records missing from a batch that was read in part: batches are atomic, acknowledged or not. */
  readonly torn: number;
}

export const CLEAN: Verdict = {
  records: 0,
  unacknowledged: 0,
  lost: 0,
  altered: 0,
  duplicated: 0,
  outOfOrder: 0,
  torn: 0,
};

export function addVerdicts(verdicts: readonly Verdict[]): Verdict {
  return verdicts.reduce((sum, one) => {
    const fields = Object.keys(sum) as (keyof Verdict)[];
    return Object.fromEntries(
      fields.map((field) => [field, sum[field] + one[field]]),
    ) as unknown as Verdict;
  }, CLEAN);
}

export function isClean(verdict: Verdict): boolean {
  return verdict.lost + verdict.duplicated + verdict.outOfOrder + verdict.torn === 0;
}

/** One batch as it was read so far. */
interface SeenBatch {
  readonly count: number;
  /** Where index 0 lies according to the first record seen. */
  readonly start: number;
  next: number;
  /** Indexes passed over; they may still come. */
  missing: Set<number> | undefined;
  found: number;
  checksum: number;
  displaced: boolean;
  firstTimestamp: number;
  lastTimestamp: number;
  acknowledged: boolean;
}

export class StreamVerifier {
  readonly #batches = new Map<string, SeenBatch>();
  readonly #newestBatch = new Map<string, number>();
  #due: AckReport[] = [];
  #next: number | undefined;
  #lastTimestamp = 0;
  #lastId: SubmissionId | undefined;
  #lastSeen: SeenBatch | undefined;
  #records = 0;
  #lost = 0;
  #altered = 0;
  #duplicated = 0;
  #outOfOrder = 0;

  /** The sequence number to go on reading from; undefined before the first record. */
  get next(): number | undefined {
    return this.#next;
  }

  /** Whatever is read from now on must contain this batch once it is judged. */
  acknowledged(ack: AckReport): void {
    this.#due.push(ack);
  }

  read(record: ReadRecord): void {
    this.#position(record);
    if (record.command !== undefined) return;
    this.#records++;
    const id = submissionIdOf(record);
    if (id === undefined) return;
    const seen = this.#seenBatch(id, record.seqNum - id.index);
    if (!this.#firstTime(seen, id.index)) {
      this.#duplicated++;
      return;
    }
    if (record.seqNum - id.index !== seen.start) seen.displaced = true;
    seen.found++;
    seen.checksum = addChecksum(seen.checksum, crc32(record.body), id.index);
    if (id.index === 0) seen.firstTimestamp = record.timestamp;
    if (id.index === id.count - 1) seen.lastTimestamp = record.timestamp;
  }

  /** How many acknowledgements there are to judge: taken before reading, passed to `judge` after it. */
  get dueCount(): number {
    return this.#due.length;
  }

  /** Judges the oldest `count` acknowledgements; they must have been read by now. */
  judge(count = this.#due.length): void {
    for (const ack of this.#due.slice(0, count)) this.#judgeOne(ack);
    this.#due = this.#due.slice(count);
  }

  verdict(): Verdict {
    let torn = 0;
    let unacknowledged = 0;
    for (const seen of this.#batches.values()) {
      if (!seen.acknowledged) {
        unacknowledged += seen.found;
        torn += seen.count - seen.found;
      }
    }
    return {
      records: this.#records,
      unacknowledged,
      lost: this.#lost,
      altered: this.#altered,
      duplicated: this.#duplicated,
      outOfOrder: this.#outOfOrder,
      torn,
    };
  }

  #position({ seqNum, timestamp }: ReadRecord): void {
    if (this.#next !== undefined && seqNum !== this.#next) this.#outOfOrder++;
    if (timestamp < this.#lastTimestamp) this.#outOfOrder++;
    this.#next = seqNum + 1;
    this.#lastTimestamp = timestamp;
  }

  #seenBatch(id: SubmissionId, start: number): SeenBatch {
    const last = this.#lastId;
    // Records of a batch lie together: the table is asked once a batch.
    if (last?.batch === id.batch && last.producer === id.producer && last.run === id.run) {
      return this.#lastSeen!;
    }
    const key = batchKey(id);
    let seen = this.#batches.get(key);
    if (seen === undefined) {
      seen = newBatch(id.count, start);
      this.#batches.set(key, seen);
      this.#checkProducerOrder(id);
    }
    this.#lastId = id;
    this.#lastSeen = seen;
    return seen;
  }

  /** A producer submits one batch after the other to its stream, and they stay in that order. */
  #checkProducerOrder({ run, producer, batch }: SubmissionId): void {
    const key = `${run}.${producer}`;
    const newest = this.#newestBatch.get(key) ?? -1;
    if (batch < newest) this.#outOfOrder++;
    else this.#newestBatch.set(key, batch);
  }

  #firstTime(seen: SeenBatch, index: number): boolean {
    if (index === seen.next) {
      seen.next++;
      return true;
    }
    if (index < seen.next) {
      if (seen.missing?.delete(index) !== true) return false;
      this.#outOfOrder++;
      return true;
    }
    seen.missing ??= new Set();
    for (; seen.next < index; seen.next++) seen.missing.add(seen.next);
    seen.next++;
    return true;
  }

  #judgeOne(ack: AckReport): void {
    const count = ack.end - ack.start;
    const seen = this.#batches.get(batchKey(ack));
    if (seen === undefined) {
      this.#lost += count;
      return;
    }
    seen.acknowledged = true;
    if (seen.found < count) {
      this.#lost += count - seen.found;
    } else if (
      seen.checksum !== ack.checksum ||
      seen.firstTimestamp !== ack.startTimestamp ||
      seen.lastTimestamp !== ack.endTimestamp
    ) {
      // One of them changed; which one, the sum does not tell.
      this.#altered += count;
      this.#lost += count;
    }
    if (seen.displaced || seen.start !== ack.start) this.#outOfOrder += count;
  }
}

function batchKey({
  run,
  producer,
  batch,
}: Pick<SubmissionId, 'run' | 'producer' | 'batch'>): string {
  return `${run}.${producer}.${batch}`;
}

function newBatch(count: number, start: number): SeenBatch {
  return {
    count,
    start,
    next: 0,
    missing: undefined,
    found: 0,
    checksum: 0,
    displaced: false,
    firstTimestamp: -1,
    lastTimestamp: -1,
    acknowledged: false,
  };
}

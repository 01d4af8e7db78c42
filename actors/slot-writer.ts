/**
 * Writes of one fence wave: poison into single buckets, and repairs, which copy a verified flight
 * byte for byte into every bucket that lacks it. All outcomes are answers; nothing rejects.
 */
import { sleep } from '../src/lib/wait.ts';
import { parseFlight } from '../src/format/flight.ts';
import { encodePoison, type Fencer } from '../src/format/poison.ts';
import type { ExpectedSlot } from '../src/format/slot-object.ts';
import type { CreateOutcome } from '../src/ports/bucket-store.ts';
import type { FenceWave, PutAnswer, SlotRepair } from '../src/protocol/fence.ts';
import { slotKey } from '../src/protocol/keys.ts';
import { CORRUPT, UNKNOWN } from '../src/protocol/slot.ts';
import type { FencedEpoch } from './slot-observer.ts';
import { inspectCell } from './slot-inspection.ts';
import type { StarPorts } from './ports.ts';

export type WriterPorts = Pick<StarPorts, 'clock' | 'log' | 'metrics'>;

export interface WrittenWave {
  readonly puts: readonly PutAnswer[];
  readonly getCount: number;
  readonly putCount: number;
  /** Copies that were created. */
  readonly repairs: number;
}

/** Bodies of one repair wave that are in memory at once. */
const REPAIR_BYTES_MAX = 32 * 2 ** 20;

/** Writes what one wave asks for. A bucket that does not answer in time has failed. */
export class SlotWriter {
  readonly #ports: WriterPorts;
  readonly #epoch: FencedEpoch;
  readonly #by: Fencer;
  readonly #signal: AbortSignal;
  #getCount = 0;
  #putCount = 0;
  #repairs = 0;

  constructor(ports: WriterPorts, epoch: FencedEpoch, by: Fencer, signal: AbortSignal) {
    this.#ports = ports;
    this.#epoch = epoch;
    this.#by = by;
    this.#signal = signal;
  }

  async write(wave: FenceWave): Promise<WrittenWave> {
    const poisons = wave.poisons.map(({ slot, bucket }) => this.#poison(slot, bucket));
    const repaired = await this.#repairAll(wave.repairs);
    const puts = [...(await Promise.all(poisons)), ...repaired];
    const { metrics } = this.#ports;
    metrics.counter('fence.repairs').add(this.#repairs);
    metrics.counter('fence.poisons').add(wave.poisons.length);
    if (wave.kind === 'barrier') metrics.counter('fence.barriers').add();
    return {
      puts,
      getCount: this.#getCount,
      putCount: this.#putCount,
      repairs: this.#repairs,
    };
  }

  async #poison(slot: number, bucket: number): Promise<PutAnswer> {
    const bytes = encodePoison({
      ...this.#expected(slot),
      fencedBy: this.#by,
      atMillis: this.#ports.clock.now(),
    });
    return this.#create(slot, bucket, bytes);
  }

  /** As many at a time as fit into memory, at least one. */
  async #repairAll(repairs: readonly SlotRepair[]): Promise<PutAnswer[]> {
    const answers: PutAnswer[] = [];
    let batch: SlotRepair[] = [];
    let batchBytes = 0;
    const flush = async (): Promise<void> => {
      for (const puts of await Promise.all(batch.map((repair) => this.#repair(repair)))) {
        answers.push(...puts);
      }
      batch = [];
      batchBytes = 0;
    };
    for (const repair of repairs) {
      if (batch.length > 0 && batchBytes + repair.sizeBytes > REPAIR_BYTES_MAX) await flush();
      batch.push(repair);
      batchBytes += repair.sizeBytes;
    }
    await flush();
    return answers;
  }

  /** One source after the other until a body verifies; a body that does not is reported as corrupt. */
  async #repair({ slot, sources, targets, sizeBytes, print }: SlotRepair): Promise<PutAnswer[]> {
    const answers: PutAnswer[] = [];
    for (const source of sources) {
      const bytes = await this.#readWhole(slot, source, sizeBytes);
      if (bytes === undefined) continue;
      const found = inspectCell(bytes, bytes.length, this.#expected(slot));
      if (found.print !== print || !parseFlight(bytes).ok) {
        this.#reportDamage(slot, source);
        answers.push(damaged(slot, source, print));
        continue;
      }
      const puts = await Promise.all(targets.map((bucket) => this.#create(slot, bucket, bytes)));
      this.#repairs += puts.filter((put) => put.outcome === 'created').length;
      return [...answers, ...puts];
    }
    // Nothing verified came back: the targets failed as far as this wave goes.
    return [...answers, ...targets.map((bucket) => failed(slot, bucket))];
  }

  async #readWhole(
    slot: number,
    bucket: number,
    sizeBytes: number,
  ): Promise<Uint8Array | undefined> {
    const target = this.#epoch.set.buckets[bucket];
    if (target === undefined) return undefined;
    const { star, epoch } = this.#epoch.record;
    this.#getCount++;
    const reading = target.store.readRange(slotKey(star, epoch, slot), 0, sizeBytes, {
      signal: this.#signal,
    });
    const answer = await this.#within(bucket, sizeBytes, reading);
    if (answer?.kind !== 'found') return undefined;
    // A longer object than its head said is not the flight that was seen.
    return answer.sizeBytes === answer.bytes.length ? answer.bytes : undefined;
  }

  async #create(slot: number, bucket: number, bytes: Uint8Array): Promise<PutAnswer> {
    const target = this.#epoch.set.buckets[bucket];
    if (target === undefined) return failed(slot, bucket);
    const { star, epoch } = this.#epoch.record;
    this.#putCount++;
    const begunAt = this.#ports.clock.monotonic();
    const writing = target.store.createOnly(slotKey(star, epoch, slot), bytes, {
      signal: this.#signal,
    });
    // A write that is given up may still land; it is looked for, never assumed away.
    const outcome = await this.#within(bucket, bytes.length, writing);
    if (outcome === undefined) return failed(slot, bucket);
    if (outcome.kind === 'created' || outcome.kind === 'exists') {
      this.#epoch.patience[bucket]!.noteWrite(this.#ports.clock.monotonic() - begunAt);
    }
    return this.#answerOf(slot, bucket, outcome);
  }

  #answerOf(slot: number, bucket: number, outcome: CreateOutcome): PutAnswer {
    if (outcome.kind === 'created') {
      return { ...failed(slot, bucket), outcome: 'created' };
    }
    if (outcome.kind === 'exists') {
      const found = inspectCell(outcome.head, outcome.sizeBytes, this.#expected(slot));
      const { cell, print, released, sizeBytes } = found;
      return { slot, bucket, outcome: 'held', cell, print, released, sizeBytes };
    }
    this.#epoch.patience[bucket]!.noteFailedWrite(outcome.cause);
    if (outcome.kind === 'refused') {
      this.#ports.log.warn(
        { slot, bucket: this.#epoch.set.buckets[bucket]?.store.name, cause: outcome.cause.code },
        'a bucket refuses writes of a fence',
      );
    }
    return failed(slot, bucket);
  }

  /** Undefined when the bucket is silent for longer than its patience. */
  async #within<T>(bucket: number, sizeBytes: number, answer: Promise<T>): Promise<T | undefined> {
    const patience = this.#epoch.patience[bucket]!;
    const timer = new AbortController();
    const late = sleep(this.#ports.clock, patience.writeWaitMillis(sizeBytes), timer.signal).then(
      () => {
        patience.noteOverdue();
        return undefined;
      },
      () => undefined,
    );
    const first = await Promise.race([answer, late]);
    timer.abort();
    return first;
  }

  #reportDamage(slot: number, bucket: number): void {
    const { record, set } = this.#epoch;
    this.#ports.metrics.counter('fence.corruptObjects').add();
    this.#ports.log.error(
      { star: record.star, epoch: record.epoch, slot, bucket: set.buckets[bucket]?.store.name },
      'a flight to be copied does not verify',
    );
  }

  #expected(slot: number): ExpectedSlot {
    const { star, epoch, nonce } = this.#epoch.record;
    return { star, epoch, slot, nonce };
  }
}

function failed(slot: number, bucket: number): PutAnswer {
  return { slot, bucket, outcome: 'failed', cell: UNKNOWN, print: 0, released: -1, sizeBytes: 0 };
}

/** The print keeps the damaged copy from being taken for a sound one when only its head is read. */
function damaged(slot: number, bucket: number, print: number): PutAnswer {
  return { slot, bucket, outcome: 'held', cell: CORRUPT, print, released: -1, sizeBytes: 0 };
}

/**
 * Covers acknowledged entries by ref rows and advances the checkpoint of the epoch: the minimum over
 * streams of the first unabsorbed slot. Zero metastore operations per flight: rows are written per
 * stream and megabyte. Source: DESIGN "Absorb (B)".
 */
import { forManyListeners } from '../src/lib/many-listeners.ts';
import { assert } from '../src/lib/assert.ts';
import type { TimerHandle } from '../src/lib/clock.ts';
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import { sleep } from '../src/lib/wait.ts';
import { endOf } from '../src/protocol/coverage.ts';
import { epochKey } from '../src/protocol/keys.ts';
import {
  encodeRecordValue,
  epochRecord,
  parseRecordValue,
  type EpochRecord,
} from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import { isDue } from '../src/protocol/unabsorbed.ts';
import type { MetaVersion } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { Flight } from './flight.ts';
import type { StarPorts } from './ports.ts';
import { isDeleted } from './deleted-stream.ts';
import { extendRows, type SourceEntry, type StoredRow } from './ref-rows.ts';

const RETRY = { firstMillis: 20, maxMillis: 5_000 };
const PARALLEL_STREAMS = 8;
/** A row that does not parse needs an operator; it is looked at again this often. */
const FAILED_MILLIS = 5_000;

interface Unabsorbed {
  readonly entries: SourceEntry[];
  bytes: number;
  since: number;
  running: Promise<StoredRow | undefined> | undefined;
  /** After a failure that no retry mends, not before this moment again. */
  notBefore: number;
}

export interface AbsorberInput {
  readonly ports: StarPorts;
  readonly settings: ResolvedSettings;
  readonly record: EpochRecord;
  readonly version: MetaVersion;
  released(): number;
  /** Rows of the stream reach `end`. */
  onCovered(streamId: string, end: number): void;
  onCheckpoint(checkpoint: number): void;
  /** The epoch record is not open any more: somebody fenced the epoch. */
  onFenced(record: EpochRecord): void;
}

export class Absorber {
  readonly #input: AbsorberInput;
  readonly #streams = new Map<string, Unabsorbed>();
  readonly #controller = forManyListeners(new AbortController());
  #record: EpochRecord;
  #version: MetaVersion;
  #running = 0;
  #timer: TimerHandle | undefined;
  #advancing: Promise<void> | undefined;

  constructor(input: AbsorberInput) {
    this.#input = input;
    this.#record = input.record;
    this.#version = input.version;
  }

  get record(): EpochRecord {
    return this.#record;
  }

  get version(): MetaVersion {
    return this.#version;
  }

  /** Slots between the checkpoint and the first unacknowledged slot. */
  get lagSlots(): number {
    return this.#input.released() - this.#record.checkpoint;
  }

  /** Notes the entries of a flight that was just acknowledged. */
  add(flight: Flight): void {
    const now = this.#input.ports.clock.monotonic();
    for (const entry of flight.entries) {
      let stream = this.#streams.get(entry.streamId);
      if (stream === undefined) {
        stream = { entries: [], bytes: 0, since: now, running: undefined, notBefore: 0 };
        this.#streams.set(entry.streamId, stream);
      }
      if (stream.entries.length === 0) stream.since = now;
      stream.bytes += entry.length;
      stream.entries.push({
        span: {
          seq: entry.firstSeqNum,
          count: entry.count,
          slot: flight.slot,
          offset: flight.bodyStart + entry.offset,
          length: entry.length,
          checksum: entry.checksum,
          first: entry.firstTimestamp,
          last: entry.lastTimestamp,
        },
        ...(entry.delta === undefined ? {} : { delta: entry.delta }),
      });
      if (stream.bytes >= this.#input.settings.absorbBytes) this.#startDue();
    }
    if (this.lagSlots >= this.#input.settings.checkpointLagSlots / 2) this.#startDue();
    this.#arm();
  }

  /**
   * Covers everything of the stream that was acknowledged before the call.
   *
   * @throws EngineError ABORTED, METASTORE_CORRUPT, INVARIANT
   */
  async flush(streamId: string, signal: AbortSignal): Promise<StoredRow | undefined> {
    let last: StoredRow | undefined;
    for (;;) {
      const stream = this.#streams.get(streamId);
      if (stream === undefined || (stream.entries.length === 0 && stream.running === undefined)) {
        return last;
      }
      if (signal.aborted) throw new EngineError('ABORTED', 'covering a stream was given up');
      last = await (stream.running ?? this.#cover(streamId, stream));
    }
  }

  /** Advances the checkpoint as far as rows allow, durably. */
  async checkpoint(): Promise<void> {
    await this.#advance(1);
  }

  /** Appending waits for the checkpoint: everything that holds it back is due. */
  hurry(): void {
    this.#startDue();
    void this.#advance(1);
  }

  stop(): void {
    this.#controller.abort();
    if (this.#timer !== undefined) this.#input.ports.clock.clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** One timer for the oldest stream; none while everything is covered. */
  #arm(): void {
    if (this.#timer !== undefined || this.#controller.signal.aborted) return;
    this.#timer = this.#input.ports.clock.setTimeout(() => {
      this.#timer = undefined;
      this.#startDue();
      if (this.#streams.size > 0) this.#arm();
      else void this.#advance(1);
    }, this.#input.settings.absorbMillis);
  }

  #startDue(): void {
    if (this.#controller.signal.aborted || this.#running >= PARALLEL_STREAMS) return;
    const { settings, ports } = this.#input;
    const now = ports.clock.monotonic();
    const due = [...this.#streams].filter(
      ([, stream]) =>
        stream.running === undefined &&
        now >= stream.notBefore &&
        stream.entries.length > 0 &&
        isDue(
          {
            bytes: stream.bytes,
            ageMillis: now - stream.since,
            lagSlots: this.#input.released() - stream.entries[0]!.span.slot,
          },
          settings,
        ),
    );
    due.sort(([, a], [, b]) => b.bytes - a.bytes);
    for (const [streamId, stream] of due.slice(0, PARALLEL_STREAMS - this.#running)) {
      this.#cover(streamId, stream).catch(() => undefined);
    }
  }

  #cover(streamId: string, stream: Unabsorbed): Promise<StoredRow | undefined> {
    this.#running++;
    const covered = this.#coverOnce(streamId, stream).catch((cause: unknown) => {
      const { code, message } = toEngineError(cause);
      const { clock, log, metrics } = this.#input.ports;
      stream.notBefore = clock.monotonic() + FAILED_MILLIS;
      metrics.counter('absorb.failures').add();
      if (!this.#controller.signal.aborted) {
        log.error({ stream: streamId, code, message }, 'a stream is not covered by rows');
      }
      throw cause;
    });
    stream.running = covered.finally(() => {
      this.#running--;
      stream.running = undefined;
      if (stream.entries.length === 0) this.#streams.delete(streamId);
      this.#startDue();
      void this.#advance(Math.max(1, this.#input.settings.checkpointLagSlots / 16));
    });
    return stream.running;
  }

  async #coverOnce(streamId: string, stream: Unabsorbed): Promise<StoredRow | undefined> {
    const { ports, record } = this.#input;
    const entries = stream.entries.slice();
    const builder = { star: record.star, incarnation: record.incarnation };
    const source = { star: record.star, epoch: record.epoch, set: record.set, builder };
    const result = await this.#retry('rows', () =>
      extendRows(ports, { streamId, entries, ...source }, { signal: this.#controller.signal }),
    );
    const end = result.kind === 'covered' ? result.end : endOf(entries.at(-1)!);
    if (result.kind === 'gap') {
      // T1: the stream entered this epoch only with everything below covered. Its rows went away with
      // it when a successor deleted it (T5): then nobody needs more of them.
      const isGone = await this.#retry('rows', () =>
        isDeleted(ports, streamId, this.#controller.signal),
      );
      assert(isGone, 'T1 the own entries of a led stream have no gap below them');
    }
    stream.entries.splice(0, entries.length);
    for (const entry of entries) stream.bytes -= entry.span.length;
    stream.since = ports.clock.monotonic();
    this.#input.onCovered(streamId, end);
    return result.kind === 'covered' ? result.last : undefined;
  }

  /** Storage of rows may be away for long: appending waits at the lag bound, it does not fail. */
  async #retry<T>(what: string, run: () => Promise<T>): Promise<T> {
    const { ports } = this.#input;
    for (let attempt = 0; ; attempt++) {
      try {
        return await run();
      } catch (cause) {
        const error = toEngineError(cause);
        if (this.#controller.signal.aborted || !error.retryable) throw error;
        ports.metrics.counter('absorb.retries').add();
        ports.log.warn({ what, code: error.code, attempt }, 'absorb is retried');
        await sleep(
          ports.clock,
          backoffMillis(ports.random, attempt, RETRY),
          this.#controller.signal,
        );
      }
    }
  }

  async #advance(minSlots: number): Promise<void> {
    while (this.#advancing !== undefined) await this.#advancing;
    const target = this.#coveredSlots();
    if (target - this.#record.checkpoint < minSlots || this.#controller.signal.aborted) return;
    this.#advancing = this.#writeCheckpoint(target)
      .catch((error: unknown) => {
        this.#input.ports.log.warn(
          { code: toEngineError(error).code },
          'a checkpoint was not written',
        );
      })
      .finally(() => {
        this.#advancing = undefined;
      });
    await this.#advancing;
  }

  /** Every entry below this slot is covered. */
  #coveredSlots(): number {
    let slots = this.#input.released();
    for (const { entries } of this.#streams.values()) {
      if (entries.length > 0) slots = Math.min(slots, entries[0]!.span.slot);
    }
    return slots;
  }

  async #writeCheckpoint(checkpoint: number): Promise<void> {
    const { ports } = this.#input;
    const key = epochKey(this.#record.star, this.#record.epoch);
    for (;;) {
      const next = { ...this.#record, checkpoint };
      const put = await this.#retry('checkpoint', () =>
        conditionalPut(
          ports.metastore,
          {
            key,
            expected: this.#version,
            encode: (attempt: string) => encodeRecordValue({ ...next, attempt }),
          },
          { clock: ports.clock, random: ports.random, signal: this.#controller.signal },
        ),
      );
      if (put.kind === 'applied') {
        this.#record = next;
        this.#version = put.version;
        ports.metrics.counter('checkpoint.written').add();
        this.#input.onCheckpoint(checkpoint);
        return;
      }
      assert(put.current !== undefined, 'an epoch record is never deleted');
      const current = parseRecordValue(epochRecord, key, put.current.value);
      if (current.state !== 'open') {
        this.#input.onFenced(current);
        return;
      }
      this.#record = current;
      this.#version = put.current.version;
      if (current.checkpoint >= checkpoint) return;
    }
  }
}

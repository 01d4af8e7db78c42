/** Looks at streams and chains without leading anything: no lease, no mint, no write. */
import { EngineError } from '../lib/errors.ts';
import { checkWaitOptions, waitFor, type WaitOptions } from '../lib/wait.ts';
import { epochKey, writerKey } from '../protocol/keys.ts';
import {
  epochRecord,
  parseRecordValue,
  writerRecord,
  type EpochRecord,
  type LimboRecord,
} from '../protocol/records.ts';
import type { ResolvedSettings } from '../protocol/settings.ts';
import type { Span } from '../protocol/spans.ts';
import { BucketSets } from '../../actors/bucket-set.ts';
import { readLimbo } from '../../actors/limbo-register.ts';
import { committedRun } from '../../actors/committed-run.ts';
import { listStreamRecords, lookUpStream } from '../../actors/names.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { readLastRow } from '../../actors/ref-rows.ts';
import { notFoundError } from '../../actors/stream-errors.ts';
import {
  checkReadRequest,
  READ_OPTION_NAMES,
  readBatches,
  type ReadView,
  type RecentEntry,
} from '../../actors/stream-reader.ts';
import type {
  ChainStatus,
  ListStreamsOptions,
  ReadOnlyEngine,
  ReadOptions,
  RecordReader,
  LimboStatus,
  SlotOptions,
  SlotView,
  StreamPage,
} from './api.ts';
import { checkListOptions } from './checks.ts';
import { infoOf, readEpochs } from './host.ts';
import { checkStreamName } from './names.ts';
import { checkSlotRequest, slotViews } from './slot-views.ts';
import { recordReader, typedBatches, withDefaultTimeout } from './stream-handle.ts';

export function openReadOnly(
  ports: StarPorts,
  settings: ResolvedSettings,
  release: () => Promise<void>,
): ReadOnlyEngine {
  return new Reader(ports, settings, release);
}

function limboStatusOf(note: LimboRecord): LimboStatus {
  const { name, stream, epoch, sinceMillis, code, message } = note;
  return { name, id: stream, epoch, sinceMillis, code, message };
}

class Reader implements ReadOnlyEngine {
  readonly star: string;
  readonly #ports: StarPorts;
  readonly #settings: ResolvedSettings;
  readonly #sets: BucketSets;
  readonly #release: () => Promise<void>;
  #closing: Promise<void> | undefined;

  constructor(ports: StarPorts, settings: ResolvedSettings, release: () => Promise<void>) {
    this.star = settings.star;
    this.#ports = ports;
    this.#settings = settings;
    // It resolves sets that are registered and creates none, so it needs no metastore id.
    this.#sets = new BucketSets(ports, '');
    this.#release = release;
  }

  async listStreams(options: ListStreamsOptions = {}): Promise<StreamPage> {
    const request = { basin: this.#settings.basin, ...checkListOptions(options) };
    const { records, more } = await this.#within('listStreams', options, (signal) =>
      listStreamRecords(this.#ports, request, { signal }),
    );
    return { streams: records.map(infoOf), more };
  }

  async status(options: WaitOptions = {}): Promise<ChainStatus> {
    const [epochs, limbo] = await this.#within('status', options, (signal) =>
      Promise.all([
        readEpochs(this.#ports.metastore, this.star, signal),
        readLimbo(this.#ports, this.star, signal),
      ]),
    );
    return { star: this.star, epochs, limbo: limbo.map(limboStatusOf) };
  }

  async slots(epoch: number, options: SlotOptions = {}): Promise<readonly SlotView[]> {
    const request = checkSlotRequest(epoch, options);
    return this.#within('slots', options, async (signal) => {
      const key = epochKey(this.star, epoch);
      const entry = await this.#ports.metastore.get(key, { signal });
      if (entry === undefined) {
        throw new EngineError('EPOCH_UNKNOWN', 'the chain has no such epoch', {
          details: { star: this.star, epoch },
        });
      }
      const record = parseRecordValue(epochRecord, key, entry.value);
      const set = await this.#sets.resolve(record.set, signal);
      return slotViews(set, record, request, signal);
    });
  }

  read(name: string, options: ReadOptions = {}): RecordReader {
    checkStreamName(name);
    checkWaitOptions(options, READ_OPTION_NAMES);
    checkReadRequest(options);
    if (options.live === true) {
      throw new EngineError('INVALID_OPTION', 'a reader without a lease does not follow the tail', {
        details: { option: 'live', value: true },
      });
    }
    this.#throwIfClosed();
    return recordReader(() => this.#batches(name, options));
  }

  async *#batches(name: string, options: ReadOptions) {
    const view = await this.#within('read', options, (signal) => this.#look(name, signal));
    yield* typedBatches(
      readBatches({ ports: this.#ports, sets: this.#sets }, view, options),
      options,
    );
  }

  /** The tail first, then the rows: what rows cover by then is skipped in the slots. */
  async #look(name: string, signal: AbortSignal | undefined): Promise<ReadView> {
    const { metastore } = this.#ports;
    const stream = await lookUpStream(this.#ports, this.#settings.basin, name, { signal });
    if (stream === undefined) {
      throw notFoundError(name);
    }
    const key = writerKey(stream.stream);
    const writer = await metastore.get(key, { signal });
    const record =
      writer === undefined ? undefined : parseRecordValue(writerRecord, key, writer.value);
    let epoch: EpochRecord | undefined;
    if (record?.kind === 'tenure') {
      const epochAt = epochKey(record.tenure.star, record.tenure.epoch);
      const entry = await metastore.get(epochAt, { signal });
      if (entry !== undefined) epoch = parseRecordValue(epochRecord, epochAt, entry.value);
    }
    const last = await readLastRow(this.#ports, stream.stream, { signal });
    const view = new SnapshotView(
      name,
      stream.stream,
      last?.row.end ?? 0,
      last?.row.state.trimPoint ?? 0,
    );
    if (epoch === undefined || epoch.state === 'settled' || epoch.state === 'retired') return view;
    const set = await this.#sets.resolve(epoch.set, signal);
    for await (const head of committedRun(this.#ports, set, epoch, signal)) {
      for (const entry of head.entries) {
        if (entry.streamId !== stream.stream) continue;
        const { firstSeqNum: seq, count, length, checksum } = entry;
        const offset = head.bodyStart + entry.offset;
        const [first, until] = [entry.firstTimestamp, entry.lastTimestamp];
        view.add(epoch, {
          seq,
          count,
          slot: head.slot,
          offset,
          length,
          checksum,
          first,
          last: until,
        });
        view.firstSeqNum = Math.max(view.firstSeqNum, entry.delta?.trimPoint ?? 0);
      }
    }
    return view;
  }

  async close(): Promise<void> {
    this.#closing ??= this.#release();
    await this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #within<T>(
    what: string,
    options: WaitOptions,
    run: (signal: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    this.#throwIfClosed();
    const wait = withDefaultTimeout(options, this.#settings.defaultTimeoutMillis);
    return waitFor(this.#ports.clock, run(options.signal), wait, what);
  }

  #throwIfClosed(): void {
    if (this.#closing === undefined) return;
    throw new EngineError('CLOSED', 'the reader was closed', { details: { star: this.star } });
  }
}

/** A stream as it stood when a read began. */
class SnapshotView implements ReadView {
  readonly name: string;
  readonly streamId: string;
  readonly recentStart: number;
  firstSeqNum: number;
  tailSeqNum: number;
  readonly #entries: RecentEntry[] = [];

  constructor(name: string, streamId: string, rowsEnd: number, trimPoint: number) {
    this.name = name;
    this.streamId = streamId;
    this.recentStart = rowsEnd;
    this.tailSeqNum = rowsEnd;
    this.firstSeqNum = trimPoint;
  }

  add(epoch: EpochRecord, span: Span): void {
    if (span.seq < this.tailSeqNum) return;
    if (span.seq > this.tailSeqNum) {
      throw new EngineError(
        'STREAM_UNSETTLED',
        'an earlier epoch of this stream is not settled yet',
        {
          details: { stream: this.name, rowsEnd: this.tailSeqNum, next: span.seq },
        },
      );
    }
    const source = { star: epoch.star, epoch: epoch.epoch, set: epoch.set };
    this.#entries.push({ span, source, copy: () => undefined });
    this.tailSeqNum = span.seq + span.count;
  }

  recent(seqNum: number): RecentEntry | undefined {
    return this.#entries.find(({ span }) => span.seq <= seqNum && seqNum < span.seq + span.count);
  }

  recentByTimestamp(timestamp: number): RecentEntry | undefined {
    return this.#entries.find(({ span }) => span.last >= timestamp);
  }

  async confirm(): Promise<void> {
    // What it saw is what any fence keeps; it does not claim to have seen the newest.
  }

  async tailBeyond(): Promise<void> {
    // Never waited for: a reader without a lease does not follow.
  }
}

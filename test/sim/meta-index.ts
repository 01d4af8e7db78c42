/** Epochs, writer records and rows as the metastore holds them, with who wrote what and when. */
import {
  epochRecord,
  parseRecordValue,
  refRow,
  writerRecord,
  type EpochRecord,
  type RefRow,
  type Tenure,
  type WriterRecord,
} from '../../src/protocol/records.ts';
import { parseLease } from '../../src/protocol/lease.ts';
import { refsPrefix, starKey, unpad } from '../../src/protocol/keys.ts';
import type { MetaChange, MetaJournal } from '../../src/testing/meta-journal.ts';
import type { WorldObserver } from '../../src/testing/world.ts';
import { epochName } from './slot-index.ts';

export interface EpochHistory {
  readonly star: string;
  readonly epoch: number;
  /** The process that created the record: the only one that may write slots (M1). */
  readonly minter: string;
  record: EpochRecord;
}

export interface WriterChange {
  readonly process: string;
  readonly at: number;
  readonly record: WriterRecord;
  readonly before: WriterRecord | undefined;
}

export interface EpochChange {
  readonly process: string;
  readonly epoch: EpochHistory;
  readonly record: EpochRecord;
  /** Undefined for a mint. */
  readonly before: EpochRecord | undefined;
}

export interface MetaListener {
  epochChanged?(change: EpochChange): void;
  writerChanged?(streamId: string, change: WriterChange): void;
  rowChanged?(streamId: string, row: RefRow, process: string): void;
}

export class MetaIndex implements WorldObserver {
  readonly listeners: MetaListener[] = [];
  readonly #journal: MetaJournal;
  readonly #epochs = new Map<string, EpochHistory>();
  readonly #writers = new Map<string, WriterChange[]>();

  constructor(journal: MetaJournal) {
    this.#journal = journal;
  }

  epoch(star: string, epoch: number): EpochHistory | undefined {
    return this.#epochs.get(epochName({ star, epoch }));
  }

  get epochs(): Iterable<EpochHistory> {
    return this.#epochs.values();
  }

  /** Every value that the writer record ever had, oldest first. */
  writersOf(streamId: string): readonly WriterChange[] {
    return this.#writers.get(streamId) ?? [];
  }

  wasNamed(streamId: string, star: string, epoch: number): boolean {
    return this.writersOf(streamId).some(
      ({ record }) =>
        record.kind === 'tenure' && record.tenure.star === star && record.tenure.epoch === epoch,
    );
  }

  /** Whether the star's lease record is there now, of this incarnation. */
  isRegistered({ star, incarnation }: Pick<Tenure, 'star' | 'incarnation'>): boolean {
    const entry = this.#journal.get(starKey(star));
    return entry !== undefined && parseLease(entry.key, entry.value).incarnation === incarnation;
  }

  lastRow(streamId: string): RefRow | undefined {
    const entry = this.#journal.children(refsPrefix(streamId)).at(-1);
    return entry === undefined ? undefined : parseRecordValue(refRow, entry.key, entry.value);
  }

  rows(streamId: string): readonly RefRow[] {
    return this.#journal
      .children(refsPrefix(streamId))
      .map((entry) => parseRecordValue(refRow, entry.key, entry.value));
  }

  metaChanged(change: MetaChange): void {
    const { key, entry, process } = change;
    if (entry === undefined) return;
    const parts = key.split('/');
    if (parts[0] === 'chains' && parts.length === 3) {
      this.#epochChanged(parts[1]!, unpad(parts[2]!)!, change);
    } else if (parts[0] === 'streams' && parts[2] === 'writer') {
      this.#writerChanged(parts[1]!, change);
    } else if (parts[0] === 'streams' && parts[2] === 'refs') {
      const row = parseRecordValue(refRow, key, entry.value);
      for (const listener of this.listeners) listener.rowChanged?.(parts[1]!, row, process);
    }
  }

  #epochChanged(star: string, epoch: number, change: MetaChange): void {
    const record = parseRecordValue(epochRecord, change.key, change.entry!.value);
    const known = this.epoch(star, epoch);
    const before = known?.record;
    const history = known ?? { star, epoch, minter: change.process, record };
    history.record = record;
    this.#epochs.set(epochName({ star, epoch }), history);
    for (const listener of this.listeners) {
      listener.epochChanged?.({ process: change.process, epoch: history, record, before });
    }
  }

  #writerChanged(streamId: string, { key, entry, process, at }: MetaChange): void {
    const record = parseRecordValue(writerRecord, key, entry!.value);
    const changes = this.#writers.get(streamId) ?? [];
    const change: WriterChange = { process, at, record, before: changes.at(-1)?.record };
    this.#writers.set(streamId, [...changes, change]);
    for (const listener of this.listeners) listener.writerChanged?.(streamId, change);
  }
}

export function tenureOf(record: WriterRecord | undefined): Tenure | undefined {
  return record === undefined || record.kind === 'deleted' ? undefined : record.tenure;
}

/** Leadership: S3 opened and R3 rolled into only when covered, T6 left only by its holder or after the cut (T3 whatever the registry says), N release covered. */
import type { RefRow, Tenure } from '../../../src/protocol/records.ts';
import { sameTenure } from '../../../src/protocol/gate.ts';
import { tenureOf, type EpochChange, type WriterChange } from '../meta-index.ts';
import { epochName } from '../slot-index.ts';
import { DurablePrefixes, type CheckContext, type Checker } from './context.ts';

export class TenureChecker implements Checker {
  readonly #context: CheckContext;

  constructor(context: CheckContext) {
    this.#context = context;
  }

  writerChanged(streamId: string, change: WriterChange): void {
    const { record, before, process } = change;
    const old = tenureOf(before);
    const now = tenureOf(record);
    if (before?.kind === 'deleted') {
      this.#context.fail('T5', `${process} takes ${streamId} out of its deletion`);
    }
    if (record.kind === 'released') this.#released(streamId, process, record);
    const isSame = old !== undefined && now !== undefined && sameTenure(old, now);
    if (old !== undefined && before?.kind === 'tenure' && !isSame) {
      this.#left(streamId, process, old);
    }
    if (record.kind === 'tenure' && !isSame) this.#opened(streamId, process, old);
  }

  /** T6; T3 when nothing but the registry spoke for it. */
  #left(streamId: string, process: string, old: Tenure): void {
    const epoch = this.#context.meta.epoch(old.star, old.epoch);
    if (epoch?.minter === process || epoch?.record.cut !== undefined) return;
    const name = epochName(old);
    const text = `${process} takes ${streamId} from ${name}, which is not cut`;
    if (!this.#context.meta.isRegistered(old)) {
      this.#context.fail('T3', `${text}: its holder is not registered`);
    }
    this.#context.fail('T6', text);
  }

  /** S3; R3 when a star takes its own stream into its next epoch. */
  #opened(
    streamId: string,
    process: string,
    old: { star: string; epoch: number } | undefined,
  ): void {
    const { meta, slots, acks } = this.#context;
    const isRoll = old !== undefined && meta.epoch(old.star, old.epoch)?.minter === process;
    const rule = isRoll ? 'R3' : 'S3';
    const last = meta.lastRow(streamId);
    const rowsEnd = last?.end ?? 0;
    // T4: the rows of an earlier epoch say nothing of the one that the writer record names.
    const isLagging = old !== undefined && last !== undefined && epochName(last) !== epochName(old);
    const fail = (name: string, text: string): void => {
      this.#context.fail(name, text);
      if (isLagging) this.#context.fail('T4', text);
    };
    const acked = acks.ackedEnd(streamId);
    if (rowsEnd < acked) {
      fail(rule, `${process} opens ${streamId} covered to ${rowsEnd}, acknowledged to ${acked}`);
    }
    if (old === undefined) return;
    const cut = meta.epoch(old.star, old.epoch)?.record.cut;
    for (const { at, entry } of slots.allPlacesOf(streamId)) {
      if (at.star !== old.star || at.epoch !== old.epoch) continue;
      if (cut !== undefined && at.slot >= cut) continue;
      const end = entry.firstSeqNum + entry.count;
      if (end <= rowsEnd) continue;
      const where = `${epochName(at)}/${at.slot}`;
      fail(rule, `${process} opens ${streamId} covered to ${rowsEnd}, but ${where} ends at ${end}`);
    }
  }

  /** N */
  #released(
    streamId: string,
    process: string,
    { tenure, tail }: { readonly tenure: Tenure; readonly tail: number },
  ): void {
    const { meta, acks, fail } = this.#context;
    const last = meta.lastRow(streamId);
    const rowsEnd = last?.end ?? 0;
    const { mark } = last ?? {};
    if (tail > 0 && (mark?.tail !== tail || !sameTenure(mark.tenure, tenure))) {
      fail('N', `${process} releases ${streamId} at ${tail} without a mark that says so`);
    }
    if (rowsEnd !== tail || tail < acks.ackedEnd(streamId)) {
      const acked = acks.ackedEnd(streamId);
      const text = `${process} releases ${streamId} at ${tail}: rows ${rowsEnd}, acknowledged ${acked}`;
      fail('N', text);
    }
  }
}

/**
 * Rows form one chain over committed slots (B, S4), which nobody who builds it once more changes or
 * doubles (S2), and the checkpoint never runs ahead of them.
 */
export class CoverageChecker implements Checker {
  readonly #context: CheckContext;
  readonly #prefixes: DurablePrefixes;
  readonly #ends = new Map<string, number>();
  readonly #rows = new Map<string, RefRow>();
  readonly #highest = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.#prefixes = new DurablePrefixes(context);
  }

  rowChanged(streamId: string, row: RefRow, process: string): void {
    const { fail } = this.#context;
    // T5: a row of a deleted stream is garbage whenever found.
    if (this.#isDeleted(streamId)) return;
    const id = `${streamId} ${row.start}`;
    const known = this.#rows.get(id);
    if (known !== undefined && JSON.stringify(known.spans) !== JSON.stringify(row.spans)) {
      fail('S2', `${process} changes the row of ${streamId} at ${row.start}`);
    }
    this.#rows.set(id, row);
    if (known !== undefined) return;
    const end = this.#ends.get(streamId) ?? 0;
    if (row.start !== end) {
      fail(
        row.start < end ? 'S2' : 'S4',
        `${process} writes a row of ${streamId} at ${row.start}, the chain ends at ${end}`,
      );
    }
    this.#ends.set(streamId, row.end);
    for (const span of row.spans) this.#checkSpan(streamId, row, span, process);
  }

  #checkSpan(streamId: string, row: RefRow, span: RefRow['spans'][number], process: string): void {
    const { slots, meta, fail } = this.#context;
    const { star, epoch } = row;
    const { slot, seq, count } = span;
    const where = `${epochName(row)}/${slot}`;
    const matching = slots
      .placesOf(streamId, seq, seq + count)
      .some(
        ({ at, entry }) =>
          at.star === star &&
          at.epoch === epoch &&
          at.slot === slot &&
          entry.firstSeqNum === seq &&
          entry.count === count &&
          entry.checksum === span.checksum,
      );
    if (!matching)
      fail('S4', `${process} maps ${streamId} ${seq} to ${where}, which has no such entry`);
    if (this.#prefixes.of(star, epoch) <= slot) {
      fail('S4', `${process} maps ${streamId} ${seq} to ${where}, which is not committed`);
    }
    const cut = meta.epoch(star, epoch)?.record.cut;
    if (cut !== undefined && slot >= cut) {
      fail('F2', `${process} maps ${streamId} ${seq} to ${where}, at or above the cut`);
    }
    const name = epochName(row);
    this.#highest.set(name, Math.max(this.#highest.get(name) ?? -1, slot));
  }

  epochChanged({ process, epoch, record, before }: EpochChange): void {
    const { fail, slots } = this.#context;
    const name = epochName(epoch);
    const highest = this.#highest.get(name) ?? -1;
    if (record.cut !== undefined && highest >= record.cut) {
      fail('F1', `${process} cuts ${name} at ${record.cut}, below the covered slot ${highest}`);
    }
    for (let slot = before?.checkpoint ?? 0; slot < record.checkpoint; slot++) {
      const state = slots.find({ star: epoch.star, epoch: epoch.epoch, slot });
      for (const { streamId, firstSeqNum, count } of state?.contents[0]?.entries ?? []) {
        if ((this.#ends.get(streamId) ?? 0) >= firstSeqNum + count) continue;
        if (this.#isDeleted(streamId)) continue;
        fail(
          'B',
          `${process} passes ${name}/${slot} by the checkpoint before ${streamId} is covered`,
        );
      }
    }
  }

  #isDeleted(streamId: string): boolean {
    return this.#context.meta.writersOf(streamId).at(-1)?.record.kind === 'deleted';
  }
}

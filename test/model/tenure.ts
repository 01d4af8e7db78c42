/**
 * Leadership of one stream by two stars: mint, open gate, append, roll, Finish, crash, fence and
 * settlement in every order. A PUT is apart from its acknowledgement, because settlement reads
 * headers and cannot know what was acknowledged. What is decided is decided by the product's own
 * functions: gate, publication, rows, settlement.
 */
import { judgeGate, judgePredecessor, isCleanRelease } from '../../src/protocol/gate.ts';
import { decidePublication } from '../../src/protocol/publication.ts';
import type { EpochRecord, RefRow, Tenure, WriterRecord } from '../../src/protocol/records.ts';
import { nextRow } from '../../src/protocol/ref-rows.ts';
import { settledRecord, settlementStep } from '../../src/protocol/settlement.ts';
import { META_VALUE_BYTES_MAX } from '../../src/ports/metastore.ts';
import { ATTEMPT, entryOf, SET_ID, sourceFor } from '../support/row-samples.ts';
import { BrokenRule, type Space } from './states.ts';

export interface TenureBounds {
  /** Epochs that each star mints at most, and records of the stream. */
  readonly epochs: number;
  readonly records: number;
  /** `put`: `writer` names the epoch before a flight carries a record; `ack`: before it counts; `never`. */
  readonly names?: 'put' | 'ack' | 'never';
  /** `all`: Finish waits for every batch; `drop`: a PUT that failed counts as resolved. */
  readonly resolves?: 'all' | 'drop';
  /** Whether a released CAS may land late, its answer lost; and how its holder goes on then. */
  readonly late?: 'cas' | 'read';
  /** Whether a stream enters a new epoch only when its rows reach the old cut (R3). */
  readonly rollCovers?: boolean;
  /** What a settler does above a gap (S4). */
  readonly gap?: 'refuse' | 'skip' | 'fill';
  /** `blind`: writes of the writer record ask for no version (R4). */
  readonly cas?: 'blind';
  /** True: an open after a clean release leaves the released record where it is. */
  readonly keepsMark?: boolean;
  /** True: the gate trusts that an epoch that was superseded needs no fence. */
  readonly skipsFence?: boolean;
}

interface Epoch {
  readonly star: number;
  readonly cut: number;
  /** Sequence number of the stream's record in each slot. */
  readonly ent: readonly number[];
  readonly acked: number;
  /** Rows of the stream reach the cut. */
  readonly covered: boolean;
}

interface Writer {
  readonly kind: 'none' | 'tenure' | 'released';
  readonly epoch: number;
  readonly tail: number;
}

type Phase = 'off' | 'gate' | 'open' | 'unnamed' | 'limbo';

interface Star {
  readonly phase: Phase;
  readonly head: number;
  /** The next record, and the tail that this leader knows to be acknowledged. */
  readonly tail: number;
  readonly done: number;
  /** Left over by a cut: goes on in the new epoch. */
  readonly pool: readonly number[];
  readonly read: Writer;
  readonly at: number;
}

interface State {
  readonly writer: Writer;
  readonly version: number;
  /** A released CAS on its way. */
  readonly pending: { readonly tail: number; readonly epoch: number; readonly at: number } | null;
  /** The mark: rows ended there when it was set, by the leader in that epoch. */
  readonly mark: { readonly end: number; readonly epoch: number } | null;
  /** Where rows say that each record lies: `epoch * SLOTS + slot`. */
  readonly rows: readonly number[];
  readonly acks: readonly number[];
  readonly epochs: readonly Epoch[];
  readonly stars: readonly [Star, Star];
}

const SLOTS = 16;
const NONE: Writer = { kind: 'none', epoch: 0, tail: 0 };
const OFF: Star = {
  phase: 'off',
  head: -1,
  tail: 0,
  done: 0,
  pool: [],
  read: NONE,
  at: 0,
};
const PHASES: readonly Phase[] = ['off', 'gate', 'open', 'unnamed', 'limbo'];

export class TenureSpace implements Space<State> {
  readonly #bounds: Required<Omit<TenureBounds, 'late' | 'cas'>> &
    Pick<TenureBounds, 'late' | 'cas'>;
  readonly #covers = new Map<string, Covered>();

  constructor(bounds: TenureBounds) {
    this.#bounds = {
      names: 'put',
      resolves: 'all',
      rollCovers: true,
      gap: 'refuse',
      keepsMark: false,
      skipsFence: false,
      ...bounds,
    };
  }

  initial(): State {
    return {
      writer: NONE,
      version: 0,
      pending: null,
      mark: null,
      rows: [],
      acks: new Array<number>(this.#bounds.records).fill(-1),
      epochs: [],
      stars: [OFF, OFF],
    };
  }

  /**
   * States whose difference nobody can see any more are one: versions are equal to the current one or
   * not, what was read under the current version is the record, an epoch without a leader is what its
   * settlement will find, and a record that was acknowledged from where rows say it lies is safe.
   */
  key({ writer, version, pending, mark, rows, acks, epochs, stars }: State): string {
    let key = codeOf(writer);
    if (pending !== null) key += `-${pending.tail}${pending.epoch}${at(pending, version)}`;
    if (mark?.end === rows.length) key += `m${mark.epoch}`;
    for (let seq = 0; seq < acks.length; seq++) {
      const [row, ack] = [rows[seq] ?? -9, acks[seq]!];
      key += row === ack ? 's' : `,${row}.${ack}`;
    }
    for (let epoch = 0; epoch < epochs.length; epoch++) {
      const { star, cut, ent, acked, covered } = epochs[epoch]!;
      const isLed = stars[0].head === epoch || stars[1].head === epoch;
      key += `|${star}`;
      if (isLed) key += `${cut},${acked}${covered ? 'c' : ''}${ent.join('')}`;
      else if (covered) key += 'c';
      else if (cut < 0) key += `o${acked}${ent.join('')}`;
      else key += `f${ent.slice(0, cut).join('')}`;
    }
    for (const each of stars) {
      const { phase, head, tail, done, pool } = each;
      key += `/${PHASES.indexOf(phase)}`;
      if (phase === 'off') continue;
      key += at(each, version);
      if (this.#bounds.cas === 'blind') key += codeOf(each.read);
      if (phase !== 'gate') key += `${head},${tail}${done}p${pool.join('')}`;
    }
    return key;
  }

  /** T2: nothing acknowledged is lost, and no number is given twice. */
  check({ acks, rows }: State): void {
    for (let seq = 0; seq < acks.length; seq++) {
      const [ack, row] = [acks[seq]!, rows[seq]];
      if (ack < 0 || row === undefined || ack === row) continue;
      throw new BrokenRule(`T2 X${seq} acknowledged from ${ack}, rows cover it from ${row}`);
    }
  }

  successors(state: State, emit: (label: string, next: State) => void): void {
    const { pending, epochs } = state;
    if (pending !== null) emit(`lands released(${pending.tail})`, landed(state, pending));
    for (let epoch = 0; epoch < epochs.length; epoch++) {
      const { cut, acked, ent, covered } = epochs[epoch]!;
      if (cut < 0) {
        for (let end = acked; end <= ent.length; end++) {
          emit(`fence e${epoch} at ${end}`, published(state, epoch, end));
        }
      } else if (!covered) emit(`settle e${epoch}`, this.#settled(state, epoch));
    }
    for (const index of [0, 1] as const) this.#steps(state, index, emit);
  }

  #steps(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const name = 'AB'[index]!;
    const mayMint =
      state.epochs.filter((epoch) => epoch.star === index).length < this.#bounds.epochs;
    const to = (next: Star, world: State = state): State => withStar(world, index, next);
    if (star.phase !== 'off') emit(`crash ${name}`, to(OFF));
    switch (star.phase) {
      case 'off':
        // Both stars are alike: the first one to do anything is A.
        if (!mayMint || (index === 1 && isUntouched(state))) return;
        emit(
          `readWriter ${name}`,
          to({ ...OFF, phase: 'gate', read: state.writer, at: state.version }),
        );
        break;
      case 'gate':
        this.#open(state, index, emit);
        break;
      case 'limbo':
        if (star.at !== state.version) emit(`over ${name}`, to(OFF));
        else if (this.#bounds.late === 'read')
          emit(`joinsByRead ${name}`, to({ ...star, phase: 'open' }));
        else {
          const version = state.version + 1;
          emit(
            `joinsByCas ${name}`,
            to({ ...star, phase: 'open', at: version }, { ...state, version }),
          );
        }
        break;
      case 'unnamed':
        this.#enter(state, index, emit);
        if (this.#bounds.names !== 'put') this.#put(state, index, emit);
        if (this.#bounds.names === 'never') this.#acknowledge(state, index, emit);
        break;
      case 'open':
        this.#put(state, index, emit);
        this.#acknowledge(state, index, emit);
        emit(`absorb ${name}`, this.#absorbed(state, star));
        if (mayMint) this.#roll(state, index, emit);
        this.#finish(state, index, emit);
        break;
    }
  }

  #put(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const epoch = state.epochs[star.head]!;
    if (epoch.cut >= 0 || epoch.ent.length === SLOTS) return;
    const [first, ...pool] = star.pool;
    const seq = first ?? star.tail;
    if (seq === this.#bounds.records) return;
    const next = first === undefined ? { ...star, tail: seq + 1 } : { ...star, pool };
    const world = withEpoch(state, star.head, { ...epoch, ent: [...epoch.ent, seq] });
    const label = first === undefined ? 'put' : 'republish';
    emit(`${label} ${'AB'[index]!} X${seq} in e${star.head}`, withStar(world, index, next));
  }

  #acknowledge(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const epoch = state.epochs[star.head]!;
    const limit = epoch.cut < 0 ? epoch.ent.length : epoch.cut;
    if (epoch.acked >= limit) return;
    const seq = epoch.ent[epoch.acked]!;
    const world = acknowledged(state, star.head, epoch.acked + 1);
    emit(`ack ${'AB'[index]!} X${seq}`, withStar(world, index, { ...star, done: seq + 1 }));
  }

  /** The gate, then the CAS that claims the tenure. */
  #open(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const name = 'AB'[index]!;
    const { read } = star;
    const minted = mint(state, index);
    const head = state.epochs.length;
    const own = tenureOf(minted, head);
    const verdict = judgeGate(recordOf(state, read), own);
    let tail = state.rows.length;
    let isClean = false;
    if (verdict.kind === 'released' && isCleanRelease(verdict, lastRow(state))) {
      isClean = true;
      ({ tail } = verdict);
    } else if (verdict.kind === 'released' || verdict.kind === 'examine') {
      // Only a reason to wait: some time the registry says otherwise (T3).
      const facts = {
        tenure: verdict.tenure,
        head: headOf(state, state.epochs[verdict.tenure.epoch]!.star),
        ownIncarnation: own.incarnation,
      };
      const isSettled = [true, false].some(
        (registered) => judgePredecessor({ ...facts, registered }) === 'settle',
      );
      if (!isSettled) return;
      if (!state.epochs[verdict.tenure.epoch]!.covered && !this.#bounds.skipsFence) return;
    }
    if (state.version !== star.at && this.#bounds.cas !== 'blind') {
      emit(`conflict ${name}`, withStar(state, index, OFF));
      return;
    }
    const { kind, epoch } = state.writer;
    if (kind === 'tenure' && state.epochs[epoch]!.cut < 0) {
      throw new BrokenRule(`T6 writer leaves the tenure in e${epoch}, which is not cut`);
    }
    const keeps = isClean && this.#bounds.keepsMark;
    const writer: Writer = keeps ? state.writer : { kind: 'tenure', epoch: head, tail: 0 };
    const version = keeps ? state.version : state.version + 1;
    const next: Star = {
      ...star,
      phase: 'open',
      head,
      tail,
      done: tail,
      pool: [],
      read: writer,
      at: version,
    };
    emit(
      isClean ? `openClean ${name}` : `open ${name}`,
      withStar({ ...minted, writer, version }, index, next),
    );
  }

  /** Halt, mint, fence the own epoch, acknowledge below the cut, cover it, keep the rest. */
  #roll(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const old = star.head;
    const { cut, ent } = state.epochs[old]!;
    const fenced = cut < 0 ? published(state, old, ent.length) : state;
    const end = fenced.epochs[old]!.cut;
    const acked = acknowledged(fenced, old, end);
    const world = mint(this.#bounds.rollCovers ? this.#settled(acked, old) : acked, index);
    const done = end === 0 ? star.done : Math.max(star.done, ent[end - 1]! + 1);
    const pool = [...ent.slice(end), ...star.pool];
    const next: Star = {
      ...star,
      phase: 'unnamed',
      head: state.epochs.length,
      done,
      pool,
    };
    emit(`roll ${'AB'[index]!}`, withStar(world, index, next));
  }

  #enter(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const name = 'AB'[index]!;
    if (state.version !== star.at && this.#bounds.cas !== 'blind') {
      emit(`lost ${name}`, withStar(state, index, OFF));
      return;
    }
    // R3; the epoch whose tenure `writer` names is the one that was rolled.
    if (this.#bounds.rollCovers && !state.epochs[star.read.epoch]!.covered) return;
    const writer: Writer = { kind: 'tenure', epoch: star.head, tail: 0 };
    const version = state.version + 1;
    const next: Star = { ...star, phase: 'open', read: writer, at: version };
    emit(`enter ${name}`, withStar({ ...state, writer, version }, index, next));
  }

  #finish(state: State, index: 0 | 1, emit: (label: string, next: State) => void): void {
    const star = state.stars[index];
    const { acked, cut, ent } = state.epochs[star.head]!;
    const isResolved = this.#bounds.resolves === 'drop' || acked === (cut < 0 ? ent.length : cut);
    const tail = star.done;
    if (!isResolved || star.pool.length > 0 || state.version !== star.at) return;
    if (state.rows.length !== tail) return;
    const mark = tail === 0 ? state.mark : { end: tail, epoch: star.head };
    if (this.#bounds.late !== undefined) {
      if (state.pending !== null) return;
      const pending = { tail, epoch: star.head, at: state.version };
      emit(
        `sendsReleased ${'AB'[index]!}`,
        withStar({ ...state, mark, pending }, index, { ...star, phase: 'limbo' }),
      );
      return;
    }
    const writer: Writer = { kind: 'released', epoch: star.head, tail };
    const version = state.version + 1;
    emit(
      `finish ${'AB'[index]!} at ${tail}`,
      withStar({ ...state, mark, writer, version }, index, OFF),
    );
  }

  #absorbed(state: State, star: Star): State {
    const { ent, acked } = state.epochs[star.head]!;
    const { rows } = this.#cover(state.rows, star.head, ent, acked);
    return rows === state.rows ? state : { ...state, rows };
  }

  /** Rows reach the cut, unless an entry stands above a gap (S4). */
  #settled(state: State, at: number): State {
    const epoch = state.epochs[at]!;
    const step = settlementStep(epochRecordOf(epoch));
    if (step.kind !== 'cover') return state;
    const { rows, gap } = this.#cover(state.rows, at, epoch.ent, step.to);
    const covered = settledRecord(epochRecordOf(epoch))?.state === 'settled';
    const isLeft = gap && this.#bounds.gap === 'refuse';
    return withEpoch({ ...state, rows }, at, { ...epoch, covered: covered && !isLeft });
  }

  #cover(rows: readonly number[], epoch: number, ent: readonly number[], to: number): Covered {
    const key = `${rows.join()}|${epoch}|${ent.slice(0, to).join()}`;
    const known = this.#covers.get(key);
    if (known !== undefined) return known;
    const covered = coverRows(rows, epoch, ent.slice(0, to), this.#bounds.gap);
    this.#covers.set(key, covered);
    return covered;
  }
}

interface Covered {
  readonly rows: readonly number[];
  readonly gap: boolean;
}

/** Extends the chain as a builder does, entry by entry of the epoch. */
function coverRows(
  before: readonly number[],
  epoch: number,
  ent: readonly number[],
  onGap: Required<TenureBounds>['gap'],
): Covered {
  const rows = [...before];
  const entries = ent.map((seq, slot) => entryOf(seq, 1, slot));
  try {
    for (;;) {
      const step = nextRow(rowTo(rows.length), entries, sourceFor(epoch), META_VALUE_BYTES_MAX);
      if (step.kind === 'covered') return { rows, gap: false };
      if (step.kind === 'create') {
        for (const { seq, slot } of step.row.spans) rows[seq] = epoch * SLOTS + slot;
        continue;
      }
      if (onGap !== 'fill') return { rows, gap: true };
      for (let seq = rows.length; seq < step.next; seq++) rows[seq] = -1;
    }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new BrokenRule(`S4 rows of e${epoch} cannot be built: ${text}`);
  }
}

function rowTo(end: number, mark?: RefRow['mark']): RefRow | undefined {
  if (end === 0) return undefined;
  const { star, epoch, set, builder } = sourceFor();
  const state = { fencingToken: '', trimPoint: 0, lastTimestamp: 0 };
  const row = { start: end - 1, end, star, epoch, set, spans: [], state, builder };
  return { ...row, attempt: ATTEMPT, ...(mark === undefined ? {} : { mark }) };
}

function lastRow(state: State): RefRow | undefined {
  const { mark, rows } = state;
  const isMarked = mark !== null && mark.end === rows.length;
  return rowTo(
    rows.length,
    isMarked ? { tenure: tenureOf(state, mark.epoch), tail: mark.end } : undefined,
  );
}

function tenureOf(state: State, epoch: number): Tenure {
  const { star } = state.epochs[epoch]!;
  return { star: 'ab'[star]!, incarnation: `${star}`, class: 'express', epoch };
}

function recordOf(state: State, { kind, epoch, tail }: Writer): WriterRecord | undefined {
  if (kind === 'none') return undefined;
  const tenure = tenureOf(state, epoch);
  return kind === 'tenure'
    ? { kind, tenure, attempt: ATTEMPT }
    : { kind, tenure, tail, attempt: ATTEMPT };
}

function headOf({ epochs }: State, star: number): number | undefined {
  const head = epochs.findLastIndex((epoch) => epoch.star === star);
  return head < 0 ? undefined : head;
}

function epochRecordOf({ cut }: Epoch): EpochRecord {
  return {
    star: 'a',
    epoch: 0,
    class: 'express',
    set: SET_ID,
    buckets: 3,
    copyQuorum: 2,
    window: SLOTS,
    incarnation: '00'.repeat(16),
    nonce: '00'.repeat(16),
    state: cut < 0 ? 'open' : 'fenced',
    checkpoint: 0,
    rewritten: 0,
    trimmed: 0,
    swept: 0,
    tailSwept: false,
    attempt: ATTEMPT,
    ...(cut < 0 ? {} : { cut }),
  };
}

function published(state: State, at: number, cut: number): State {
  const epoch = state.epochs[at]!;
  const decision = decidePublication(epochRecordOf(epoch), { cut, released: epoch.acked });
  if (decision.kind !== 'publish') throw new BrokenRule(`P cut ${cut}: ${decision.kind}`);
  return withEpoch(state, at, { ...epoch, cut });
}

function acknowledged(state: State, at: number, to: number): State {
  const epoch = state.epochs[at]!;
  if (to <= epoch.acked) return state;
  const acks = [...state.acks];
  for (let slot = epoch.acked; slot < to; slot++) {
    const seq = epoch.ent[slot]!;
    if (acks[seq]! >= 0) throw new BrokenRule(`T2 X${seq} acknowledged twice`);
    acks[seq] = at * SLOTS + slot;
  }
  return withEpoch({ ...state, acks }, at, { ...epoch, acked: to });
}

function landed(state: State, { tail, epoch, at: version }: NonNullable<State['pending']>): State {
  if (version !== state.version) return { ...state, pending: null };
  const writer: Writer = { kind: 'released', epoch, tail };
  return { ...state, pending: null, writer, version: state.version + 1 };
}

function mint(state: State, star: number): State {
  const epoch: Epoch = { star, cut: -1, ent: [], acked: 0, covered: false };
  return { ...state, epochs: [...state.epochs, epoch] };
}

function isUntouched({ epochs, stars }: State): boolean {
  return epochs.length === 0 && stars[0].phase === 'off';
}

function withStar(state: State, index: 0 | 1, star: Star): State {
  const [a, b] = state.stars;
  return { ...state, stars: index === 0 ? [star, b] : [a, star] };
}

function withEpoch(state: State, at: number, epoch: Epoch): State {
  const epochs = state.epochs.slice();
  epochs[at] = epoch;
  return { ...state, epochs };
}

const codeOf = ({ kind, epoch, tail }: Writer): string =>
  kind === 'none' ? 'n' : kind === 'tenure' ? `t${epoch}` : `r${epoch}${tail}`;

const at = (of: { readonly at: number }, version: number): string =>
  of.at === version ? '=' : '!';

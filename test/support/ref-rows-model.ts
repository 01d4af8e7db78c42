/**
 * Every interleaving of some builders of one stream's rows, for small bounds. The decisions are the
 * product's own (`buildStep`); the model adds what surrounds them: reads that may be old, creates
 * that land late or after their builder is gone, trimming, removal of rows behind trim.
 */
import type { SourceEntry } from '../../src/protocol/coverage.ts';
import type { RefRow } from '../../src/protocol/records.ts';
import { buildStep, chainEnd, type NewRefRow } from '../../src/protocol/ref-rows.ts';
import { META_VALUE_BYTES_MAX } from '../../src/ports/metastore.ts';
import { entryOf, sourceFor, stored } from './row-samples.ts';

export interface ModelOptions {
  /** Positions of the stream. */
  readonly positions: number;
  /** What each builder knows and is to cover: `[from, to)`, one entry a position. */
  readonly builders: readonly { readonly from: number; readonly to: number }[];
  /**
   * `last`: after every answer the builder reads the last row. `own`: it goes on from the row at
   * its own key. `skip`: it writes above gaps.
   */
  readonly rule?: 'last' | 'own' | 'skip';
  /** Plain reads answer any state since the builder's last acknowledged write or fresh read. */
  readonly staleReads?: boolean;
  /** So many creates may outlive their builder, which starts again, and land at any later time. */
  readonly orphans?: number;
  /** Whether the last row may be removed too, which the rules forbid. */
  readonly removesLastRow?: boolean;
}

export interface ModelVerdict {
  readonly states: number;
  /** Reached terminal claims: a floor under them shows that the exploration got somewhere. */
  readonly claims: { readonly covered: number; readonly gap: number; readonly removed: number };
  readonly violation: string | undefined;
  readonly trace: readonly string[];
}

type Range = readonly [start: number, end: number];

interface Builder {
  /** Index of the last row it read in `lasts`; -1: none read. */
  readonly read: number;
  readonly isFresh: boolean;
  readonly triedAt: number;
  /** A plain read may not answer what is older than this index of `lasts`. */
  readonly floor: number;
  readonly out: Range | null;
  readonly done: 'no' | 'covered' | 'gap';
}

interface State {
  /** Rows by their start, as [start, end]. */
  readonly rows: readonly Range[];
  /** What the last row has been, in order; index 0: there was none. */
  readonly lasts: readonly (Range | null)[];
  readonly trim: number;
  readonly orphans: readonly Range[];
  readonly orphansLeft: number;
  readonly builders: readonly Builder[];
}

const IDLE: Builder = { read: -1, isFresh: false, triedAt: -1, floor: 0, out: null, done: 'no' };

/** Rows as the product has them, one entry a position. */
function rowOf(range: Range | null): RefRow | undefined {
  if (range === null) return undefined;
  const [start, end] = range;
  const spans = Array.from({ length: end - start }, (_, index) => entryOf(start + index, 1).span);
  const state = { fencingToken: '', trimPoint: 0, lastTimestamp: (end - 1) * 10 };
  const { star, epoch, set, builder } = sourceFor();
  return stored({ start, end, star, epoch, set, spans, state, builder });
}

const ROWS = new Map<string, RefRow | undefined>();

function cachedRow(range: Range | null): RefRow | undefined {
  const key = String(range);
  if (!ROWS.has(key)) ROWS.set(key, rowOf(range));
  return ROWS.get(key);
}

const ENTRIES: readonly SourceEntry[] = Array.from({ length: 16 }, (_, seq) => entryOf(seq, 1));

function lastOf(state: State): Range | null {
  return state.rows.at(-1) ?? null;
}

function sameRange(a: Range | null, b: Range | null): boolean {
  return a === b || (a !== null && b !== null && a[0] === b[0] && a[1] === b[1]);
}

function withRows(state: State, rows: readonly Range[]): State {
  const sorted = [...rows].sort((a, b) => a[0] - b[0]);
  const last = sorted.at(-1) ?? null;
  const lasts = sameRange(state.lasts.at(-1)!, last) ? state.lasts : [...state.lasts, last];
  return { ...state, rows: sorted, lasts };
}

function land(state: State, range: Range): { readonly state: State; readonly isApplied: boolean } {
  if (state.rows.some(([start]) => start === range[0])) return { state, isApplied: false };
  return { state: withRows(state, [...state.rows, range]), isApplied: true };
}

class Explorer {
  readonly options: ModelOptions;
  readonly claims = { covered: 0, gap: 0, removed: 0 };

  constructor(options: ModelOptions) {
    this.options = options;
  }

  *successors(state: State): Iterable<readonly [string, State]> {
    for (let index = 0; index < state.builders.length; index++) {
      if (state.builders[index]!.done === 'no') yield* this.#builderSteps(state, index);
    }
    for (const [at, range] of state.orphans.entries()) {
      const rest = { ...state, orphans: state.orphans.filter((_, other) => other !== at) };
      yield [`orphan [${range.join()}) lands`, land(rest, range).state];
    }
    if (state.trim < chainEnd(cachedRow(lastOf(state)))) {
      yield [`trim ${state.trim + 1}`, { ...state, trim: state.trim + 1 }];
    }
    for (const row of state.rows) {
      const isLast = sameRange(row, lastOf(state));
      if (row[1] > state.trim || (isLast && this.options.removesLastRow !== true)) continue;
      this.claims.removed++;
      const rows = state.rows.filter((other) => other !== row);
      yield [`remove [${row.join()})`, withRows(state, rows)];
    }
  }

  *#builderSteps(state: State, index: number): Iterable<readonly [string, State]> {
    const builder = state.builders[index]!;
    const name = `b${index}`;
    const to = (next: Builder, world = state): State => ({
      ...world,
      builders: world.builders.map((other, at) => (at === index ? next : other)),
    });
    if (builder.out !== null) {
      yield* this.#answers(state, index, builder.out, to);
      return;
    }
    if (builder.read < 0) {
      yield* this.#reads(state, builder, name, to);
      return;
    }
    yield* this.#decisions(state, index, to);
  }

  /** A plain read of the last row, of any age that the metastore allows. */
  *#reads(
    state: State,
    builder: Builder,
    name: string,
    to: (next: Builder) => State,
  ): Iterable<readonly [string, State]> {
    const newest = state.lasts.length - 1;
    const oldest = this.options.staleReads === true ? Math.min(builder.floor, newest) : newest;
    for (let read = oldest; read <= newest; read++) {
      yield [`${name} reads ${String(state.lasts[read])}`, to({ ...builder, read })];
    }
  }

  *#answers(
    state: State,
    index: number,
    out: Range,
    to: (next: Builder, world?: State) => State,
  ): Iterable<readonly [string, State]> {
    const builder = state.builders[index]!;
    const label = `b${index} create [${out.join()})`;
    const { state: landed, isApplied } = land(state, out);
    const newest = landed.lasts.length - 1;
    const answered = {
      ...builder,
      out: null,
      isFresh: false,
      triedAt: out[0],
      floor: isApplied ? newest : builder.floor,
    };
    if (this.options.rule === 'own') {
      // Goes on from the row at its own key, found or created.
      const own = landed.rows.find(([start]) => start === out[0])!;
      const world = { ...landed, lasts: [...landed.lasts, own, landed.lasts.at(-1)!] };
      yield [label, to({ ...answered, read: newest + 1, triedAt: -1 }, world)];
      return;
    }
    yield [label, to({ ...answered, read: -1 }, landed)];
    if (state.orphansLeft > 0) {
      const left = { orphans: [...state.orphans, out], orphansLeft: state.orphansLeft - 1 };
      yield [`${label}: outcome unknown, starts again`, to(IDLE, { ...state, ...left })];
    }
  }

  *#decisions(
    state: State,
    index: number,
    to: (next: Builder) => State,
  ): Iterable<readonly [string, State]> {
    const builder = state.builders[index]!;
    const { from, to: end } = this.options.builders[index]!;
    const triedAt = builder.triedAt < 0 ? undefined : builder.triedAt;
    const range = state.lasts[builder.read]!;
    const last = cachedRow(range);
    const newest = state.lasts.length - 1;
    // A row may take any number of the entries: chunking decides, and builders know different ends.
    const seen = new Set<string>();
    for (let known = from + 1; known <= end; known++) {
      const view = { last, isFresh: builder.isFresh, triedAt };
      const entries = ENTRIES.slice(from, known);
      const step = buildStep(view, entries, sourceFor(), META_VALUE_BYTES_MAX);
      if (step.kind === 'covered' && known < end) continue;
      const row = step.kind === 'create' ? step.row : this.#rowAboveGap(step, known);
      const key = `${step.kind} ${row === undefined ? '' : `${row.start},${row.end}`}`;
      if (seen.has(key)) continue;
      seen.add(key);
      const label = `b${index} ${key}`;
      if (row !== undefined) {
        yield [label, to({ ...builder, out: [row.start, row.end], read: -1 })];
      } else if (step.kind === 'covered' || step.kind === 'gap') {
        this.claims[step.kind]++;
        yield [label, to({ ...builder, done: step.kind })];
      } else {
        yield [label, to({ ...builder, read: newest, isFresh: true, floor: newest })];
      }
    }
  }

  #rowAboveGap(step: ReturnType<typeof buildStep>, known: number): NewRefRow | undefined {
    if (step.kind !== 'gap' || this.options.rule !== 'skip') return undefined;
    return rowOf([step.next, known]);
  }

  /** The first rule that the state breaks. */
  fault(state: State): string | undefined {
    const end = chainEnd(cachedRow(lastOf(state)));
    let claimed = 0;
    state.builders.forEach(({ done }, index) => {
      if (done === 'covered') claimed = Math.max(claimed, this.options.builders[index]!.to);
    });
    if (end < claimed) return `rows end at ${end}, below ${claimed}, which was reported covered`;
    for (let position = state.trim; position < Math.max(end, claimed); position++) {
      const floor = state.rows.findLast(([start]) => start <= position);
      if (floor === undefined || floor[1] <= position) return `position ${position} is not found`;
    }
    return undefined;
  }
}

/** Explores everything that can be reached; stops at the first broken rule. */
export function exploreRefRows(options: ModelOptions): ModelVerdict {
  const explorer = new Explorer(options);
  const initial: State = {
    rows: [],
    lasts: [null],
    trim: 0,
    orphans: [],
    orphansLeft: options.orphans ?? 0,
    builders: options.builders.map(() => IDLE),
  };
  const parents = new Map<string, readonly [string, string] | null>();
  parents.set(JSON.stringify(initial), null);
  let queue: State[] = [initial];
  let states = 0;
  while (queue.length > 0) {
    const next: State[] = [];
    for (const state of queue) {
      states++;
      const violation = explorer.fault(state);
      if (violation !== undefined) {
        const trace = traceTo(parents, JSON.stringify(state));
        return { states, claims: explorer.claims, violation, trace };
      }
      const from = JSON.stringify(state);
      for (const [label, successor] of explorer.successors(state)) {
        const key = JSON.stringify(successor);
        if (parents.has(key)) continue;
        parents.set(key, [from, label]);
        next.push(successor);
      }
    }
    queue = next;
  }
  return { states, claims: explorer.claims, violation: undefined, trace: [] };
}

function traceTo(
  parents: ReadonlyMap<string, readonly [string, string] | null>,
  key: string,
): string[] {
  const trace: string[] = [];
  for (let at = parents.get(key) ?? null; at !== null; at = parents.get(at[0]) ?? null) {
    trace.unshift(at[1]);
  }
  return trace;
}

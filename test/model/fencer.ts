/**
 * A fencer as the model sees it: the product's own step function, with every request of a wave
 * executed on its own. States are interned, so that a world holds numbers.
 */
import {
  beginFence,
  revalidateFence,
  stepFence,
  type FenceAnswers,
  type FenceOptions,
  type FenceState,
  type PutAnswer,
} from '../../src/protocol/fence.ts';
import { hasBit, type SlotSeen } from '../../src/protocol/fence-rows.ts';
import {
  decidePublication,
  type CutClaim,
  type PublicationDecision,
  type RecordCursors,
} from '../../src/protocol/publication.ts';
import { EMPTY, FLIGHT, POISON, UNKNOWN, type CellCode } from '../../src/protocol/slot.ts';

export interface Request {
  /** `probes`: all slots that only guide, looked at in one moment. */
  readonly kind: 'poison' | 'copy' | 'read' | 'identity' | 'probes';
  readonly slot: number;
  readonly bucket: number;
}

export type Phase = 'start' | 'wave' | 'record' | 'publish' | 'cas' | 'done';

/** Why a run broke; the world adds where. */
export class Violation extends Error {}

export interface FencerNode {
  readonly id: number;
  readonly phase: Phase;
  readonly walk: FenceState | undefined;
  readonly requests: readonly Request[];
  /** One code a request, `PENDING` before it is executed. */
  readonly results: readonly number[];
  readonly cut: number;
  /** What the record was when its cut was decided: the version of the compare-and-set. */
  readonly expected: number;
  /** Transitions that were taken before, by what happened. */
  readonly moves: Map<number, number>;
}

/** The epoch record as a number, as the world packs it. */
export interface PackedRecord {
  readonly code: number;
  readonly cursors: RecordCursors;
}

export const PENDING = -1;
/** The request was executed or not, and its answer is lost. */
export const LOST = 9;
export const CREATED = 8;
/** Identity verdicts. */
export const CONFIRMED = 6;
export const IDENTITY_LOST = 7;
/** A flight read together with its watermark: FLIGHT + 10 * (released + 1). */
export const flightCode = (released: number): number => FLIGHT + 10 * (released + 1);

/** Keys of transitions: a kind each, with room for record codes and results. */
const READ = 0;
const REVALIDATE = 2 ** 20;
const DECIDE = 2 ** 21;
const APPLIED = 2 ** 22 + 1;
const REFUSED = 2 ** 22 + 2;
const EXECUTE = 2 ** 23;
/** Codes of one request. */
const RESULTS_MAX = 2 ** 20;

export interface FencerSettings {
  readonly quorum: { readonly buckets: number; readonly copies: number };
  readonly window: number;
  readonly own: boolean;
  readonly options: FenceOptions;
  readonly revalidates: boolean;
  readonly tailHint?: number | undefined;
}

/** Interns the local states of one kind of fencer and remembers every transition. */
export class FencerSpace {
  readonly #settings: FencerSettings;
  readonly #nodes: FencerNode[] = [];
  readonly #ids = new Map<string, number>();
  /** How often a situation was met, for the floors of the run. */
  readonly reached = new Map<string, number>();
  readonly start: number;

  constructor(settings: FencerSettings) {
    this.#settings = settings;
    this.start = this.#intern({ phase: 'start', walk: undefined, cut: -1 });
  }

  get size(): number {
    return this.#nodes.length;
  }

  node(id: number): FencerNode {
    return this.#nodes[id]!;
  }

  /** The record is read at the start: its cut, or a walk from its checkpoint. */
  readAtStart(id: number, record: PackedRecord): number {
    return this.#move(id, READ + record.code, () => {
      const { cut, checkpoint } = record.cursors;
      if (cut !== undefined) return this.#done(cut, 'readCut');
      return this.#intern({ phase: 'wave', walk: this.#begin(checkpoint), cut: -1 });
    });
  }

  /** The record is read between two waves. */
  revalidate(id: number, record: PackedRecord): number {
    return this.#move(id, REVALIDATE + record.code, () => {
      const { cut, checkpoint } = record.cursors;
      if (cut !== undefined) return this.#done(cut, 'readCut');
      const { walk } = this.node(id);
      return this.#after(revalidateFence(walk!, checkpoint, this.#settings.options));
    });
  }

  execute(id: number, index: number, code: number): number {
    return this.#move(id, EXECUTE + index * RESULTS_MAX + code, () => {
      const node = this.node(id);
      const results = node.results.slice();
      results[index] = code;
      if (results.includes(PENDING)) return this.#intern({ ...node, results });
      return this.#step(node, results);
    });
  }

  /** Publication: the record as it is now decides what the walk is worth. */
  decide(id: number, record: PackedRecord): number {
    return this.#move(id, DECIDE + record.code, () => {
      const { walk } = this.node(id);
      const claim = { cut: walk!.slot, released: walk!.released };
      const decision = this.#publication(record.cursors, claim);
      this.#count(decision.kind);
      switch (decision.kind) {
        case 'publish': {
          const cut = walk!.slot;
          return this.#intern({ phase: 'cas', walk, cut, expected: record.code });
        }
        case 'recorded':
        case 'adopt':
          return this.#done(decision.cut, decision.kind);
        case 'restart':
          return this.#intern({ phase: 'wave', walk: this.#begin(decision.checkpoint), cut: -1 });
        case 'disagreement':
          throw new Violation(`F3 two cuts: recorded ${decision.recorded}, found ${claim.cut}`);
        case 'acknowledged-poisoned':
          throw new Violation(`an acknowledged slot is taken for poisoned at ${claim.cut}`);
      }
    });
  }

  /** The compare-and-set: applied unless the record changed since the decision. */
  write(id: number, record: PackedRecord): { readonly next: number; readonly applied: boolean } {
    const applied = this.node(id).expected === record.code;
    const next = this.#move(id, applied ? APPLIED : REFUSED, () => {
      const { walk, cut } = this.node(id);
      if (applied) return this.#done(cut, 'published');
      return this.#intern({ phase: 'publish', walk, cut: -1 });
    });
    return { next, applied };
  }

  #publication(record: RecordCursors, claim: CutClaim): PublicationDecision {
    if (this.#settings.revalidates) return decidePublication(record, claim);
    // The mutant publishes whatever it found, as if nothing could be deleted under it.
    return decidePublication({ ...record, checkpoint: 0, trimmed: 0 }, { ...claim, released: 0 });
  }

  #begin(checkpoint: number): FenceState {
    const { quorum, window, own, tailHint, options } = this.#settings;
    return beginFence({ quorum, window, own, checkpoint, tailHint }, options);
  }

  #step(node: FencerNode, results: readonly number[]): number {
    const walk = node.walk!;
    const answers = answersOf(walk, node.requests, results, this.#settings.quorum.buckets);
    const next = stepFence(walk, answers, this.#settings.options);
    for (const { verdict } of next.decided) this.#count(verdict);
    if (next.outrun > walk.outrun) this.#count('outran');
    return this.#after(next);
  }

  #after(walk: FenceState): number {
    const { kind } = walk.wave;
    this.#count(kind);
    const phase = kind === 'cut' ? 'publish' : kind === 'revalidate' ? 'record' : 'wave';
    return this.#intern({ phase, walk: this.#canonical(walk), cut: -1 });
  }

  /** Counters that only pace the walk are capped where they stop mattering. */
  #canonical(walk: FenceState): FenceState {
    return {
      ...walk,
      outrun: walk.own ? 0 : Math.min(walk.outrun, 2),
      speed: walk.own ? 0 : Math.min(walk.speed, 2),
      barrierDistance: Math.min(walk.barrierDistance, 4),
      blindProbes: Math.min(walk.blindProbes, 2),
      stalls: Math.min(walk.stalls, 2),
      decided: [],
    };
  }

  #done(cut: number, how: string): number {
    this.#count(how);
    return this.#intern({ phase: 'done', walk: undefined, cut });
  }

  #count(what: string): void {
    this.reached.set(what, (this.reached.get(what) ?? 0) + 1);
  }

  #move(id: number, key: number, next: () => number): number {
    const { moves } = this.node(id);
    const known = moves.get(key);
    if (known !== undefined) return known;
    const after = next();
    moves.set(key, after);
    return after;
  }

  #intern(
    node: Pick<FencerNode, 'phase' | 'walk' | 'cut'> &
      Partial<Pick<FencerNode, 'results' | 'expected'>>,
  ): number {
    const { phase, walk, cut, expected = -1 } = node;
    const requests = phase === 'wave' ? requestsOf(walk!) : [];
    const results = node.results ?? requests.map(() => PENDING);
    const key = `${phase}|${cut}|${expected}|${results.join()}|${walk === undefined ? '' : JSON.stringify(walk)}`;
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const id = this.#nodes.length;
    const moves = new Map<number, number>();
    this.#nodes.push({ id, phase, walk, requests, results, cut, expected, moves });
    this.#ids.set(key, id);
    return id;
  }
}

function requestsOf({ wave, quorum }: FenceState): Request[] {
  const requests: Request[] = [];
  for (const { slot, bucket } of wave.poisons) requests.push({ kind: 'poison', slot, bucket });
  for (const { slot, targets } of wave.repairs) {
    for (const bucket of targets) requests.push({ kind: 'copy', slot, bucket });
  }
  let probes = false;
  for (const { slot, ask, evidence } of wave.reads) {
    if (!evidence) probes = true;
    for (let bucket = 0; evidence && bucket < quorum.buckets; bucket++) {
      if (hasBit(ask, bucket)) requests.push({ kind: 'read', slot, bucket });
    }
  }
  if (probes) requests.push({ kind: 'probes', slot: -1, bucket: -1 });
  for (let bucket = 0; bucket < quorum.buckets; bucket++) {
    if (hasBit(wave.identities, bucket)) requests.push({ kind: 'identity', slot: -1, bucket });
  }
  return requests;
}

/**
 * Probes answer with one number, above all codes of single requests: for each probed slot one digit,
 * the buckets with poison as a bit mask, or 2^K + 1 + the watermark of a flight.
 */
export const PROBE_FIRST = 10;
export const probeBase = (buckets: number): number => 2 ** buckets + 6;

function answersOf(
  { wave }: FenceState,
  requests: readonly Request[],
  results: readonly number[],
  buckets: number,
): FenceAnswers {
  const puts: PutAnswer[] = [];
  const identities: { bucket: number; verdict: 'confirmed' | 'lost' | 'unknown' }[] = [];
  const seen = new Map<number, ReturnType<typeof blank>>();
  for (const { slot, evidence } of wave.reads) if (evidence) seen.set(slot, blank(slot, buckets));
  const probed: SlotSeen[] = [];
  requests.forEach(({ kind, slot, bucket }, index) => {
    const code = results[index]!;
    if (kind === 'identity') {
      const verdict =
        code === CONFIRMED ? 'confirmed' : code === IDENTITY_LOST ? 'lost' : 'unknown';
      identities.push({ bucket, verdict });
    } else if (kind === 'probes') {
      if (code !== LOST) probed.push(...probeAnswers(wave.reads, code, buckets));
    } else if (kind === 'read') {
      if (code !== LOST) lay(seen.get(slot)!, bucket, code);
    } else puts.push(putAnswer(slot, bucket, code));
  });
  return { puts, identities, reads: [...seen.values(), ...probed] };
}

function blank(slot: number, buckets: number) {
  return {
    slot,
    cells: new Array<CellCode>(buckets).fill(UNKNOWN),
    prints: new Array<number>(buckets).fill(0),
    released: -1,
    sizeBytes: 0,
  };
}

function lay(seen: ReturnType<typeof blank>, bucket: number, code: number): void {
  const cell = (code % 10) as CellCode;
  seen.cells[bucket] = cell;
  if (cell !== FLIGHT) return;
  seen.prints[bucket] = 1;
  seen.released = Math.max(seen.released, Math.floor(code / 10) - 1);
}

function putAnswer(slot: number, bucket: number, code: number): PutAnswer {
  const blankPut = { slot, bucket, cell: UNKNOWN, print: 0, released: -1, sizeBytes: 0 } as const;
  if (code === CREATED) return { ...blankPut, outcome: 'created' };
  if (code === LOST) return { ...blankPut, outcome: 'failed' };
  const cell = (code % 10) as CellCode;
  const isFlight = cell === FLIGHT;
  const released = isFlight ? Math.floor(code / 10) - 1 : -1;
  return { ...blankPut, outcome: 'held', cell, print: isFlight ? 1 : 0, released };
}

/** Digits as `probeCode` packs them: 0 no flight, 1 poison in every bucket, 2 + watermark + 1 a flight. */
function probeAnswers(
  reads: FenceState['wave']['reads'],
  code: number,
  buckets: number,
): SlotSeen[] {
  const answers: SlotSeen[] = [];
  let rest = code - PROBE_FIRST;
  for (const { slot, evidence } of reads) {
    if (evidence) continue;
    const base = probeBase(buckets);
    const digit = rest % base;
    rest = Math.floor(rest / base);
    const seen = blank(slot, buckets);
    const flight = digit - 2 ** buckets;
    for (let bucket = 0; bucket < buckets; bucket++) {
      const cell = hasBit(digit, bucket) ? POISON : EMPTY;
      lay(seen, bucket, flight >= 0 ? flightCode(flight - 1) : cell);
    }
    answers.push(seen);
  }
  return answers;
}

/** Leadership, tail reads and rows of one stream: bounds that must hold, variations that must break. */
import { exploreRefRows, type ModelOptions } from '../support/ref-rows-model.ts';
import { ServingSpace, type ServingBounds } from './serving.ts';
import { exploreStates, type StatesRun } from './states.ts';
import { TenureSpace, type TenureBounds } from './tenure.ts';

export interface StreamCase {
  readonly name: string;
  readonly run: () => StatesRun;
  /** What a variation must violate; undefined when the rules must hold. */
  readonly breaks?: RegExp;
  /** Steps that must have been met, so that a green run says something. */
  readonly floor?: readonly string[];
  /** Only in `npm run model`; rows have tests of their own beside. */
  readonly slow?: boolean;
}

const STATES_MAX = 3_000_000;

const tenure =
  (bounds: Partial<TenureBounds> = {}) =>
  (): StatesRun =>
    exploreStates(new TenureSpace({ epochs: 2, records: 2, ...bounds }), STATES_MAX);

const serving =
  (bounds: Partial<ServingBounds> = {}) =>
  (): StatesRun =>
    exploreStates(new ServingSpace({ flights: 1, ...bounds }), STATES_MAX);

const TWO_BUILDERS = [
  { from: 0, to: 3 },
  { from: 0, to: 4 },
];

/** Absorb knows all but the newest position, a settler all. */
const rows =
  (options: Partial<ModelOptions> = {}) =>
  (): StatesRun => {
    const begunAt = process.hrtime.bigint();
    const found = exploreRefRows({ positions: 4, builders: TWO_BUILDERS, ...options });
    const { states, violation, trace, claims } = found;
    return {
      verdict: violation === undefined ? 'holds' : 'breaks',
      ...(violation === undefined ? {} : { violation, trace }),
      states,
      reached: new Map(Object.entries(claims).filter(([, count]) => count > 0)),
      millis: Number((process.hrtime.bigint() - begunAt) / 1_000_000n),
    };
  };

const LED = ['readWriter', 'open', 'put', 'ack', 'absorb', 'crash', 'fence', 'settle'];

export const STREAM_CASES: readonly StreamCase[] = [
  {
    name: 'leadership, two epochs a star, two records',
    run: tenure(),
    floor: [...LED, 'openClean', 'finish', 'roll', 'enter', 'republish', 'lost', 'conflict'],
    slow: true,
  },
  {
    name: 'leadership, a released CAS lands late, re-opened by a CAS',
    run: tenure({ epochs: 1, late: 'cas' }),
    floor: [...LED, 'openClean', 'sendsReleased', 'lands', 'joinsByCas', 'over'],
  },
  {
    name: 're-opened by reading the own tenure',
    run: tenure({ epochs: 1, late: 'read' }),
    breaks: /T2/,
  },
  {
    name: 'writer is named before the acknowledgement only',
    run: tenure({ names: 'ack' }),
    breaks: /T2/,
  },
  { name: 'no CAS after a roll', run: tenure({ names: 'never' }), breaks: /T2/ },
  { name: 'Finish drops PUTs that failed', run: tenure({ resolves: 'drop' }), breaks: /T2/ },
  { name: 'the mark is not consumed', run: tenure({ keepsMark: true }), breaks: /T2/ },
  { name: 'writer is written blindly', run: tenure({ cas: 'blind' }), breaks: /T6/ },
  { name: 'a superseded epoch is not fenced', run: tenure({ skipsFence: true }), breaks: /T6/ },
  {
    name: 'a rolled stream goes on before its rows reach the cut',
    run: tenure({ rollCovers: false }),
    breaks: /T2/,
  },
  {
    name: 'a younger epoch is settled over a gap',
    run: tenure({ rollCovers: false, gap: 'skip' }),
    breaks: /T2/,
  },
  {
    name: 'rows are written above a gap',
    run: tenure({ rollCovers: false, gap: 'fill' }),
    breaks: /T2/,
  },
  {
    name: 'tail reads, one flight',
    run: serving(),
    floor: [
      ...['request', 'wave', 'looks', 'answers', 'acknowledges', 'enters', 'lands', 'loses', 'C'],
      ...['expires', 'registers', 'second'],
    ],
    slow: true,
  },
  {
    name: 'a confirmation older than its request',
    run: serving({ olderCounts: true }),
    breaks: /L1/,
    slow: true,
  },
  {
    name: "a confirmation in the star's newest epoch",
    run: serving({ inHead: true }),
    breaks: /L1/,
  },
  { name: 'served after a released CAS was sent', run: serving({ servesOn: true }), breaks: /L1/ },
  { name: 'a live lease counts as a confirmation', run: serving({ byLease: true }), breaks: /L1/ },
  {
    name: 'a wave counts a silent bucket as clean',
    run: serving({ silentIsClean: true }),
    breaks: /L1/,
  },
  {
    name: 'a wave counts what it finds as clean',
    run: serving({ foundIsClean: true }),
    breaks: /L1/,
  },
  {
    name: 'a flight that was sent again counts',
    run: serving({ resentCounts: true }),
    breaks: /L1/,
  },
  {
    name: 'rows by two builders, four positions',
    slow: true,
    run: rows(),
    floor: ['covered', 'removed'],
  },
  {
    name: 'rows over a gap between two epochs, stale reads, a late create',
    slow: true,
    run: rows({
      staleReads: true,
      orphans: 1,
      builders: [
        { from: 0, to: 2 },
        { from: 2, to: 4 },
      ],
    }),
    floor: ['covered', 'gap', 'removed'],
  },
  { name: 'rows continued from the own key', slow: true, run: rows({ rule: 'own' }), breaks: /./ },
  {
    name: 'rows above a gap',
    slow: true,
    run: rows({ rule: 'skip', builders: [{ from: 2, to: 4 }] }),
    breaks: /not found/,
  },
  { name: 'the last row is removed', slow: true, run: rows({ removesLastRow: true }), breaks: /./ },
];

/** Why the case is not what it must be; undefined when it is. */
export function problemOf({ breaks, floor = [] }: StreamCase, run: StatesRun): string | undefined {
  if (breaks !== undefined) {
    const fits = run.verdict === 'breaks' && breaks.test(run.violation ?? '');
    return fits ? undefined : `must break with ${breaks}: ${run.verdict} ${run.violation ?? ''}`;
  }
  if (run.verdict !== 'holds') {
    return `${run.verdict}: ${run.violation ?? ''} ${run.trace?.join(' > ') ?? ''}`;
  }
  const missing = floor.filter((what) => !run.reached.has(what));
  return missing.length === 0 ? undefined : `never met: ${missing.join(', ')}`;
}

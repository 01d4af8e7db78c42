/**
 * What the model explores: bounds that must hold, and variations of the rules that must break.
 *
 * Not reached: two fencers over two slots with poison ahead of both walks. It had found 110 million states
 * when memory for more was at its end; those it had visited broke no rule. A fencer here is the product's,
 * whose waves are many states, and poison may land at any time. Two fencers with one slot, and one fencer
 * with two, stand for it. Publication of generations has no model yet: there are none.
 */
import { classify, type SlotClass } from '../../src/protocol/slot.ts';
import { FENCE_RULES, type FenceRules, type FenceTuning } from '../../src/protocol/fence.ts';
import { explore, type Exploration } from './explore.ts';
import { FencerSpace } from './fencer.ts';
import { ModelWorld, type Bounds } from './world.ts';

export interface ModelCase {
  readonly name: string;
  readonly bounds: Bounds;
  readonly rules?: Partial<FenceRules>;
  /** False: publishes without asking whether slots were deleted under the walk. */
  readonly revalidates?: boolean;
  /** True: a fence of another's epoch, which may set barriers. */
  readonly live?: boolean;
  readonly tuning?: Partial<FenceTuning>;
  /** What a variation must violate. */
  readonly breaks?: RegExp;
  /** Situations that must have been met, so that a green run says something. */
  readonly floor?: readonly string[];
  /** Only in `npm run model`, not among the tests. */
  readonly slow?: boolean;
  /** So large that `npm run model` explores it with `--slow` only; the most states it may take. */
  readonly statesMax?: number;
}

/** One slot a wave and the narrowest probes: what the walk decides, not how fast it gets there. */
const NARROW: FenceTuning = {
  exponents: 0,
  fanOut: 1,
  tightSlots: 1,
  rowsMax: 1,
  repairsMax: 1,
};

const STATES_MAX = 4_000_000;

const K3: Pick<Bounds, 'buckets' | 'copies' | 'window'> = { buckets: 3, copies: 2, window: 2 };
const K1: Pick<Bounds, 'buckets' | 'copies' | 'window'> = { buckets: 1, copies: 1, window: 2 };

/** B one too small: a single poison counts as the end of the epoch. */
const blocking: Partial<FenceRules> = {
  classify: (quorum, seen): SlotClass => {
    const poisons = seen.subarray(0, quorum.buckets).filter((code) => code === 3).length;
    const found = classify(quorum, seen);
    const isDead = found.kind !== 'committed' && poisons >= quorum.buckets - quorum.copies;
    return isDead ? { kind: 'dead' } : found;
  },
  blockingSet: (quorum) => quorum.buckets - quorum.copies,
};

const walked = ['committed', 'repaired', 'poisoned', 'dead', 'published'];

export const HOLDING: readonly ModelCase[] = [
  {
    name: 'one fencer, two slots',
    bounds: { ...K3, slots: 2, fencers: 1 },
    floor: [...walked, 'outran', 'revalidate'],
  },
  {
    name: 'two fencers, two slots',
    bounds: { ...K3, slots: 2, fencers: 2 },
    floor: [...walked, 'outran', 'readCut', 'recorded', 'conflict'],
    slow: true,
  },
  {
    name: 'two fencers, one slot',
    bounds: { ...K3, slots: 1, fencers: 2 },
    floor: [...walked, 'readCut', 'recorded', 'conflict'],
  },
  {
    name: 'whole windows a wave',
    bounds: { ...K3, slots: 2, fencers: 1 },
    tuning: { rowsMax: 3, repairsMax: 3, tightSlots: 3, exponents: 1, fanOut: 2 },
    floor: walked,
  },
  {
    name: 'three slots',
    bounds: { ...K3, slots: 3, fencers: 1 },
    floor: walked,
  },
  {
    name: 'five buckets',
    bounds: { buckets: 5, copies: 3, window: 1, slots: 1, fencers: 1 },
    floor: walked,
  },
  {
    name: 'every bucket must hold a copy',
    bounds: { buckets: 3, copies: 3, window: 2, slots: 2, fencers: 1 },
    floor: walked,
  },
  {
    name: 'one copy is enough',
    bounds: { buckets: 2, copies: 1, window: 2, slots: 2, fencers: 2 },
    floor: ['committed', 'poisoned', 'dead', 'published'],
  },
  {
    name: 'one bucket, slots deleted below the checkpoint',
    bounds: { ...K1, slots: 3, fencers: 2, trim: true },
    floor: ['restart', 'adopt', 'delete', 'published'],
    slow: true,
  },
  {
    name: 'one bucket, four slots deleted below the checkpoint',
    bounds: { ...K1, slots: 4, fencers: 2, trim: true },
    floor: ['restart', 'adopt', 'delete', 'published'],
    statesMax: 16_000_000,
  },
  {
    name: 'watermarks, slots deleted below the checkpoint',
    bounds: { ...K3, slots: 2, fencers: 1, trim: true, watermark: true },
    floor: [...walked, 'delete', 'restart'],
    slow: true,
  },
  {
    name: 'watermarks, settled and swept under a walk',
    bounds: { ...K3, slots: 2, fencers: 1, sweep: true, watermark: true },
    floor: [...walked, 'settle', 'delete'],
    slow: true,
  },
  {
    name: 'watermarks, poison ahead of the walk',
    bounds: { ...K3, slots: 2, fencers: 1, barrier: true, watermark: true },
    floor: [...walked, 'barrier'],
    slow: true,
  },
  {
    name: 'watermarks, one bucket is wiped',
    bounds: {
      ...K3,
      slots: 2,
      fencers: 1,
      wipe: true,
      writerChecksIdentity: true,
      watermark: true,
    },
    floor: [...walked, 'wipe'],
    slow: true,
  },
  {
    name: 'poison ahead of the walk',
    bounds: { ...K3, slots: 2, fencers: 1, barrier: true },
    floor: [...walked, 'barrier'],
    slow: true,
  },
  {
    name: 'poison ahead of two walks',
    bounds: { ...K3, slots: 1, fencers: 2, barrier: true },
    floor: [...walked, 'barrier', 'recorded', 'conflict'],
    slow: true,
  },
  {
    name: 'barriers of the fence itself',
    bounds: { buckets: 2, copies: 2, window: 1, slots: 4, fencers: 1 },
    live: true,
    floor: [...walked, 'barrier', 'outran'],
  },
  {
    name: 'settled and swept under a walk',
    bounds: { ...K3, slots: 1, fencers: 2, sweep: true },
    floor: [...walked, 'settle', 'delete', 'adopt'],
  },
  {
    name: 'two slots, settled and swept under a walk',
    bounds: { ...K3, slots: 2, fencers: 1, sweep: true },
    floor: [...walked, 'settle', 'delete'],
  },
  {
    name: 'one bucket does not answer',
    bounds: { ...K3, slots: 2, fencers: 1, deaf: 1 },
    floor: [...walked, 'lost', 'lost answer', 'undecided'],
  },
  {
    name: 'two buckets do not answer',
    bounds: { ...K3, slots: 1, fencers: 1, deaf: 3 },
    floor: [...walked, 'lost', 'lost answer', 'undecided', 'reread'],
  },
  {
    name: 'two fencers, one bucket does not answer',
    bounds: { ...K3, slots: 1, fencers: 2, deaf: 1 },
    floor: [...walked, 'undecided'],
    slow: true,
  },
  {
    name: 'one bucket is wiped',
    bounds: { ...K3, slots: 2, fencers: 1, wipe: true, writerChecksIdentity: true },
    floor: [...walked, 'wipe'],
    slow: true,
  },
  {
    name: 'two fencers, one bucket is wiped',
    bounds: { ...K3, slots: 1, fencers: 2, wipe: true, writerChecksIdentity: true },
    floor: [...walked, 'wipe', 'recorded', 'undecided'],
    slow: true,
  },
  {
    name: 'one bucket is wiped, another does not answer',
    bounds: { ...K3, slots: 1, fencers: 1, wipe: true, writerChecksIdentity: true, deaf: 1 },
    floor: [...walked, 'wipe', 'undecided'],
  },
];

export const BREAKING: readonly ModelCase[] = [
  {
    name: 'blocking set one too small',
    bounds: { ...K3, slots: 1, fencers: 1 },
    rules: blocking,
    breaks: /F1/,
  },
  {
    name: 'walk starts one slot too high',
    bounds: { ...K3, slots: 2, fencers: 1 },
    rules: { startOf: (highest, window) => highest - window + 2 },
    breaks: /F4|F3|F1/,
  },
  {
    name: 'poison counts as evidence of lower slots',
    bounds: { ...K3, slots: 2, fencers: 1, barrier: true },
    rules: { probeCounts: (cell) => cell === 2 || cell === 3 },
    tuning: { exponents: 1 },
    breaks: /F4|F1/,
    slow: true,
  },
  {
    name: 'cut published without asking for the checkpoint again',
    bounds: { ...K1, slots: 3, fencers: 1, trim: true },
    revalidates: false,
    breaks: /F1/,
  },
  {
    name: 'identity never asked',
    bounds: { ...K3, slots: 1, fencers: 1, wipe: true, writerChecksIdentity: true },
    rules: { identity: 'never' },
    breaks: /F1/,
  },
  {
    name: 'identity asked once, before the walk',
    bounds: { ...K3, slots: 1, fencers: 1, wipe: true, writerChecksIdentity: true, deaf: 1 },
    rules: { identity: 'before' },
    breaks: /F1/,
  },
  {
    name: 'identity asked for poison alone: copies in an emptied bucket count',
    bounds: { ...K3, slots: 1, fencers: 2, wipe: true, writerChecksIdentity: true },
    rules: { identity: 'poison' },
    breaks: /F3/,
    slow: true,
  },
  {
    name: 'writer counts copies in a bucket whose identity is gone',
    bounds: { ...K3, slots: 1, fencers: 1, wipe: true },
    breaks: /F1/,
  },
];

export interface CaseOutcome {
  readonly run: Exploration;
  /** Why the case is not what it must be; undefined when it is. */
  readonly problem: string | undefined;
}

export function runCase(each: ModelCase): CaseOutcome {
  const { bounds, breaks, floor = [] } = each;
  const space = new FencerSpace({
    quorum: { buckets: bounds.buckets, copies: bounds.copies },
    window: bounds.window,
    own: each.live !== true,
    options: {
      rules: { ...FENCE_RULES, ...each.rules },
      tuning: { ...NARROW, ...each.tuning },
    },
    revalidates: each.revalidates ?? true,
  });
  const run = explore(new ModelWorld(bounds, space), { statesMax: each.statesMax ?? STATES_MAX });
  if (breaks !== undefined) {
    const fits = run.verdict === 'breaks' && breaks.test(run.violation ?? '');
    return { run, problem: fits ? undefined : `must break with ${breaks}: ${run.verdict}` };
  }
  if (run.verdict !== 'holds') {
    return {
      run,
      problem: `${run.verdict}: ${run.violation ?? ''} ${run.trace?.join(' > ') ?? ''}`,
    };
  }
  const missing = floor.filter((what) => !run.reached.has(what));
  return { run, problem: missing.length === 0 ? undefined : `never met: ${missing.join(', ')}` };
}

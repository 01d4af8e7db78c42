/** Visits every state that can be reached and checks it; breadth first, so that a trace is shortest. */
import { Violation } from './fencer.ts';
import { StateSet } from './state-set.ts';
import type { ModelWorld } from './world.ts';

export interface Exploration {
  readonly verdict: 'holds' | 'breaks' | 'unfinished';
  /** What broke, and the steps that lead there. */
  readonly violation?: string;
  readonly trace?: readonly string[];
  readonly states: number;
  readonly fencerStates: number;
  /** How often each kind of step and each situation of a walk was met. */
  readonly reached: ReadonlyMap<string, number>;
  readonly millis: number;
}

export interface ExploreOptions {
  readonly statesMax: number;
}

export function explore(world: ModelWorld, options: ExploreOptions): Exploration {
  const begunAt = process.hrtime.bigint();
  const set = new StateSet();
  const reached = new Map<string, number>();
  const parents: number[] = [];
  const labels: string[] = [];
  let visited = 0;
  let successors = 0;
  const end = (verdict: Exploration['verdict'], violation?: string): Exploration => {
    for (const [what, count] of world.space.reached) reached.set(what, count);
    return {
      verdict,
      ...(violation === undefined
        ? {}
        : { violation, trace: traceTo(parents, labels, visited - 1) }),
      states: visited,
      fencerStates: world.space.size,
      reached,
      millis: Number((process.hrtime.bigint() - begunAt) / 1_000_000n),
    };
  };
  const emit = (label: string, a: number, b: number, c: number, d: number): void => {
    successors++;
    reached.set(label, (reached.get(label) ?? 0) + 1);
    if (!set.add(a, b, c, d)) return;
    parents.push(visited - 1);
    labels.push(label);
  };
  try {
    world.initial(emit);
    while (visited < set.size) {
      if (visited === options.statesMax) return end('unfinished');
      const state = visited++;
      const [a, b] = [set.int(state, 0), set.int(state, 1)];
      const [c, d] = [set.int(state, 2), set.int(state, 3)];
      world.check(a, b);
      successors = 0;
      world.successors(a, b, c, d, emit);
      if (successors === 0 && !world.isOver(c, d)) throw new Violation('a fencer is stuck');
    }
    return end('holds');
  } catch (error) {
    if (error instanceof Violation) return end('breaks', error.message);
    throw error;
  }
}

function traceTo(parents: readonly number[], labels: readonly string[], state: number): string[] {
  const steps: string[] = [];
  for (let at = state; at >= 0; at = parents[at]!) steps.unshift(labels[at]!);
  return steps;
}

/**
 * Visits every state of a model whose states are plain values, and checks each; breadth first, so
 * that a trace is shortest. The fence has an explorer of its own (explore.ts), whose states are numbers.
 */

/** A rule that does not hold; the explorer adds how it came about. */
export class BrokenRule extends Error {}

export interface Space<S> {
  initial(): S;
  /** Equal for states that cannot be told apart. */
  key(state: S): string;
  /** Every step that is possible. Throws `BrokenRule` when a step itself breaks a rule. */
  successors(state: S, emit: (label: string, next: S) => void): void;
  /** Throws `BrokenRule` when the state breaks a rule. */
  check(state: S): void;
}

export interface StatesRun {
  readonly verdict: 'holds' | 'breaks' | 'unfinished';
  readonly violation?: string;
  readonly trace?: readonly string[];
  readonly states: number;
  /** How often each kind of step was met: the label up to its first space. */
  readonly reached: ReadonlyMap<string, number>;
  readonly millis: number;
}

export function exploreStates<S>(space: Space<S>, statesMax: number): StatesRun {
  const begunAt = process.hrtime.bigint();
  const known = new Map<string, number>();
  const parents: number[] = [];
  const labels: string[] = [];
  const reached = new Map<string, number>();
  let frontier: S[] = [];
  let next: S[] = [];
  let from = -1;
  let visited = 0;
  const emit = (label: string, state: S): void => {
    const kind = label.split(' ', 1)[0]!;
    reached.set(kind, (reached.get(kind) ?? 0) + 1);
    const key = space.key(state);
    if (known.has(key)) return;
    known.set(key, parents.length);
    parents.push(from);
    labels.push(label);
    next.push(state);
  };
  const end = (verdict: StatesRun['verdict'], violation?: string): StatesRun => ({
    verdict,
    ...(violation === undefined ? {} : { violation, trace: traceTo(parents, labels, visited - 1) }),
    states: visited,
    reached,
    millis: Number((process.hrtime.bigint() - begunAt) / 1_000_000n),
  });
  emit('begin', space.initial());
  try {
    while (next.length > 0) {
      frontier = next;
      next = [];
      for (const state of frontier) {
        if (visited === statesMax) return end('unfinished');
        from = visited++;
        space.check(state);
        space.successors(state, emit);
      }
    }
    return end('holds');
  } catch (error) {
    if (error instanceof BrokenRule) return end('breaks', error.message);
    throw error;
  }
}

function traceTo(parents: readonly number[], labels: readonly string[], state: number): string[] {
  const steps: string[] = [];
  for (let at = state; at > 0; at = parents[at]!) steps.unshift(labels[at]!);
  return steps;
}

/** What a client does next. The first three are the workflows of the public tool's collector. */
import type { Prng } from '../../src/lib/prng.ts';

export const WORKFLOWS = ['regular', 'match-seq-num', 'fencing', 'mixed'] as const;
export type Workflow = (typeof WORKFLOWS)[number];

export interface AppendIntent {
  readonly kind: 'append' | 'fence';
  /** Asks for the number that the client takes for the next one. */
  readonly matches: boolean;
  /** Gives the token that the client would install. */
  readonly givesToken: boolean;
}

export type Intent = { readonly kind: 'read' } | { readonly kind: 'checkTail' } | AppendIntent;

/** A client under `fencing` tries to install its token once in this many operations, and at first. */
const FENCE_EVERY = 10;

export function intentOf(workflow: Workflow, index: number, prng: Prng): Intent {
  if (workflow === 'fencing' && index % FENCE_EVERY === 0) {
    return { kind: 'fence', matches: true, givesToken: false };
  }
  const draw = prng.below(10);
  if (draw < 3) return { kind: 'read' };
  if (draw < 5) return { kind: 'checkTail' };
  const append: AppendIntent = { kind: 'append', matches: false, givesToken: false };
  switch (workflow) {
    case 'regular':
      return append;
    case 'match-seq-num':
      return { ...append, matches: true };
    case 'fencing':
      return { ...append, givesToken: true };
    case 'mixed':
      if (prng.chance(0.15)) return { kind: 'fence', matches: prng.chance(0.5), givesToken: false };
      return { ...append, matches: prng.chance(0.3), givesToken: prng.chance(0.3) };
  }
}

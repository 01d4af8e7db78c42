/** Every mutant. How to add one: mutant.ts. */
import { APPEND_MUTANTS } from './append.ts';
import { FENCE_MUTANTS } from './fence.ts';
import { IDENTITY_MUTANTS } from './identity.ts';
import { LEADERSHIP_MUTANTS } from './leadership.ts';
import { MODEL_MUTANTS } from './model.ts';
import type { Mutant } from './mutant.ts';
import { ROW_MUTANTS } from './rows.ts';
import { SERVING_MUTANTS } from './serving.ts';

export const MUTANTS: readonly Mutant[] = [
  ...APPEND_MUTANTS,
  ...FENCE_MUTANTS,
  ...IDENTITY_MUTANTS,
  ...ROW_MUTANTS,
  ...LEADERSHIP_MUTANTS,
  ...SERVING_MUTANTS,
  ...MODEL_MUTANTS,
];

/** Breaks that are wanted and cannot be made: what they would break does not exist, or decides nothing. */
export const NOT_YET: readonly { readonly what: string; readonly why: string }[] = [
  {
    what: 'a target is deleted although an index page names it, or by its record alone',
    why: 'targets, index pages and their abort come with generations; so do their models and floors',
  },
  {
    what: 'flights are deleted before the checkpoint that passes them is durable',
    why: 'only generations delete flights below a checkpoint; the model plays it for a fence (P)',
  },
  {
    what: 'a walk takes a bucket that does not answer for an empty one',
    why: 'absence decides nothing in a walk: it chooses what is tried, and poison counts by the answer of its bucket; where an absence does decide, in a confirmation, the break is a mutant (L1)',
  },
  {
    what: 'a break of bucket identity that a storm kills',
    why: 'storms wipe no bucket: a wipe is for ever, and beside an outage a fence may rightly stay undecided for ever, so that nothing could be asked of the end; scripts wipe buckets (identity-scripts.ts), the model empties one at every step',
  },
];

/** Bucket identity: what a bucket says counts only while it shows that it is the one of the set. */
import type { Mutant } from './mutant.ts';
import { wipedBeforeTheAnswer, wipedBucketAndOneAway } from './identity-scripts.ts';

export const IDENTITY_MUTANTS: readonly Mutant[] = [
  {
    name: 'a bucket counts as confirmed whatever it shows',
    invariant: 'F1',
    edits: [
      {
        file: 'actors/bucket-set.ts',
        find: "    return 'lost';\n",
        replace: "    return 'confirmed';\n",
      },
    ],
    killer: { by: 'script', script: wipedBucketAndOneAway },
  },
  {
    name: 'a fence takes every bucket for confirmed that answers',
    invariant: 'F1',
    edits: [
      {
        file: 'actors/slot-observer.ts',
        find: 'if (!this.#isOver) this.#verdicts[bucket] = verdict;',
        replace:
          "if (!this.#isOver) this.#verdicts[bucket] = verdict === 'unknown' ? verdict : 'confirmed';",
      },
    ],
    killer: { by: 'script', script: wipedBucketAndOneAway },
  },
  {
    name: 'a writer counts copies without asking for the identity of their bucket',
    invariant: 'A1',
    edits: [
      {
        file: 'actors/slot-copies.ts',
        find: "if (settled?.kind === 'stored') return await counted(ports, task);",
        replace: "if (settled?.kind === 'stored') return settled;\n    void counted;",
      },
    ],
    killer: { by: 'script', script: wipedBeforeTheAnswer },
  },
];

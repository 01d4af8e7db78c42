/** Classify (C), fence (F) and publish (P). */
import { othersBlind } from '../sim/lies.ts';
import type { Mutant } from './mutant.ts';
import { meetPoison } from './append-scripts.ts';
import {
  barrierOfTheDead,
  checkpointUnderAWalk,
  crashWithAHole,
  crashWithOneCopy,
  foreignFlightAboveTheEnd,
  poisonWithoutAnAnswer,
  twoFencersAtOnce,
  twoFencersOverAFlightUnderWay,
} from './fence-scripts.ts';

const RULES = 'src/protocol/fence-state.ts';
const SLOT = 'src/protocol/slot.ts';
const CLAIM = 'src/protocol/fence-claim.ts';
const PUBLISHER = 'actors/cut-publisher.ts';
const PUBLICATION = 'src/protocol/publication.ts';

const CUT = 'return { cut: slot, released: releasedBy';

export const FENCE_MUTANTS: readonly Mutant[] = [
  {
    name: 'a slot with a flight is poisoned instead of repaired',
    invariant: 'C',
    edits: [
      {
        file: SLOT,
        find: 'return flights > 0 ? repairOf(buckets, seen) : POISON_AT[firstEmpty]!;',
        replace: 'return flights > buckets ? repairOf(buckets, seen) : POISON_AT[firstEmpty]!;',
      },
    ],
    killer: { by: 'script', script: crashWithOneCopy },
  },
  {
    name: 'the blocking set is one bucket too small',
    invariant: 'F1',
    edits: [
      {
        file: SLOT,
        find: 'if (poisons > buckets - copies) return DEAD;',
        replace: 'if (poisons >= Math.max(1, buckets - copies)) return DEAD;',
      },
    ],
    killer: { by: 'storm', seedsMax: 60, when: ({ buckets, copies }) => buckets > copies },
  },
  {
    name: 'a bucket that does not answer counts as poisoned',
    invariant: 'F1',
    edits: [
      {
        file: 'actors/slot-observer.ts',
        find: "if (outcome.kind === 'unknown') return;\n",
        replace: [
          "if (outcome.kind === 'unknown') {",
          '  board.cells[bucket] = POISON;',
          '  if (board.note(POISON)) this.#unforced--;',
          '  return;',
          '}',
          '',
        ].join('\n'),
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'poison whose answer was lost counts as poison',
    invariant: 'F1',
    edits: [
      {
        file: 'src/protocol/fence.ts',
        find: "if (outcome === 'failed') row = { ...row, avoid: row.avoid | (1 << bucket) };",
        replace: [
          "if (outcome === 'failed' && !isRepair) row = withCell(row, bucket, SEEN_POISON);",
          "  else if (outcome === 'failed') row = { ...row, avoid: row.avoid | (1 << bucket) };",
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: poisonWithoutAnAnswer },
  },
  {
    name: 'the cut is published one slot low',
    invariant: 'F1',
    edits: [
      {
        file: CLAIM,
        find: CUT,
        replace: CUT.replace('slot', 'Math.max(low - window + 1, slot - 1, 0)'),
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'a sweep deletes the last slot below the cut',
    invariant: 'F1',
    edits: [
      {
        file: 'src/protocol/settlement.ts',
        find: "return { kind: 'sweep', from: cut, to: cut + window + 1 };",
        replace: "return { kind: 'sweep', from: Math.max(0, cut - 1), to: cut + window + 1 };",
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'a sweep takes poison away as well',
    invariant: 'F1',
    edits: [
      {
        file: 'src/protocol/settlement.ts',
        find: "return found.kind === 'flight';",
        replace: "return found.kind === 'flight' || found.kind === 'poison';",
      },
    ],
    killer: { by: 'storm', seedsMax: 60 },
  },
  {
    name: 'a writer takes poison for the own copy',
    invariant: 'F2',
    edits: [
      {
        file: 'actors/slot-copies.ts',
        find: "if (object.kind !== 'flight') return { kind: 'lost', found: object.kind };",
        replace: [
          "if (object.kind === 'poison') return { kind: 'stored' };",
          "if (object.kind !== 'flight') return { kind: 'lost', found: object.kind };",
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: meetPoison, options: { mutate: othersBlind } },
  },
  {
    name: 'a roll acknowledges the slot at the cut as well',
    invariant: 'F2',
    edits: [
      { file: 'actors/epoch-writer.ts', find: 'if (slot < cut) {', replace: 'if (slot <= cut) {' },
    ],
    killer: { by: 'script', script: meetPoison, options: { mutate: othersBlind } },
  },
  {
    name: 'the writer takes its watermark for the cut of its epoch',
    invariant: 'F3',
    edits: [
      {
        file: CLAIM,
        find: 'export function claimOf({ slot,',
        replace: 'export function claimOf({ own, slot,',
      },
      { file: CLAIM, find: CUT, replace: CUT.replace('slot', 'own ? released : slot') },
    ],
    killer: {
      by: 'script',
      script: twoFencersOverAFlightUnderWay,
      options: { mutate: othersBlind },
    },
  },
  {
    name: 'the cut is published one slot high',
    invariant: 'F4',
    edits: [{ file: CLAIM, find: CUT, replace: CUT.replace('slot', 'slot + 1') }],
    killer: { by: 'storm', seedsMax: 20 },
  },
  {
    name: 'the walk starts above the highest flight seen',
    invariant: 'F4',
    edits: [
      {
        file: RULES,
        find: 'startOf: (highest, window) => highest - window + 1,',
        replace: 'startOf: (highest) => highest + 1,',
      },
    ],
    killer: { by: 'script', script: crashWithAHole },
  },
  {
    name: 'a probe takes poison for a flight',
    invariant: 'F4',
    edits: [
      {
        file: RULES,
        find: 'probeCounts: (cell) => cell === FLIGHT,',
        replace: 'probeCounts: (cell) => cell === FLIGHT || cell === 3,',
      },
    ],
    killer: { by: 'script', script: barrierOfTheDead },
  },
  {
    name: 'a fence takes the flight of another writer for one of the epoch',
    invariant: 'F4',
    edits: [
      {
        file: 'src/format/slot-object.ts',
        find: "return { kind: preamble.nonce === expected.nonce ? 'flight' : 'foreign', preamble };",
        replace: "return { kind: 'flight', preamble };",
      },
    ],
    killer: { by: 'script', script: foreignFlightAboveTheEnd },
  },
  {
    name: 'a cut is written over the one that stands',
    invariant: 'P',
    edits: [
      {
        file: PUBLICATION,
        find: "if (record.cut === claim.cut) return { kind: 'recorded', cut: record.cut };",
        replace: "if (record.cut === claim.cut) return { kind: 'publish' };",
      },
    ],
    killer: { by: 'script', script: twoFencersAtOnce, options: { mutate: othersBlind } },
  },
  {
    name: 'a cut is written without the version under which the record was read',
    invariant: 'P',
    edits: [
      {
        file: PUBLISHER,
        find: '      { key: this.#key, expected: version, encode },',
        replace: [
          '      {',
          '        key: this.#key,',
          '        expected: (await metastore.get(this.#key, { signal }))?.version ?? version,',
          '        encode,',
          '      },',
        ].join('\n'),
      },
    ],
    killer: { by: 'script', script: checkpointUnderAWalk, options: { mutate: othersBlind } },
  },
];

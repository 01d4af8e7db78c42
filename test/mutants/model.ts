/** Variations of rules that the model drives, and breaks of pure functions that it explores. */
import type { Mutant } from './mutant.ts';

function variation(invariant: string, model: string): Mutant {
  return { name: `in the model: ${model}`, invariant, edits: [], killer: { by: 'model', model } };
}

export const MODEL_MUTANTS: readonly Mutant[] = [
  variation('F1', 'blocking set one too small'),
  variation('F4', 'walk starts one slot too high'),
  variation('F4', 'poison counts as evidence of lower slots'),
  variation('P', 'cut published without asking for the checkpoint again'),
  variation('F1', 'identity never asked'),
  variation('F1', 'identity asked once, before the walk'),
  variation('F3', 'identity asked for poison alone: copies in an emptied bucket count'),
  variation('A1', 'writer counts copies in a bucket whose identity is gone'),
  variation('T1', 're-opened by reading the own tenure'),
  variation('T1', 'writer is named before the acknowledgement only'),
  variation('T1', 'no CAS after a roll'),
  variation('N', 'Finish drops PUTs that failed'),
  variation('T1', 'the mark is not consumed'),
  variation('T6', 'writer is written blindly'),
  variation('T6', 'a superseded epoch is not fenced'),
  variation('R3', 'a rolled stream goes on before its rows reach the cut'),
  variation('S4', 'a younger epoch is settled over a gap'),
  variation('S4', 'rows are written above a gap'),
  variation('L1', 'a confirmation older than its request'),
  variation('L1', "a confirmation in the star's newest epoch"),
  variation('L2', 'served after a released CAS was sent'),
  variation('L1', 'a live lease counts as a confirmation'),
  variation('L1', 'a wave counts a silent bucket as clean'),
  variation('L1', 'a wave counts what it finds as clean'),
  variation('L1', 'a flight that was sent again counts'),
  variation('S2', 'rows continued from the own key'),
  variation('S4', 'rows above a gap'),
  variation('S2', 'the last row is removed'),
];

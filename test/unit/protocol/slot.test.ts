import { describe, expect, it } from 'vitest';
import {
  classify,
  CORRUPT,
  EMPTY,
  FLIGHT,
  markOddCopies,
  POISON,
  UNKNOWN,
  type SlotClass,
} from '../../../src/protocol/slot.ts';

const LETTERS = { '?': UNKNOWN, '.': EMPTY, f: FLIGHT, p: POISON, x: CORRUPT } as const;
type Letter = keyof typeof LETTERS;

function seenOf(cells: string): Uint8Array {
  return Uint8Array.from(cells, (letter) => LETTERS[letter as Letter]);
}

function* allCells(buckets: number): Iterable<string> {
  if (buckets === 0) yield '';
  else for (const rest of allCells(buckets - 1)) for (const letter of '?.fpx') yield rest + letter;
}

/** The four rules as the design words them, with nothing shared with the product. */
function expected(cells: string, copies: number): SlotClass {
  const count = (letter: Letter): number => cells.split(letter).length - 1;
  const empties = cells.split('').flatMap((letter, bucket) => (letter === '.' ? [bucket] : []));
  if (count('f') >= copies) return { kind: 'committed' };
  if (count('p') >= cells.length - copies + 1) return { kind: 'dead' };
  if (count('f') > 0 && empties.length > 0) return { kind: 'repair', empty: empties };
  if (empties.length > 0) return { kind: 'poison', bucket: empties[0]! };
  return { kind: 'undecided' };
}

describe('classification of a slot', () => {
  for (let buckets = 1; buckets <= 5; buckets++) {
    for (let copies = 1; copies <= buckets; copies++) {
      it(`follows the rules for every combination at K=${buckets} W=${copies}`, () => {
        for (const cells of allCells(buckets)) {
          expect(classify({ buckets, copies }, seenOf(cells)), cells).toEqual(
            expected(cells, copies),
          );
        }
      });

      it(`never takes a terminal class back at K=${buckets} W=${copies}`, () => {
        for (const cells of allCells(buckets)) {
          const { kind } = classify({ buckets, copies }, seenOf(cells));
          if (kind !== 'committed' && kind !== 'dead') continue;
          for (const letter of '.fpx') {
            const later = cells.replaceAll('?', letter);
            expect(classify({ buckets, copies }, seenOf(later)).kind, later).toBe(kind);
          }
        }
      });
    }
  }

  it('decides with buckets that have not answered yet', () => {
    expect(classify({ buckets: 3, copies: 2 }, seenOf('ff?')).kind).toBe('committed');
    expect(classify({ buckets: 3, copies: 2 }, seenOf('?pp')).kind).toBe('dead');
    expect(classify({ buckets: 3, copies: 2 }, seenOf('f?p')).kind).toBe('undecided');
  });

  it('counts damage neither as flight nor as poison nor as absence', () => {
    expect(classify({ buckets: 3, copies: 2 }, seenOf('fxp')).kind).toBe('undecided');
    expect(classify({ buckets: 1, copies: 1 }, seenOf('x')).kind).toBe('undecided');
  });

  it('ignores bytes beyond the buckets', () => {
    expect(classify({ buckets: 1, copies: 1 }, seenOf('.ff')).kind).toBe('poison');
  });

  it('reaches all sixteen buckets', () => {
    const quorum = { buckets: 16, copies: 9 };
    expect(classify(quorum, seenOf(`${'p'.repeat(7)}?${'.'.repeat(8)}`))).toEqual({
      kind: 'poison',
      bucket: 8,
    });
    expect(classify(quorum, seenOf('p'.repeat(8) + '?'.repeat(8))).kind).toBe('dead');
  });
});

describe('copies of one slot that differ', () => {
  const marked = (cells: string, prints: number[], copies: number): string => {
    const codes = seenOf(cells);
    markOddCopies({ buckets: cells.length, copies }, codes, prints);
    return [...codes].map((code) => '?.fpx'.charAt(code)).join('');
  };

  it('stay as they are when they agree', () => {
    expect(marked('f.f', [5, 0, 5], 2)).toBe('f.f');
    expect(marked('f..', [5, 0, 0], 2)).toBe('f..');
  });

  it('leave W identical ones and mark the odd one corrupt', () => {
    expect(marked('fff', [5, 6, 5], 2)).toBe('fxf');
    expect(marked('ffpf', [6, 5, 0, 5], 2)).toBe('xfpf');
  });

  it('are all corrupt when nobody can tell which is right', () => {
    expect(marked('ff.', [5, 6, 0], 2)).toBe('xx.');
    expect(marked('ffff.', [5, 5, 6, 6, 0], 3)).toBe('xxxx.');
  });

  it('do not confuse stale fingerprints of other cells with flights', () => {
    expect(marked('pf.', [6, 5, 7], 1)).toBe('pf.');
  });
});

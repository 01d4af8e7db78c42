import { describe, expect, it } from 'vitest';
import {
  bar,
  pairs,
  SLOT_MARKS,
  slotGrid,
  slotLegend,
  sparkline,
  table,
  type SlotMark,
} from '../../../src/cli/drawing.ts';

describe('table', () => {
  it('lines columns up without trailing spaces', () => {
    const columns = [
      { title: 'NAME' },
      { title: 'COUNT', align: 'right' as const },
      { title: 'X' },
    ];
    expect(
      table(columns, [
        ['orders', '7', ''],
        ['a', '12,345', 'y'],
      ]),
    ).toEqual(['NAME     COUNT  X', 'orders       7', 'a       12,345  y']);
  });

  it('puts names before values', () => {
    expect(
      pairs([
        ['lost', '0'],
        ['duplicated', '12'],
      ]),
    ).toEqual(['  lost        0', '  duplicated  12']);
  });
});

describe('sparkline and bar', () => {
  it('scales to the greatest of the last values', () => {
    expect(sparkline([100, 0, 1, 2, 4, 8], 5, 'unicode')).toBe('▁▂▃▅█');
    expect(sparkline([0, 8], 5, 'ascii')).toBe('_#');
    expect(sparkline([0, 0], 5, 'ascii')).toBe('__');
    expect(sparkline([], 5, 'ascii')).toBe('');
  });

  it('fills a share', () => {
    expect(bar(0.5, 4, 'ascii')).toBe('##..');
    expect(bar(2, 3, 'unicode')).toBe('███');
    expect(bar(-1, 3, 'unicode')).toBe('░░░');
  });
});

describe('slot grid', () => {
  const marks = (text: string): SlotMark[] =>
    Array.from(text, (char) => {
      const found = Object.entries(SLOT_MARKS).find(([, style]) => style.ascii === char);
      return found![0] as SlotMark;
    });

  it('has one distinct character a mark in both character sets', () => {
    for (const charset of ['ascii', 'unicode'] as const) {
      const used = Object.entries(SLOT_MARKS)
        .filter(([mark]) => mark !== 'undecided')
        .map(([, style]) => style[charset]);
      expect(new Set(used).size).toBe(used.length);
    }
  });

  it('starts every row with its first slot', () => {
    expect(slotGrid(96, marks('########r##X'), { width: 14, charset: 'ascii' })).toEqual([
      ' 96  ########',
      '104  r##X',
    ]);
    expect(slotGrid(0, [], { width: 14, charset: 'ascii' })).toEqual([]);
  });

  it('lets the worst of several slots stand for all of them', () => {
    const many = marks(`${'#'.repeat(50)}r${'#'.repeat(50)}X`);
    expect(slotGrid(0, many, { width: 14, charset: 'ascii', maxRows: 2 })).toEqual([
      '  0  #######r',
      ' 56  ######X',
      'one cell = 7 slots',
    ]);
  });

  it('explains the marks in use only', () => {
    const legend = (width: number): string[] =>
      slotLegend(marks('#rX#'), { charset: 'ascii', width });
    expect(legend(80)).toEqual(['# committed   r repaired   X dead: the cut']);
    expect(legend(30)).toEqual(['# committed   r repaired', 'X dead: the cut']);
    expect(legend(5)).toHaveLength(3);
  });
});

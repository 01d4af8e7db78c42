/** Text drawings: tables, bars, sparklines and the grid of slots. Pure, so that tests compare strings. */
import type { SlotVerdict, SlotView } from '../engine/api.ts';

/** Colours by what they say; a terminal without colour returns the text unchanged. */
export interface Paint {
  good(text: string): string;
  warn(text: string): string;
  bad(text: string): string;
  dim(text: string): string;
  strong(text: string): string;
}

const same = (text: string): string => text;
export const NO_PAINT: Paint = { good: same, warn: same, bad: same, dim: same, strong: same };

export interface Column {
  readonly title: string;
  /** Numbers stand right, so that digits line up. */
  readonly align?: 'left' | 'right';
}

/** Columns apart by two spaces; no frame, so that `cut` and `awk` can work with the lines. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  paint: Paint = NO_PAINT,
): string[] {
  const widths = columns.map(({ title }, at) =>
    Math.max(title.length, ...rows.map((row) => (row[at] ?? '').length)),
  );
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ align }, at) => {
        const cell = cells[at] ?? '';
        return align === 'right' ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!);
      })
      .join('  ')
      .trimEnd();
  return [paint.dim(line(columns.map(({ title }) => title))), ...rows.map(line)];
}

/** Names and values under each other. */
export function pairs(entries: readonly (readonly [string, string])[], indent = '  '): string[] {
  const width = Math.max(0, ...entries.map(([name]) => name.length));
  return entries.map(([name, value]) => `${indent}${name.padEnd(width)}  ${value}`);
}

const SPARKS = { unicode: '▁▂▃▄▅▆▇█', ascii: '_.:-=+*#' } as const;
const BARS = { unicode: ['█', '░'], ascii: ['#', '.'] } as const;
export type Charset = 'unicode' | 'ascii';

/** One character a value, scaled from zero to the greatest; the last `width` values. */
export function sparkline(values: readonly number[], width: number, charset: Charset): string {
  const shown = values.slice(-width);
  const max = Math.max(0, ...shown);
  const levels = SPARKS[charset];
  return shown
    .map((value) => {
      const share = max === 0 ? 0 : Math.max(0, value) / max;
      return levels[Math.min(levels.length - 1, Math.floor(share * levels.length))]!;
    })
    .join('');
}

export function bar(share: number, width: number, charset: Charset): string {
  const [full, empty] = BARS[charset];
  const filled = Math.round(Math.min(1, Math.max(0, share)) * width);
  return full.repeat(filled) + empty.repeat(width - filled);
}

/** How a slot may look in a grid: a verdict of a fence, or what the records of the chain say. */
export type SlotMark = SlotVerdict | SlotView['verdict'] | 'settled' | 'unknown';

interface MarkStyle {
  readonly unicode: string;
  readonly ascii: string;
  readonly paint: keyof Paint;
  readonly meaning: string;
  /** The mark of a cell that stands for several slots: the greatest weight wins. */
  readonly weight: number;
}

export const SLOT_MARKS: Readonly<Record<SlotMark, MarkStyle>> = {
  unknown: { unicode: '·', ascii: '.', paint: 'dim', meaning: 'not looked at', weight: 0 },
  empty: { unicode: '□', ascii: '_', paint: 'dim', meaning: 'empty', weight: 1 },
  settled: { unicode: '▪', ascii: '=', paint: 'dim', meaning: 'committed, in rows', weight: 2 },
  committed: { unicode: '■', ascii: '#', paint: 'good', meaning: 'committed', weight: 3 },
  repaired: { unicode: '▒', ascii: 'r', paint: 'warn', meaning: 'repaired', weight: 5 },
  partial: { unicode: '▤', ascii: 'p', paint: 'warn', meaning: 'too few copies yet', weight: 4 },
  poisoned: { unicode: '×', ascii: 'x', paint: 'bad', meaning: 'poison', weight: 6 },
  undecided: { unicode: '?', ascii: '?', paint: 'warn', meaning: 'undecided', weight: 7 },
  dead: { unicode: '╳', ascii: 'X', paint: 'bad', meaning: 'dead: the cut', weight: 8 },
};

export interface GridOptions {
  /** Columns that may be used. */
  readonly width: number;
  readonly charset: Charset;
  readonly paint?: Paint;
  /** At most so many rows; beyond that a cell stands for several slots. */
  readonly maxRows?: number;
}

/**
 * Slots from `first` on, row by row with the number of the first slot before each row. Too many
 * slots share cells; such a cell shows the worst of its slots, so that nothing odd disappears.
 */
export function slotGrid(
  first: number,
  marks: readonly SlotMark[],
  options: GridOptions,
): string[] {
  if (marks.length === 0) return [];
  const { charset, paint = NO_PAINT, maxRows = 8 } = options;
  const numberWidth = (first + marks.length).toString().length;
  const columns = Math.max(8, Math.floor((options.width - numberWidth - 2) / 8) * 8);
  const perCell = Math.ceil(marks.length / (columns * maxRows));
  const lines: string[] = [];
  for (let at = 0; at < marks.length; at += columns * perCell) {
    let row = '';
    const end = Math.min(marks.length, at + columns * perCell);
    for (let cell = at; cell < end; cell += perCell) {
      const style = SLOT_MARKS[worst(marks.slice(cell, Math.min(end, cell + perCell)))];
      row += paint[style.paint](style[charset]);
    }
    lines.push(`${paint.dim((first + at).toString().padStart(numberWidth))}  ${row}`);
  }
  if (perCell > 1) lines.push(paint.dim(`one cell = ${perCell} slots`));
  return lines;
}

/** What the marks in use mean; more than one line where the width asks for it. */
export function slotLegend(marks: Iterable<SlotMark>, options: GridOptions): string[] {
  const { charset, paint = NO_PAINT, width } = options;
  const used = new Set(marks);
  const styles = Object.entries(SLOT_MARKS)
    .filter(([mark]) => used.has(mark as SlotMark))
    .map(([, style]) => style)
    .sort((a, b) => a.weight - b.weight);
  const lines: string[] = [];
  let columns = 0;
  for (const style of styles) {
    // Colours take no columns, so the width is counted before they are added.
    const entryColumns = style.meaning.length + 2;
    const entry = `${paint[style.paint](style[charset])} ${style.meaning}`;
    if (lines.length > 0 && columns + 3 + entryColumns <= width) {
      lines.push(`${lines.pop()!}   ${entry}`);
      columns += 3 + entryColumns;
    } else {
      lines.push(entry);
      columns = entryColumns;
    }
  }
  return lines;
}

function worst(marks: readonly SlotMark[]): SlotMark {
  return marks.reduce((a, b) => (SLOT_MARKS[b].weight > SLOT_MARKS[a].weight ? b : a));
}

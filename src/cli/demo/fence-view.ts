/** Draws the slots of an epoch while its fence walks. */
import type { FenceProgress } from '../../engine/api.ts';
import { slotGrid, slotLegend, type SlotMark } from '../drawing.ts';
import { formatMillis } from '../numbers.ts';
import { LiveBlock, type Terminal } from '../terminal.ts';

const MAX_ROWS = 6;
const INDENT = '  ';

export class FenceView {
  readonly #terminal: Terminal;
  readonly #live: LiveBlock;
  #epoch: number | undefined;
  #marks = new Map<number, SlotMark>();

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#live = new LiveBlock(terminal, { minMillis: 0 });
  }

  show(progress: FenceProgress): void {
    if (progress.epoch !== this.#epoch) {
      this.#epoch = progress.epoch;
      this.#marks = new Map();
    }
    for (const { slot, verdict } of progress.slots) this.#marks.set(slot, verdict);
    if (progress.phase === 'fenced') {
      this.#live.end(this.#lines(progress));
      this.#epoch = undefined;
    } else {
      this.#live.update(() => this.#lines(progress));
    }
  }

  #lines(progress: FenceProgress): string[] {
    const { charset, paint, width } = this.#terminal;
    const { epoch, phase, rounds, millis, cut } = progress;
    const rest = `${rounds} rounds, ${formatMillis(millis)}`;
    const title =
      cut === undefined
        ? `fence of epoch ${epoch}: ${phase}, slot ${progress.slot}, ${rest}`
        : `fence of epoch ${epoch}: cut at slot ${cut}, ${rest}`;
    const { first, marks } = this.#range();
    const options = { charset, paint, width: width() - INDENT.length, maxRows: MAX_ROWS };
    const drawing = [...slotGrid(first, marks, options), ...slotLegend(marks, options)];
    return [title, ...drawing.map((line) => INDENT + line)];
  }

  /** Everything between the lowest and the highest slot looked at. */
  #range(): { first: number; marks: SlotMark[] } {
    if (this.#marks.size === 0) return { first: 0, marks: [] };
    let first = Number.POSITIVE_INFINITY;
    let last = 0;
    for (const slot of this.#marks.keys()) {
      first = Math.min(first, slot);
      last = Math.max(last, slot);
    }
    const marks = Array.from(
      { length: last - first + 1 },
      (_, at) => this.#marks.get(first + at) ?? 'unknown',
    );
    return { first, marks };
  }
}

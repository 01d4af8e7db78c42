import { describe, expect, it } from 'vitest';
import {
  STALL_LOOK_MILLIS,
  STALL_MILLIS,
  watchProgress,
  type ProgressLook,
  type ProgressWatch,
  type StallVerdict,
} from '../../../src/protocol/stall.ts';

const waiting = (released: number, epoch = 0): ProgressLook => ({
  epoch,
  released,
  isWaiting: true,
});

/** Looks at regular times; answers the verdicts that were not `fine`, with their seconds. */
function verdicts(
  seconds: number,
  look: (second: number) => ProgressLook,
): [number, StallVerdict][] {
  let watch: ProgressWatch | undefined;
  const found: [number, StallVerdict][] = [];
  for (let at = 0; at <= seconds; at += STALL_LOOK_MILLIS / 1_000) {
    const next = watchProgress(watch, look(at), at * 1_000);
    watch = next.watch;
    if (next.verdict !== 'fine') found.push([at, next.verdict]);
  }
  return found;
}

describe('watchProgress', () => {
  it('rolls once after a minute without progress, and gives up after another', () => {
    expect(verdicts(125, () => waiting(7))).toEqual([
      [60, 'roll'],
      [120, 'give-up'],
      [125, 'give-up'],
    ]);
  });

  it('finds nothing wrong while slots are acknowledged, however slowly', () => {
    expect(verdicts(600, (second) => waiting(Math.floor(second / 55)))).toEqual([]);
  });

  it('finds nothing wrong while nothing waits', () => {
    expect(verdicts(600, () => ({ ...waiting(7), isWaiting: false }))).toEqual([]);
  });

  it('begins anew with a new epoch, and after progress', () => {
    const epochs = (second: number): ProgressLook => waiting(0, second < 90 ? 0 : 1);
    expect(verdicts(160, epochs)).toEqual([
      [60, 'roll'],
      [150, 'roll'],
    ]);
  });

  it('does not count time in which the process stood still', () => {
    const first = watchProgress(undefined, waiting(7), 0).watch;
    const { watch, verdict } = watchProgress(first, waiting(7), 30 * STALL_MILLIS);
    expect(verdict).toBe('fine');
    const soon = 30 * STALL_MILLIS + STALL_LOOK_MILLIS;
    expect(watchProgress(watch, waiting(7), soon).verdict).toBe('fine');
  });
});

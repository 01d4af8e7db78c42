/** What a demo found, as a document and as a table. */
import { pairs, type Paint } from '../drawing.ts';
import type { Throughput } from '../load/tally.ts';
import { isClean, type Verdict } from '../load/verifier.ts';
import { formatBytes, formatCount, formatMillis, rounded } from '../numbers.ts';

export interface FenceFigures {
  readonly epoch: number;
  readonly cut: number;
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  readonly repairs: number;
  readonly millis: number;
}

export interface DemoFigures {
  readonly root: string;
  readonly seconds: number;
  readonly throughput: Throughput;
  readonly kill: { readonly afterMillis: number; readonly unacknowledgedBatches: number };
  /** From SIGKILL until the next writer accepts records. */
  readonly restartMillis: number;
  readonly fence: FenceFigures;
  readonly verdict: Verdict;
  readonly readBackMillis: number;
}

export function demoPassed({ verdict }: DemoFigures): boolean {
  return isClean(verdict);
}

export function demoDocument(figures: DemoFigures): object {
  const { throughput, verdict, fence, kill } = figures;
  return {
    ok: demoPassed(figures),
    records: throughput.records,
    bytes: throughput.bodyBytes,
    lost: verdict.lost,
    duplicated: verdict.duplicated,
    outOfOrder: verdict.outOfOrder,
    altered: verdict.altered,
    torn: verdict.torn,
    mbPerSecond: rounded(throughput.mbPerSecond),
    ackP50Millis: rounded(throughput.ackP50Millis),
    ackP99Millis: rounded(throughput.ackP99Millis),
    fence: { ...fence, millis: rounded(fence.millis) },
    cut: fence.cut,
    kill: { ...kill, afterMillis: rounded(kill.afterMillis) },
    restartMillis: rounded(figures.restartMillis),
    readBack: {
      records: verdict.records,
      unacknowledged: verdict.unacknowledged,
      millis: rounded(figures.readBackMillis),
    },
    seconds: figures.seconds,
    root: figures.root,
  };
}

export function demoLines(figures: DemoFigures, paint: Paint): string[] {
  const { throughput, verdict, fence } = figures;
  const judged = (count: number): string =>
    count === 0 ? paint.good('0') : paint.bad(formatCount(count));
  return [
    ...pairs([
      ['records', `${formatCount(throughput.records)} (${formatBytes(throughput.bodyBytes)})`],
      ['MB/s', throughput.mbPerSecond.toFixed(1)],
      ['ack p50', formatMillis(throughput.ackP50Millis)],
      ['ack p99', formatMillis(throughput.ackP99Millis)],
      ['fence', `${fence.rounds} rounds, ${formatMillis(fence.millis)}, cut at slot ${fence.cut}`],
      ['repaired slots', formatCount(fence.repairs)],
      ['restart', formatMillis(figures.restartMillis)],
      ['read back', `${formatCount(verdict.records)} records`],
      ['  not acknowledged', formatCount(verdict.unacknowledged)],
      ['lost', judged(verdict.lost)],
      ['duplicated', judged(verdict.duplicated)],
      ['out of order', judged(verdict.outOfOrder)],
    ]),
    ...(verdict.altered === 0
      ? []
      : [paint.bad(`  ${formatCount(verdict.altered)} of the lost were altered`)]),
    ...(verdict.torn === 0
      ? []
      : [paint.bad(`  ${formatCount(verdict.torn)} records torn off their batch`)]),
    '',
    demoPassed(figures)
      ? paint.good('every acknowledged record was read back, once and in order')
      : paint.bad('acknowledged records are missing, doubled or in the wrong place'),
  ];
}

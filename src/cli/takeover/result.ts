/** What a takeover cost, as a document and as a table. */
import { pairs, type Paint } from '../drawing.ts';
import { isClean, type Verdict } from '../load/verifier.ts';
import { formatCount, formatMillis, rounded } from '../numbers.ts';
import type { TakeoverFigures } from './reports.ts';

export interface TakeoverResult {
  readonly root: string;
  readonly seconds: number;
  /** From SIGKILL until the survivor found the leader's lease to be over; NaN: it never did. */
  readonly detectionMillis: number;
  /** Of the survivor; undefined when it took over nothing. */
  readonly figures: TakeoverFigures | undefined;
  readonly longestStallMillis: number;
  readonly acknowledged: number;
  readonly verdict: Verdict;
  /** Records acknowledged under a number that was acknowledged before. */
  readonly reused: number;
  /** Producers that gave up. */
  readonly producerErrors: number;
  readonly retries: number;
  readonly tailChecks: number;
  readonly staleCheckTails: number;
}

export function takeoverPassed(result: TakeoverResult): boolean {
  return (
    isClean(result.verdict) &&
    result.reused + result.producerErrors + result.staleCheckTails === 0 &&
    Number.isFinite(result.detectionMillis) &&
    (result.figures?.streams ?? 0) > 0
  );
}

export function takeoverDocument(result: TakeoverResult): object {
  const { figures, verdict } = result;
  return {
    ok: takeoverPassed(result),
    detectionMillis: Number.isFinite(result.detectionMillis)
      ? rounded(result.detectionMillis)
      : null,
    fenceMillis: rounded(figures?.fenceMillis ?? 0),
    settleMillis: rounded(figures?.settleMillis ?? 0),
    openMillis: rounded(figures?.openMillis ?? 0),
    roundTripsAfterDetection: figures?.roundTrips ?? 0,
    streamsTakenOver: figures?.streams ?? 0,
    longestStallMillis: rounded(result.longestStallMillis),
    acknowledged: result.acknowledged,
    lost: verdict.lost,
    reused: result.reused,
    duplicated: verdict.duplicated,
    outOfOrder: verdict.outOfOrder,
    producerErrors: result.producerErrors,
    retries: result.retries,
    checkTails: result.tailChecks,
    staleCheckTails: result.staleCheckTails,
    seconds: result.seconds,
    root: result.root,
  };
}

export function takeoverLines(result: TakeoverResult, paint: Paint): string[] {
  const { figures, verdict } = result;
  const judged = (count: number): string =>
    count === 0 ? paint.good('0') : paint.bad(formatCount(count));
  return [
    ...pairs([
      ['detected after', formatMillis(result.detectionMillis)],
      ['fence', formatMillis(figures?.fenceMillis ?? 0)],
      ['settlement', formatMillis(figures?.settleMillis ?? 0)],
      ['open, all in all', formatMillis(figures?.openMillis ?? 0)],
      ['round trips', formatCount(figures?.roundTrips ?? 0)],
      ['streams taken over', formatCount(figures?.streams ?? 0)],
      ['longest stall', formatMillis(result.longestStallMillis)],
      ['acknowledged', `${formatCount(result.acknowledged)} records`],
      ['lost', judged(verdict.lost)],
      ['numbers reused', judged(result.reused)],
      ['out of order', judged(verdict.outOfOrder + verdict.duplicated)],
      ['producers failed', judged(result.producerErrors)],
      ['stale tails', `${judged(result.staleCheckTails)} of ${formatCount(result.tailChecks)}`],
    ]),
    '',
    takeoverPassed(result)
      ? paint.good('the other process took over; nothing was lost and no producer failed')
      : paint.bad('the takeover did not go as it must'),
  ];
}

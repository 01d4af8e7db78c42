import type { MetricsSnapshot } from '../../lib/metrics.ts';
import type { TakeoverFigures } from './reports.ts';

/** What an engine's metrics say of the streams it took over from other stars. */
export function takeoverFigures({ histograms }: MetricsSnapshot): TakeoverFigures {
  const longest = (name: string): number => histograms[name]?.max ?? 0;
  return {
    streams: histograms['takeover.openMillis']?.count ?? 0,
    fenceMillis: longest('takeover.fenceMillis'),
    settleMillis: longest('takeover.settleMillis'),
    openMillis: longest('takeover.openMillis'),
    roundTrips: longest('takeover.roundTrips'),
  };
}

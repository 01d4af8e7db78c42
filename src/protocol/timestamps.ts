import type { StreamConfig } from './records.ts';

/**
 * The timestamp a record gets: the client's where the stream prefers it, never after arrival unless
 * `uncapped`, never before the stream's last one.
 */
export function clampTimestamp(
  given: number | undefined,
  arrivalMillis: number,
  lastMillis: number,
  config: Pick<StreamConfig, 'timestamping' | 'uncapped'>,
): number {
  let timestamp = arrivalMillis;
  if (given !== undefined && config.timestamping !== 'arrival') {
    timestamp = config.uncapped ? given : Math.min(given, arrivalMillis);
  }
  return Math.max(timestamp, lastMillis);
}

/** One history from what several processes wrote down by one clock. */
import { isStart, type HistoryEvent } from './events.ts';

export interface TimedEvent {
  readonly atNanos: bigint;
  readonly event: HistoryEvent;
}

/**
 * In the order of time. What has one time is concurrent: calls come first. Ids are small numbers from
 * 0 on in the order of their appearance, which the public tool needs for its drawing.
 */
export function merged(timed: readonly TimedEvent[]): HistoryEvent[] {
  const clients = new Map<number, number>();
  const operations = new Map<number, number>();
  return [...timed].sort(byTime).map(({ event }) => ({
    ...event,
    clientId: numberOf(clients, event.clientId),
    opId: numberOf(operations, event.opId),
  }));
}

function byTime(a: TimedEvent, b: TimedEvent): number {
  if (a.atNanos !== b.atNanos) return a.atNanos < b.atNanos ? -1 : 1;
  return Number(!isStart(a.event)) - Number(!isStart(b.event));
}

function numberOf(numbers: Map<number, number>, id: number): number {
  const known = numbers.get(id) ?? numbers.size;
  numbers.set(id, known);
  return known;
}

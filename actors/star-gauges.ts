import type { StarActor } from './star.actor.ts';

/** Registers what a star shows of itself in `metrics()`. Names: docs/operating.md. */
export function registerGauges(star: StarActor): void {
  const { metrics } = star.ports;
  const count = (
    wanted: (actor: StarActor['streams'] extends Map<string, infer A> ? A : never) => boolean,
  ) => [...star.streams.values()].filter(wanted).length;
  metrics.gauge('pool.usedBytes', () => star.pool.usedBytes);
  metrics.gauge('pool.peakBytes', () => star.pool.peakBytes);
  metrics.gauge('pool.waiting', () => star.admission.waitingCount);
  metrics.gauge('epoch.copyDebt', () => star.head?.writer.debt.count ?? 0);
  metrics.gauge('epoch.lagSlots', () => star.head?.absorber.lagSlots ?? 0);
  metrics.gauge('epoch.unacknowledgedSlots', () =>
    star.head === undefined ? 0 : star.head.writer.next - star.head.writer.released,
  );
  metrics.gauge('checkpoint.stallMillis', () => star.head?.writer.stallMillis ?? 0);
  metrics.gauge('streams.open', () => star.streams.size);
  metrics.gauge('streams.limbo', () => count((actor) => actor.isInLimbo));
}

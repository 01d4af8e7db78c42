import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Begins each piece of work at its time, in milliseconds from now and in ascending order, and waits for
 * all of them. Timers come to the millisecond: what is due since the last one begins at once.
 *
 * @param work - gets the index and the time, as `performance.now()`, at which it was due.
 */
export async function atTimes(
  times: Float64Array,
  work: (index: number, dueAt: number) => Promise<void>,
): Promise<void> {
  const started = performance.now();
  const all: Promise<void>[] = [];
  for (let next = 0; next < times.length;) {
    const now = performance.now() - started;
    for (; next < times.length && times[next]! <= now; next++) {
      all.push(work(next, started + times[next]!));
    }
    if (next < times.length) await sleep(1);
  }
  await Promise.all(all);
}

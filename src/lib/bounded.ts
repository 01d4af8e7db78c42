/**
 * Runs `work` for every item, at most `limit` at a time, in the order of the items. The first
 * failure starts no further item; it is thrown once what runs has ended, so that nothing is left
 * behind. Works on any clock: it only awaits.
 */
export async function forEachBounded<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (failures.length === 0) {
      const next = iterator.next();
      if (next.done === true) return;
      try {
        await work(next.value);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  const workers: Promise<void>[] = [];
  for (let index = 0; index < limit; index++) workers.push(worker());
  await Promise.all(workers);
  if (failures.length > 0) throw failures[0];
}

/** Plays the seeds that its parent sends, one after the other. */
import type { SeedOrder } from './seed-pool.ts';
import { runSeed } from './seed-run.ts';

// Nobody hears the report of an orphan.
process.on('disconnect', () => process.exit());
// A terminal sends these to all of its processes; when this one ends is for its parent to say.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);

process.on('message', (message) => {
  const { seed, ...how } = message as SeedOrder;
  void runSeed(seed, how).then((report) => process.send!(report));
});

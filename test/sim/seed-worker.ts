/** Plays the seeds that its parent sends, one after the other. */
import type { SeedOrder } from './seed-pool.ts';
import { runSeed } from './seed-run.ts';

process.on('message', (message) => {
  const { seed, ...how } = message as SeedOrder;
  void runSeed(seed, how).then((report) => process.send!(report));
});

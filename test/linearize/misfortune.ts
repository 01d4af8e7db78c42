/** What happens to engines while clients work: deaths, pauses, outages, partitions. */
import type { Clock } from '../../src/lib/clock.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import type { World } from '../../src/testing/world.ts';
import type { SimulatedNode } from '../sim/node.ts';

export interface MisfortuneOptions {
  readonly world: World;
  readonly clock: Clock;
  readonly prng: Prng;
  readonly nodes: readonly SimulatedNode[];
  /** Mean time between two of them. */
  readonly everyMillis: number;
}

export const MISFORTUNES = [
  ...['crash', 'crash', 'pause', 'pause'],
  ...['bucketDown', 'linkCut', 'slowBucket', 'isolation', 'metastoreDown'],
] as (
  'crash' | 'pause' | 'bucketDown' | 'linkCut' | 'slowBucket' | 'isolation' | 'metastoreDown'
)[];

/** More at once and nothing would work for long enough to be judged. */
const AT_ONCE_MAX = 2;

/** Goes on until `isOver`. */
export async function misfortune(options: MisfortuneOptions, isOver: () => boolean): Promise<void> {
  const { clock, prng, everyMillis } = options;
  const underWay = new Set<Promise<void>>();
  while (!isOver()) {
    await sleep(clock, 2 * everyMillis * prng.fraction());
    if (underWay.size >= AT_ONCE_MAX) continue;
    const stroke = strike(options, prng.pick(MISFORTUNES)).finally(() => underWay.delete(stroke));
    underWay.add(stroke);
  }
  await Promise.all(underWay);
}

async function strike(
  { world, clock, prng, nodes }: MisfortuneOptions,
  what: (typeof MISFORTUNES)[number],
): Promise<void> {
  const { process } = prng.pick(nodes);
  const bucket = prng.pick(world.buckets);
  /** Shorter and longer than the session timeout. */
  const pass = (): Promise<void> =>
    sleep(clock, 2 * prng.pick([100, 700, 3_000]) * prng.fraction());
  switch (what) {
    case 'crash':
      process?.crash();
      return;
    case 'pause':
      process?.pause();
      await pass();
      process?.wake();
      return;
    case 'bucketDown':
      bucket.goDown();
      await pass();
      bucket.recover();
      return;
    case 'slowBucket':
      bucket.slowness = 20;
      await pass();
      bucket.slowness = 1;
      return;
    case 'linkCut':
      if (process === undefined) return;
      bucket.cutLink(process.name);
      await pass();
      bucket.mendLink(process.name);
      return;
    case 'isolation':
      if (process === undefined) return;
      world.metastore.isolate(process.name);
      await pass();
      world.metastore.rejoin(process.name);
      return;
    case 'metastoreDown':
      world.metastore.goDown();
      await sleep(clock, prng.below(1_000));
      world.metastore.recover();
  }
}

/** Strokes of misfortune at random times: crashes, pauses, partitions, outages, clocks that step. */
import type { Clock } from '../../src/lib/clock.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import type { World } from '../../src/testing/world.ts';
import type { SimulatedNode } from './node.ts';

export interface ChaosOptions {
  readonly world: World;
  readonly clock: Clock;
  readonly prng: Prng;
  readonly nodes: readonly SimulatedNode[];
  readonly strokeMillis: number;
  readonly onCrash: (process: string) => void;
}

type Stroke = (chaos: Chaos) => Promise<void>;

export class Chaos {
  readonly #options: ChaosOptions;
  #isStopped = false;

  constructor(options: ChaosOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { clock, prng, strokeMillis } = this.#options;
    const pending: Promise<void>[] = [];
    while (!this.#isStopped) {
      await sleep(clock, 2 * strokeMillis * prng.fraction());
      pending.push(prng.pick(STROKES)(this));
    }
    await Promise.all(pending);
  }

  async crash(): Promise<void> {
    const { process } = this.#node();
    if (process === undefined || process.state === 'dead') return;
    this.#options.onCrash(process.name);
    process.crash();
  }

  /** Long pauses outlive the lease, so that a successor and the sleeper meet. */
  async pause(): Promise<void> {
    const { process } = this.#node();
    if (process === undefined) return;
    process.pause();
    await this.#wait([100, 1_500, 6_000]);
    process.wake();
  }

  async bucketDown(): Promise<void> {
    const bucket = this.#bucket();
    bucket.goDown();
    await this.#wait([200, 2_000, 5_000]);
    bucket.recover();
  }

  async linkCut(): Promise<void> {
    const bucket = this.#bucket();
    const name = this.#node().process?.name;
    if (name === undefined) return;
    bucket.cutLink(name);
    await this.#wait([200, 2_000, 8_000]);
    bucket.mendLink(name);
  }

  async slowBucket(): Promise<void> {
    const bucket = this.#bucket();
    bucket.slowness = 20;
    await this.#wait([1_000, 4_000]);
    bucket.slowness = 1;
  }

  async isolation(): Promise<void> {
    const { world } = this.#options;
    const name = this.#node().process?.name;
    if (name === undefined) return;
    world.metastore.isolate(name);
    await this.#wait([300, 1_500, 5_000]);
    world.metastore.rejoin(name);
  }

  async metastoreDown(): Promise<void> {
    const { world } = this.#options;
    world.metastore.goDown();
    await this.#wait([200, 1_000]);
    world.metastore.recover();
  }

  async clockStep(): Promise<void> {
    const { prng } = this.#options;
    const { process } = this.#node();
    if (process === undefined) return;
    process.layers.clock.stepWall((prng.fraction() - 0.5) * prng.pick([1_000, 7_200_000]));
  }

  #node(): SimulatedNode {
    return this.#options.prng.pick(this.#options.nodes);
  }

  #bucket(): World['buckets'][number] {
    return this.#options.prng.pick(this.#options.world.buckets);
  }

  async #wait(means: readonly number[]): Promise<void> {
    const { prng, clock } = this.#options;
    await sleep(clock, 2 * prng.pick(means) * prng.fraction());
  }
}

const STROKES: readonly Stroke[] = [
  (chaos) => chaos.crash(),
  (chaos) => chaos.crash(),
  (chaos) => chaos.pause(),
  (chaos) => chaos.pause(),
  (chaos) => chaos.bucketDown(),
  (chaos) => chaos.linkCut(),
  (chaos) => chaos.slowBucket(),
  (chaos) => chaos.isolation(),
  (chaos) => chaos.metastoreDown(),
  (chaos) => chaos.clockStep(),
];

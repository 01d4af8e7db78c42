/** Strokes of misfortune at random times: crashes, pauses, partitions, outages, clocks that step. */
import { releaseStream } from '../../src/engine/operator.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import { slotKey, starKey } from '../../src/protocol/keys.ts';
import { encodeRecordValue } from '../../src/protocol/records.ts';
import { CALM_METASTORE } from '../../src/testing/meta-fates.ts';
import type { SimulatedPeers } from '../../src/testing/simulated-peers.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import type { World } from '../../src/testing/world.ts';
import type { Counters } from './counters.ts';
import type { MetaIndex } from './meta-index.ts';
import type { SimulatedNode } from './node.ts';
import type { OperationLog } from './operations.ts';
import type { SlotIndex, SlotState } from './slot-index.ts';
import type { Feature } from './world-config.ts';

export interface ChaosOptions {
  readonly world: World;
  readonly clock: Clock;
  readonly prng: Prng;
  readonly log: OperationLog;
  readonly slots: SlotIndex;
  readonly meta: MetaIndex;
  readonly counters: Counters;
  readonly nodes: readonly SimulatedNode[];
  readonly streams: readonly string[];
  readonly features: ReadonlySet<Feature>;
  readonly peers: SimulatedPeers | undefined;
  readonly strokeMillis: number;
}

type Stroke = (chaos: Chaos) => Promise<void>;

export class Chaos {
  readonly #options: ChaosOptions;
  readonly #flipped = new Set<SlotState>();
  readonly #strokes: readonly Stroke[];
  #isStopped = false;

  constructor(options: ChaosOptions) {
    this.#options = options;
    const { features } = options;
    this.#strokes = [
      ...STROKES,
      ...OF_FEATURES.filter(([feature]) => features.has(feature)).flatMap(([, ...more]) => more),
    ];
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { clock, prng, strokeMillis } = this.#options;
    const pending: Promise<void>[] = [];
    while (!this.#isStopped) {
      await sleep(clock, 2 * strokeMillis * prng.fraction());
      pending.push(prng.pick(this.#strokes)(this));
    }
    await Promise.all(pending);
  }

  async crash(): Promise<void> {
    const { counters, log } = this.#options;
    const { process } = this.#node();
    if (process === undefined || process.state === 'dead') return;
    counters.add('crash');
    if (log.pending.some((operation) => operation.process === process.name)) {
      counters.add('crashWithUnacknowledged');
    }
    process.crash();
  }

  /** Long pauses outlive the lease, so that a successor and the sleeper meet. */
  async pause(): Promise<void> {
    const { process } = this.#node();
    if (process === undefined) return;
    this.#options.counters.add('pause');
    process.pause();
    await this.#wait([100, 1_500, 4_000]);
    process.wake();
  }

  async bucketDown(): Promise<void> {
    const bucket = this.#bucket();
    this.#options.counters.add('bucketDown');
    bucket.goDown();
    await this.#wait([200, 1_000, 4_000]);
    bucket.recover();
  }

  async linkCut(): Promise<void> {
    const bucket = this.#bucket();
    const name = this.#node().process?.name;
    if (name === undefined) return;
    this.#options.counters.add('linkCut');
    bucket.cutLink(name);
    await this.#wait([200, 2_000, 5_000]);
    bucket.mendLink(name);
  }

  async slowBucket(): Promise<void> {
    const bucket = this.#bucket();
    this.#options.counters.add('slowBucket');
    bucket.slowness = 20;
    await this.#wait([1_000, 3_000]);
    bucket.slowness = 1;
  }

  async isolation(): Promise<void> {
    const { world, counters } = this.#options;
    const name = this.#node().process?.name;
    if (name === undefined) return;
    counters.add('isolation');
    world.metastore.isolate(name);
    await this.#wait([300, 1_500, 4_000]);
    world.metastore.rejoin(name);
  }

  async metastoreDown(): Promise<void> {
    const { world, counters } = this.#options;
    counters.add('metastoreDown');
    world.metastore.goDown();
    await this.#wait([200, 1_000]);
    world.metastore.recover();
  }

  async clockStep(): Promise<void> {
    const { prng, counters } = this.#options;
    const { process } = this.#node();
    if (process === undefined) return;
    counters.add('clockStep');
    process.layers.clock.stepWall((prng.fraction() - 0.5) * prng.pick([1_000, 7_200_000]));
  }

  async drain(): Promise<void> {
    const node = this.#node();
    const { engine, process } = node;
    if (engine === undefined) return;
    this.#options.counters.add('drain');
    const drained = node.drain(8_000).catch((error: unknown) => {
      node.notice(error, engine);
    });
    await Promise.race([drained, process?.death]);
  }

  /** The lease record of the living is ended, as by a watcher whose clock races. */
  async endLease(): Promise<void> {
    const { world, counters } = this.#options;
    const key = starKey(this.#node().star);
    await this.#asOperator(async ({ ports }) => {
      const entry = await ports.metastore.get(key);
      if (entry === undefined) return;
      const lease = JSON.parse(Buffer.from(entry.value).toString()) as Record<string, unknown>;
      if (lease['state'] !== 'held') return;
      const ended = encodeRecordValue({ ...lease, state: 'ended' });
      const { kind } = await ports.metastore.put(key, ended, entry.version);
      if (kind !== 'applied') return;
      counters.add('leaseEnded');
      world.scheduler.note(`the lease of ${key} is ended`);
    });
  }

  async forceRelease(): Promise<void> {
    const { prng, streams, counters } = this.#options;
    const name = prng.pick(streams);
    const force = prng.chance(0.5) ? 'fromLiving' : 'never';
    await this.#asOperator(async ({ ports }) => {
      const request = { basin: 'default', name, force } as const;
      const { outcome } = await releaseStream(ports, request, { timeoutMillis: 8_000 });
      if (outcome === 'released') counters.add('forceRelease');
    });
  }

  /** One bit of one copy, as long as W others are whole. */
  async flipBit(): Promise<void> {
    const { prng, slots, meta, counters, world } = this.#options;
    const epochs = [...meta.epochs];
    if (epochs.length === 0) return;
    const { star, epoch, record } = prng.pick(epochs);
    const spare = [...slots.slotsOf(star, epoch).values()].filter(
      (state) =>
        !this.#flipped.has(state) &&
        state.contents.length === 1 &&
        state.copies.size > record.copyQuorum,
    );
    if (spare.length === 0) return;
    const state = prng.pick(spare);
    this.#flipped.add(state);
    const name = prng.pick([...state.copies.keys()]);
    const server = world.buckets.find((bucket) => bucket.name === name);
    const key = slotKey(star, epoch, state.slot);
    const bit = prng.below(state.contents[0]!.bytes.length * 8);
    if ((await server?.flipBit(key, bit)) === true) counters.add('bitFlip');
  }

  async cutPeers(): Promise<void> {
    const { peers, counters } = this.#options;
    const one = this.#node().process;
    const other = this.#node().process;
    if (peers === undefined || one === undefined || other === undefined || one === other) return;
    counters.add('peerCut');
    const mend = peers.sever(one, other);
    await this.#wait([300, 2_000, 8_000]);
    mend();
  }

  /** A process of nobody's, with a calm metastore: what it does is what was meant. */
  async #asOperator(act: (process: SimulatedProcess) => Promise<void>): Promise<void> {
    const { world } = this.#options;
    const process = world.spawn('operator');
    process.layers.metastore.profile = CALM_METASTORE;
    const done = act(process).catch((error: unknown) => {
      const isExpected =
        EngineError.is(error) && error.kind !== 'internal' && error.kind !== 'corrupt';
      if (isExpected) return;
      world.scheduler.fail('internal', `operator: ${String(error)}`, error);
    });
    await Promise.race([done, process.death]);
    process.crash();
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

const OF_FEATURES: readonly (readonly [Feature, ...Stroke[]])[] = [
  ['drain', (chaos) => chaos.drain()],
  ['leaseEnds', (chaos) => chaos.endLease()],
  ['operator', (chaos) => chaos.forceRelease()],
  ['bitFlips', ...Array.from({ length: 3 }, () => (chaos: Chaos) => chaos.flipBit())],
  ['peers', (chaos) => chaos.cutPeers()],
];

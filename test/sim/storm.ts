/** One seed: engines of several stars under load and faults, then rest, then the reckoning. */
import { sleep } from '../../src/lib/wait.ts';
import type { Stream } from '../../src/engine/api.ts';
import type { History } from '../../src/testing/history.ts';
import { Chaos } from './chaos.ts';
import { Client } from './client.ts';
import type { Counters } from './counters.ts';
import { Harness } from './harness.ts';
import { blindToLeases, inTurn, type Mutation } from './lies.ts';
import { SimulatedPeers } from '../../src/testing/simulated-peers.ts';
import { TokenBook } from './tokens.ts';
import { changedSettings, settingsOf, stormConfig, type StormConfig } from './world-config.ts';

export interface StormResult {
  readonly seed: number;
  readonly hash: string;
  readonly steps: number;
  readonly virtualMillis: number;
  readonly counters: Counters;
}

export interface StormOptions {
  readonly config?: StormConfig;
  readonly mutate?: Mutation | undefined;
  readonly wrapStream?: ((stream: Stream) => Stream) | undefined;
  readonly history?: History;
  /** Only these rules count. */
  readonly rules?: readonly string[];
}

/** @throws SimulationFailure when an invariant does not hold. */
export async function runStorm(seed: number, options: StormOptions = {}): Promise<StormResult> {
  const config = options.config ?? stormConfig(seed);
  const harness = new Harness({
    seed,
    bucketCount: config.buckets,
    bucketProfile: config.bucketProfile,
    metaProfile: config.metaProfile,
    clockDrift: 0.02,
    maxSteps: 3_000_000,
    ...(options.history === undefined ? {} : { history: options.history }),
    mutate: inTurn(options.mutate, config.blindToLeases ? blindToLeases : undefined),
    wrapStream: options.wrapStream,
    rules: options.rules,
  });
  await harness.until(play(harness, config), 'the end of the storm');
  const { scheduler } = harness.world;
  return {
    seed,
    hash: scheduler.history.hash,
    steps: scheduler.steps,
    virtualMillis: scheduler.time,
    counters: harness.counters,
  };
}

async function play(harness: Harness, config: StormConfig): Promise<void> {
  const { world, clock, log, counters, slots, meta } = harness;
  const { streams, features, thinkMillis, depth, strokeMillis } = config;
  const prng = world.scheduler.prng('storm');
  const tokens = new TokenBook();
  const peers = features.has('peers') ? new SimulatedPeers(world.scheduler) : undefined;
  // One stream that takes a token with everything.
  const fenced = features.has('tokens') ? streams.at(-1) : undefined;
  const nodes = config.stars.map((star, index) =>
    harness.node({
      settings: settingsOf(config, star),
      changed: features.has('reconfigure') ? () => changedSettings(config, star, prng) : undefined,
      peers,
      openOptions: (name) => (name === fenced ? { fencingToken: tokens.current(name) } : {}),
      restartMillis: () => 100 + prng.below(3_000),
      // Some stars share a host, where a death is known at once.
      host: `host-${index % 2}`,
      onOpened: (node) => {
        const { engine } = node;
        if (fenced === undefined || engine === undefined) return;
        engine.createStream(fenced, { mode: 'fenced' }).catch((error: unknown) => {
          node.notice(error, engine);
        });
      },
    }),
  );
  for (const node of nodes) void node.run();
  const clients = Array.from(
    { length: config.clients },
    (_, index) =>
      new Client({
        clock,
        prng: world.scheduler.prng(`client ${index}`),
        log,
        nodes,
        streams,
        features,
        tokens,
        thinkMillis,
        depth,
        onRefused: (code) => counters.outcome(`open ${code}`),
      }),
  );
  const chaos = new Chaos({
    world,
    clock,
    prng: world.scheduler.prng('chaos'),
    log,
    slots,
    meta,
    counters,
    nodes,
    streams,
    features,
    peers,
    strokeMillis,
  });
  if (features.has('delete')) {
    // Keys that come and go are written late more often, so that some come back.
    const late = world.scheduler.prng('late keys');
    world.metaScript.add({
      op: 'put',
      key: /^(names|limbo)\//,
      times: Number.POSITIVE_INFINITY,
      fate: () =>
        late.chance(0.15) ? { kind: 'late', afterMillis: 3_000 * late.fraction() } : undefined,
    });
  }
  void watchUndecided(harness);
  const work = Promise.all([...clients.map((client) => client.run()), chaos.run()]);
  await sleep(clock, config.millis);
  chaos.stop();
  for (const client of clients) client.stop();
  await work;
  world.scheduler.note('the storm is over');
  world.heal();
  await sleep(clock, config.restMillis);
  harness.rested();
  for (const node of nodes) {
    counters.add('reopened', node.reopens);
    if (prng.chance(0.5)) await node.close(20_000);
    else {
      node.stop();
      node.crash();
    }
  }
  await harness.readBack(settingsOf(config, 'z'), streams, (name) =>
    name === fenced ? tokens : undefined,
  );
}

/** A fence that nobody can decide shows in a gauge only. */
async function watchUndecided({ world, clock, counters }: Harness): Promise<void> {
  for (;;) {
    await sleep(clock, 200);
    for (const { name, metrics } of world.living) {
      counters.undecidedAge(name, metrics.readGauge('fence.undecidedAgeMillis') ?? 0);
    }
  }
}

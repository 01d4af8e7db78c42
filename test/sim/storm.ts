/** One seed: engines of several stars under load and faults, then rest, then the reckoning. */
import { sleep } from '../../src/lib/wait.ts';
import type { Stream } from '../../src/engine/api.ts';
import { History } from '../../src/testing/history.ts';
import { Chaos } from './chaos.ts';
import { Client } from './client.ts';
import type { Counters } from './counters.ts';
import { Harness } from './harness.ts';
import { blindToLeases, inTurn, type Mutation } from './lies.ts';
import { settingsOf, stormConfig, type StormConfig } from './world-config.ts';

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
  readonly keepLines?: number;
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
    ...(options.keepLines === undefined
      ? {}
      : { history: new History({ keepLines: options.keepLines }) }),
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
  const { world, clock, log, counters } = harness;
  const prng = world.scheduler.prng('storm');
  const nodes = config.stars.map((star, index) =>
    harness.node(
      settingsOf(config, star),
      () => 100 + prng.below(4_000),
      // Some stars share a host, where a death is known at once.
      String(index % 2),
    ),
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
        streams: config.streams,
        thinkMillis: config.thinkMillis,
        depth: config.depth,
        onRefused: (code) => {
          const name = `open ${code}`;
          counters.outcomes[name] = (counters.outcomes[name] ?? 0) + 1;
        },
      }),
  );
  const chaos = new Chaos({
    world,
    clock,
    prng: world.scheduler.prng('chaos'),
    nodes,
    strokeMillis: config.strokeMillis,
    onCrash: (process) => {
      const unanswered = log.pending.some((operation) => operation.process === process);
      if (unanswered) counters.add('crashWithUnacknowledged');
    },
  });
  void watchUndecided(harness);
  const work = Promise.all([...clients.map((client) => client.run()), chaos.run()]);
  await sleep(clock, config.millis);
  chaos.stop();
  for (const client of clients) client.stop();
  await work;
  world.scheduler.note('the storm is over');
  world.heal();
  await sleep(clock, 5_000);
  harness.rested();
  for (const node of nodes) {
    counters.add('reopened', node.reopens);
    if (prng.chance(0.5)) await node.close(20_000);
    else {
      node.stop();
      node.crash();
    }
  }
  await harness.readBack(settingsOf(config, 'z'), config.streams);
}

/** A fence that nobody can decide shows in a gauge only. */
async function watchUndecided({ world, clock, counters }: Harness): Promise<void> {
  for (;;) {
    await sleep(clock, 200);
    for (const { name, metrics } of world.living) {
      const { gauges } = metrics.snapshot();
      counters.undecidedAge(name, gauges['fence.undecidedAgeMillis'] ?? 0);
    }
  }
}

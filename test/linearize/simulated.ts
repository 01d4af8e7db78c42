/** One seed: engines of several stars and clients of their streams in a simulated world. */
import type { Stream } from '../../src/engine/api.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { EngineError } from '../../src/lib/errors.ts';
import { sleep } from '../../src/lib/wait.ts';
import { SimulatedPeers } from '../../src/testing/simulated-peers.ts';
import { VirtualClock } from '../../src/testing/virtual-clock.ts';
import { World } from '../../src/testing/world.ts';
import { blindToLeases, inTurn, type Mutation } from '../sim/lies.ts';
import { SimulatedNode } from '../sim/node.ts';
import { Client, type Lead } from './client.ts';
import type { HistoryEvent } from './events.ts';
import { misfortune } from './misfortune.ts';
import { closed, Recorder } from './recorder.ts';
import { runUntil } from './run-until.ts';
import {
  settingsOf,
  simulationConfig,
  type Load,
  type SimulationConfig,
} from './simulation-config.ts';

export interface SimulatedOptions extends Load {
  readonly seed: number;
  readonly replay: string;
  /** Breaks that a test plants. */
  readonly mutate?: Mutation | undefined;
  readonly wrapStream?: ((stream: Stream) => Stream) | undefined;
}

export interface StreamHistory {
  readonly name: string;
  readonly events: readonly HistoryEvent[];
}

export interface SimulatedRun {
  readonly histories: readonly StreamHistory[];
  readonly hash: string;
  readonly steps: number;
}

/** Handles that such an error ends: the next call opens the stream again. */
const HANDLE_OVER: readonly string[] = ['FENCED', 'STREAM_HELD', 'NOT_LEADING'];
const OPEN_MILLIS = 8_000;
const RELEASE_MILLIS = 6_000;
const LAST_LOOKS_TRIED = 200;

/** @throws SimulationFailure when an engine breaks in a way that no history shows. */
export async function simulate(options: SimulatedOptions): Promise<SimulatedRun> {
  const { seed, replay, mutate } = options;
  const config = simulationConfig(seed);
  const world = new World({
    seed,
    replay,
    bucketCount: config.buckets,
    bucketProfile: config.bucketProfile,
    metaProfile: config.metaProfile,
    clockDrift: 0.02,
    mutate: inTurn(mutate, config.blindToLeases ? blindToLeases : undefined),
  });
  const histories = await runUntil(world, new Simulation(world, config, options).play());
  const { scheduler } = world;
  return { histories, hash: scheduler.history.hash, steps: scheduler.steps };
}

class Simulation {
  readonly #world: World;
  readonly #config: SimulationConfig;
  readonly #options: SimulatedOptions;
  readonly #clock: Clock;
  readonly #peers: SimulatedPeers | undefined;

  constructor(world: World, config: SimulationConfig, options: SimulatedOptions) {
    this.#world = world;
    this.#config = config;
    this.#options = options;
    this.#clock = new VirtualClock(world.scheduler);
    this.#peers = config.forwards ? new SimulatedPeers(world.scheduler) : undefined;
  }

  async play(): Promise<StreamHistory[]> {
    const { streams, stars, misfortuneMillis } = this.#config;
    const prng = this.#world.scheduler.prng('restarts');
    const nodes = stars.map((star, index) =>
      this.#node(star, `host-${index % 2}`, () => 100 + prng.below(3_000)),
    );
    for (const node of nodes) void node.run();
    const recorders = streams.map((name) => ({ name, recorder: new Recorder() }));
    const clients = recorders.flatMap((each) => this.#clients(each, nodes));
    let isOver = false;
    const everything = {
      ...{ world: this.#world, clock: this.#clock, nodes },
      ...{ prng: this.#world.scheduler.prng('misfortune'), everyMillis: misfortuneMillis },
    };
    const luck = misfortune(everything, () => isOver);
    await Promise.all(clients.map((client) => client.run()));
    isOver = true;
    await luck;
    this.#world.heal();
    await sleep(this.#clock, 5_000);
    for (const node of nodes) {
      node.stop();
      node.crash();
    }
    return this.#lastLooks(recorders);
  }

  #clients(
    { name, recorder }: { readonly name: string; readonly recorder: Recorder },
    nodes: readonly SimulatedNode[],
  ): Client[] {
    const { clients, operations } = this.#options;
    const { thinkMillis, workflow } = this.#config;
    return Array.from({ length: clients }, (_, index) => {
      const prng = this.#world.scheduler.prng(`client ${index} of ${name}`);
      return new Client({
        ...{
          name: `c${index}`,
          clock: this.#clock,
          prng,
          recorder,
          workflow,
          operations,
          thinkMillis,
        },
        timeoutMillis: 10_000,
        lead: async () => this.#leadOf(name, prng.pick(nodes)),
      });
    });
  }

  /** The node's handle of the stream, if it has one or gets one. */
  async #leadOf(name: string, node: SimulatedNode): Promise<Lead | undefined> {
    const { engine, process } = node;
    if (engine === undefined || process === undefined) return undefined;
    const failed = (error: unknown): void => {
      node.notice(error, engine);
      if (EngineError.is(error) && HANDLE_OVER.includes(error.code)) void release();
    };
    const release = (): Promise<void> =>
      node.release(name, RELEASE_MILLIS).catch((error: unknown) => node.notice(error, engine));
    try {
      const stream = await Promise.race([node.stream(name, OPEN_MILLIS), process.death]);
      return stream === 'dead' ? undefined : { stream, death: process.death, failed, release };
    } catch (error) {
      node.notice(error, engine);
      return undefined;
    }
  }

  /** What is there in the end, for a star that saw nothing of it. */
  async #lastLooks(
    recorders: readonly { readonly name: string; readonly recorder: Recorder }[],
  ): Promise<StreamHistory[]> {
    const node = this.#node('z', 'host-z', () => 1_000);
    void node.run();
    for (const { name, recorder } of recorders) {
      const prng = this.#world.scheduler.prng(`last looks at ${name}`);
      const lead = async (): Promise<Lead | undefined> => this.#leadOf(name, node);
      const reader = new Client({
        ...{ name: 'z', clock: this.#clock, prng, recorder, lead, workflow: 'regular' },
        ...{ operations: 0, thinkMillis: 0, timeoutMillis: 60_000 },
      });
      await this.#untilAnswered(reader, lead, 'read');
      await this.#untilAnswered(reader, lead, 'checkTail');
    }
    node.stop();
    node.crash();
    return recorders.map(({ name, recorder }) => ({ name, events: closed(recorder.events) }));
  }

  async #untilAnswered(
    client: Client,
    lead: () => Promise<Lead | undefined>,
    kind: 'read' | 'checkTail',
  ): Promise<void> {
    for (let tries = 0; tries < LAST_LOOKS_TRIED; tries++) {
      const found = await lead();
      if (found !== undefined && (await client.look(found, kind))) return;
      await sleep(this.#clock, 500);
    }
    throw this.#world.scheduler.failure('rest', `no ${kind} is answered in a world at rest`);
  }

  #node(star: string, host: string, restartMillis: () => number): SimulatedNode {
    return new SimulatedNode({
      world: this.#world,
      clock: this.#clock,
      settings: settingsOf(this.#config, star),
      ...{ host, restartMillis, peers: this.#peers, wrapStream: this.#options.wrapStream },
    });
  }
}

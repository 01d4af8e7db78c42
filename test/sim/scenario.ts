/** A scripted world: calm but for what the test does to it, under all checkers. */
import { openEngine, type HostedEngine } from '../../src/engine/host.ts';
import type { Stream } from '../../src/engine/api.ts';
import { EngineError } from '../../src/lib/errors.ts';
import { sleep } from '../../src/lib/wait.ts';
import { parsePreamble, type SlotObjectKind } from '../../src/format/preamble.ts';
import { resolveSettings, type EngineSettings } from '../../src/protocol/settings.ts';
import type { BucketCall } from '../../src/testing/bucket-fates.ts';
import type { History } from '../../src/testing/history.ts';
import { SimulatedPeers } from '../../src/testing/simulated-peers.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import type { World } from '../../src/testing/world.ts';
import { Harness, type HarnessOptions } from './harness.ts';
import { seen } from './client.ts';
import { outcomeOf, type Operation, type Outcome, type SeenRecord } from './operations.ts';

export interface ScenarioOptions {
  readonly buckets?: number;
  readonly copies?: number;
  readonly window?: number;
  readonly seed?: number;
  readonly settings?: Omit<EngineSettings, 'star'>;
  readonly mutate?: HarnessOptions['mutate'];
  readonly rules?: HarnessOptions['rules'];
  readonly history?: History;
  /** Stands between callers and a stream. */
  readonly wrapStream?: HarnessOptions['wrapStream'];
  /** Engines forward to each other. */
  readonly listens?: boolean;
}

export interface Running {
  readonly process: SimulatedProcess;
  readonly engine: HostedEngine;
}

export class Scenario {
  readonly harness: Harness;
  readonly peers: SimulatedPeers;
  readonly #options: ScenarioOptions;
  readonly #streams = new Set<string>();

  constructor(options: ScenarioOptions) {
    this.#options = options;
    this.harness = new Harness({
      seed: options.seed ?? 1,
      bucketCount: options.buckets ?? 3,
      replay: 'npx vitest run --config test/vitest.config.ts test/sim',
      mutate: options.mutate,
      rules: options.rules,
      ...(options.history === undefined ? {} : { history: options.history }),
    });
    this.peers = new SimulatedPeers(this.harness.world.scheduler);
  }

  get world(): World {
    return this.harness.world;
  }

  /** A new process of the star with an engine in it. */
  async start(star: string, settings: Omit<EngineSettings, 'star'> = {}): Promise<Running> {
    const process = this.world.spawn(star);
    return { process, engine: await this.openIn(process, star, settings) };
  }

  openIn(
    process: SimulatedProcess,
    star: string,
    settings: Omit<EngineSettings, 'star'> = {},
  ): Promise<HostedEngine> {
    const { buckets = 3, copies, window = 4, settings: all } = this.#options;
    const resolved = resolveSettings(
      {
        star,
        window,
        flightBytes: 4_096,
        poolBytes: 4 * 1024 * 1024,
        lingerMillis: 1,
        sessionTimeoutMillis: 2_000,
        computeThreads: 0,
        ...(copies === undefined ? {} : { copyQuorum: copies }),
        ...all,
        ...settings,
      },
      buckets,
    );
    const peers = this.#options.listens === true ? this.peers.join(process) : undefined;
    return openEngine(process.ports, resolved, { timeoutMillis: 30_000, peers });
  }

  /** Opens as soon as nobody else holds the stream. */
  async open(running: Running, name: string): Promise<Stream> {
    this.#streams.add(name);
    for (let attempt = 0; ; attempt++) {
      try {
        const { wrapStream = (stream: Stream) => stream } = this.#options;
        return wrapStream(await running.engine.open(name, { timeoutMillis: 30_000 }));
      } catch (error) {
        if (attempt === 60 || !EngineError.is(error) || !error.retryable) throw error;
        await this.wait(250);
      }
    }
  }

  /** Appends one batch and records what the caller is told. */
  async append(
    running: Running,
    stream: Stream,
    options: {
      readonly records?: number;
      readonly timeoutMillis?: number;
      readonly matchSeqNum?: number;
      readonly fencingToken?: string;
    } = {},
  ): Promise<Outcome> {
    const { records = 1, timeoutMillis = 60_000, ...conditions } = options;
    const operation = this.#begin(running, stream, 'append', records, conditions);
    return this.#end(operation, running, async () => {
      const batch = operation.bodies.map((body) => ({ body }));
      const { start, end } = await stream.append(batch, { timeoutMillis, ...conditions });
      return { kind: 'appended', start: start.seqNum, end: end.seqNum };
    });
  }

  /** Many batches at once, in order. */
  appendMany(running: Running, stream: Stream, count: number): Promise<readonly Outcome[]> {
    return Promise.all(Array.from({ length: count }, () => this.append(running, stream)));
  }

  async checkTail(running: Running, stream: Stream, timeoutMillis = 60_000): Promise<Outcome> {
    const operation = this.#begin(running, stream, 'checkTail', 0);
    return this.#end(operation, running, async () => {
      const { seqNum } = await stream.checkTail({ timeoutMillis });
      return { kind: 'tail', tail: seqNum };
    });
  }

  /** Reads from the first position to the tail. */
  async read(running: Running, stream: Stream, timeoutMillis = 60_000): Promise<Outcome> {
    const operation = this.#begin(running, stream, 'read', 0);
    return this.#end(operation, running, async () => {
      const records: SeenRecord[] = [];
      for await (const record of stream.read({ timeoutMillis })) records.push(seen(record));
      return { kind: 'read', records, complete: true };
    });
  }

  /** Deletes the stream through the engine; from the answer on nothing may be appended to it. */
  async delete({ engine }: Running, name: string, streamId: string): Promise<void> {
    await engine.deleteStream(name, { timeoutMillis: 60_000 });
    this.harness.deletions.deleted(streamId);
  }

  wait(millis: number): Promise<void> {
    return sleep(this.harness.clock, millis);
  }

  /** Waits until the condition holds; a minute at most. */
  async until(condition: () => boolean, what: string): Promise<void> {
    for (let waited = 0; !condition(); waited += 5) {
      if (waited > 60_000) throw this.world.scheduler.failure('scenario', `${what} did not happen`);
      await this.wait(5);
    }
  }

  /** Heals the world, then reads everything back with a star that saw nothing of it. */
  async reckon(): Promise<void> {
    this.world.heal();
    await this.wait(5_000);
    this.harness.rested();
    for (const process of this.world.living) process.crash();
    const { buckets = 3, copies } = this.#options;
    const settings = resolveSettings(
      {
        star: 'z',
        sessionTimeoutMillis: 2_000,
        poolBytes: 4 * 1024 * 1024,
        computeThreads: 0,
        ...(copies === undefined ? {} : { copyQuorum: copies }),
      },
      buckets,
    );
    await this.harness.readBack(settings, [...this.#streams]);
  }

  #begin(
    running: Running,
    stream: Stream,
    kind: Operation['kind'],
    records: number,
    conditions: Pick<Operation, 'matchSeqNum' | 'fencingToken'> = {},
  ): Operation {
    return this.harness.log.begin({
      process: running.process.name,
      mayBeForwarded: this.#options.listens,
      kind,
      stream: stream.name,
      streamId: stream.id,
      records,
      ...conditions,
    });
  }

  async #end(
    operation: Operation,
    { process }: Running,
    run: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const crashed: Outcome = { kind: 'indeterminate', code: 'CRASHED' };
    const outcome = await Promise.race([run().catch(outcomeOf), process.death.then(() => crashed)]);
    this.harness.log.end(operation, outcome);
    return outcome;
  }
}

/** Plays the scenario under all checkers, and the reckoning at its end. */
export async function play(
  options: ScenarioOptions,
  script: (scenario: Scenario) => Promise<void>,
): Promise<Harness> {
  const scenario = new Scenario(options);
  const whole = async (): Promise<void> => {
    await script(scenario);
    await scenario.reckon();
  };
  await scenario.harness.until(whole(), 'the end of the scenario');
  return scenario.harness;
}

/** Matches creations of flights, or of poison. */
export function creates(kind: SlotObjectKind): {
  op: 'createOnly';
  when(call: BucketCall): boolean;
} {
  return {
    op: 'createOnly',
    when: ({ bytes }) => {
      const read = bytes === undefined ? undefined : parsePreamble(bytes);
      return read?.ok === true && read.preamble.kind === kind;
    },
  };
}

/** The door for tests of code that is built on asterlog: a world with engines in it, on virtual time. */
import type { Engine } from '../engine/api.ts';
import { openEngine } from '../engine/host.ts';
import type { Clock } from '../lib/clock.ts';
import { sleep } from '../lib/wait.ts';
import { resolveSettings, type EngineSettings } from '../protocol/settings.ts';
import type { BucketCall, BucketFate, BucketFaultProfile } from './bucket-fates.ts';
import type { BucketServer } from './bucket-server.ts';
import type { FaultScript } from './fault-script.ts';
import type { MetaCall, MetaFate, MetaFaultProfile } from './meta-fates.ts';
import type { MetaServer } from './meta-server.ts';
import { SimulatedPeers } from './simulated-peers.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import { VirtualClock } from './virtual-clock.ts';
import { World } from './world.ts';

export interface SimulationOptions {
  /**
   * Decides every latency, every fault that is drawn, and the order of what is due at one time. The
   * same seed and the same code give the same run.
   *
   * @default 1
   */
  readonly seed?: number;
  /** K, the buckets that engines share. @default 3 */
  readonly buckets?: number;
  /** Engines forward to each other, as with `listen`. @default false */
  readonly forwarding?: boolean;
  /** Virtual milliseconds after which the test is taken for stuck. @default 86,400,000, a day */
  readonly maxMillis?: number;
}

/** An engine and the process that it runs in. */
export interface SimulatedEngine {
  readonly engine: Engine;
  /**
   * `crash()` ends it as SIGKILL does, `pause()` and `wake()` as SIGSTOP and SIGCONT do. What is
   * awaited of a dead engine is never answered: race it with `process.death`.
   */
  readonly process: SimulatedProcess;
}

export interface Simulation {
  /** What happens to single calls of buckets; rules come before the odds of the profile. */
  readonly bucketFaults: FaultScript<BucketFate, BucketCall>;
  /** What happens to single calls of the metastore. */
  readonly metaFaults: FaultScript<MetaFate, MetaCall>;
  /** `bucket-0`, `bucket-1`, …: can go down, be slow, be cut off, wiped or damaged. */
  readonly buckets: readonly BucketServer[];
  /** Can go down, and leave a process behind with an old leader (`isolate`). */
  readonly metastore: MetaServer;
  /** Virtual time outside of all processes; theirs may differ. */
  readonly clock: Clock;
  /** Everything beneath: processes, profiles, observers, the scheduler and its history. */
  readonly world: World;
  /**
   * Starts an engine in a process of its own; a star that was started before gets a new process, as
   * after a restart.
   *
   * @param settings - as for `createEngine`; checksums are always computed inline.
   * @throws EngineError as `createEngine` does.
   */
  start(settings?: EngineSettings): Promise<SimulatedEngine>;
  /** Lets virtual time pass. */
  sleep(millis: number): Promise<void>;
  /**
   * Draws faults by odds for every call from now on, of all processes: `ROUGH_BUCKETS` and
   * `ROUGH_METASTORE`, or odds of one's own. Both are calm in the beginning: answers in a few
   * milliseconds. An engine that starts under faults may fail to, as it may in real life.
   */
  setProfiles(buckets: BucketFaultProfile, metastore: MetaFaultProfile): void;
  /** Ends every fault: all is reachable, fast and awake. What is late still arrives. */
  heal(): void;
}

/** Nothing is due any more; a real timer would be the one thing that could still come. */
const IDLE =
  'the test waits for what never happens; real timers, files and sockets do not exist in virtual time: use sim.sleep';

/**
 * Runs a test against real engines over faulty stores in memory, on virtual time: an hour of outage
 * takes milliseconds, and a failure comes again with its seed. Await nothing in it but engines and
 * `sleep`: real timers, files and sockets do not exist in virtual time.
 *
 * Works in any test runner. Engines still running at the end are ended without a Finish.
 *
 * @throws EngineError `INVALID_OPTION` for a seed that is no whole number.
 * @returns what `run` resolves with; it rejects with whatever `run` rejects with.
 * @throws SimulationFailure `idle` when the test waits for something that will never happen,
 *   `time-limit` or `step-limit` when it goes on for ever; with the seed and the last lines of what
 *   happened.
 */
export async function simulate<T>(
  options: SimulationOptions,
  run: (simulation: Simulation) => Promise<T>,
): Promise<T> {
  const { seed = 1, buckets = 3, maxMillis } = options;
  const world = new World({
    seed,
    bucketCount: buckets,
    replay: `simulate({ seed: ${String(seed)} }, ...)`,
    ...(maxMillis === undefined ? {} : { maxMillis }),
  });
  const { scheduler } = world;
  const peers = options.forwarding === true ? new SimulatedPeers(scheduler) : undefined;
  const clock = new VirtualClock(scheduler);
  const simulation: Simulation = {
    bucketFaults: world.bucketScript,
    metaFaults: world.metaScript,
    buckets: world.buckets,
    metastore: world.metastore,
    clock,
    world,
    start: async (settings = {}) => {
      const resolved = resolveSettings({ ...settings, computeThreads: 0 }, buckets);
      const process = world.spawn(resolved.star);
      const options = { timeoutMillis: 60_000, peers: peers?.join(process) };
      return { process, engine: await openEngine(process.ports, resolved, options) };
    },
    sleep: (millis) => sleep(clock, millis),
    setProfiles: (buckets, metastore) => {
      world.setProfiles(buckets, metastore);
    },
    heal: () => {
      world.heal();
    },
  };
  let settled = false;
  const result = run(simulation).finally(() => (settled = true));
  // Awaited below; until then a rejection is nobody's fault.
  result.catch(() => undefined);
  try {
    const end = await scheduler.run(() => settled);
    if (end === 'idle') throw scheduler.failure('idle', IDLE);
    return await result;
  } finally {
    for (const process of world.living) process.crash();
  }
}

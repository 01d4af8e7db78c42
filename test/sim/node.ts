/**
 * Keeps one star running, as a supervisor would: starts its process, opens the product's engine in
 * it, opens it again when it ended, starts a new process when the old one died.
 */
import { openEngine, type HostedEngine } from '../../src/engine/host.ts';
import type { OpenOptions, Stream } from '../../src/engine/api.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { EngineError } from '../../src/lib/errors.ts';
import { sleep } from '../../src/lib/wait.ts';
import type { ResolvedSettings } from '../../src/protocol/settings.ts';
import type { SimulatedPeers } from '../../src/testing/simulated-peers.ts';
import type { SimulatedProcess } from '../../src/testing/simulated-process.ts';
import type { World } from '../../src/testing/world.ts';

export interface NodeOptions {
  readonly world: World;
  /** A clock outside of all processes. */
  readonly clock: Clock;
  readonly settings: ResolvedSettings;
  /** Asked at every start, in place of the settings: what an operator may have changed meanwhile. */
  readonly changed?: (() => ResolvedSettings) | undefined;
  /** Engines that forward to each other reach each other through these. */
  readonly peers?: SimulatedPeers | undefined;
  /** What goes along with the open of a stream. */
  readonly openOptions?: ((name: string) => OpenOptions) | undefined;
  readonly host: string;
  /** How long a dead process stays away. */
  readonly restartMillis: () => number;
  /** Stands between callers and a stream. */
  readonly wrapStream?: ((stream: Stream) => Stream) | undefined;
  readonly onOpened?: (node: SimulatedNode) => void;
}

/** Ends that a caller answers by opening the engine again. */
const OVER: readonly string[] = ['LEASE_LOST', 'CLOSED'];
/** Ends of a handle: it is closed, and the stream opened again. */
const HANDLE_OVER: readonly string[] = [
  'FENCED',
  'STREAM_HELD',
  'STREAM_DELETED',
  'STREAM_NOT_FOUND',
  'NOT_LEADING',
  'FENCING_TOKEN_MISMATCH',
];

export class SimulatedNode {
  readonly star: string;
  readonly #options: NodeOptions;
  readonly #streams = new Map<string, Promise<Stream>>();
  #process: SimulatedProcess | undefined;
  #engine: HostedEngine | undefined;
  #isStopped = false;
  #isOver = false;
  opens = 0;
  reopens = 0;

  constructor(options: NodeOptions) {
    this.#options = options;
    this.star = options.settings.star;
  }

  get engine(): HostedEngine | undefined {
    return this.#process?.state === 'dead' ? undefined : this.#engine;
  }

  get process(): SimulatedProcess | undefined {
    return this.#process;
  }

  /** Runs until `stop`. */
  async run(): Promise<void> {
    const { world, clock, host, restartMillis } = this.#options;
    while (!this.#isStopped) {
      const process = world.spawn(this.star, { host });
      this.#process = process;
      await Promise.race([this.#serve(process), process.death]);
      this.#forget();
      await sleep(clock, restartMillis());
    }
  }

  /** No restart any more; what runs goes on. */
  stop(): void {
    this.#isStopped = true;
  }

  crash(): void {
    this.#process?.crash();
  }

  /** The stream as this node leads it. */
  async stream(name: string, timeoutMillis: number): Promise<Stream> {
    const engine = this.engine;
    if (engine === undefined) throw new EngineError('CLOSED', 'this node does not run');
    const known = this.#streams.get(name);
    if (known !== undefined) return known;
    const { wrapStream = (stream: Stream) => stream } = this.#options;
    const options = { ...this.#options.openOptions?.(name), timeoutMillis };
    const opening = engine.open(name, options).then(wrapStream);
    this.#streams.set(name, opening);
    try {
      return await opening;
    } catch (error) {
      if (this.#streams.get(name) === opening) this.#streams.delete(name);
      throw error;
    }
  }

  /** Gives the stream back, so that another star may lead it. */
  async release(name: string, timeoutMillis: number): Promise<void> {
    const stream = this.#streams.get(name);
    this.#streams.delete(name);
    await (await stream)?.close({ timeoutMillis });
  }

  /** Gives the stream to another star; the handle here is over then. */
  async handOff(name: string, star: string, timeoutMillis: number): Promise<void> {
    const engine = this.engine;
    if (engine === undefined) return;
    this.#streams.delete(name);
    await engine.handoff(name, star, { timeoutMillis });
  }

  /** Gives everything away and starts the engine anew. */
  async drain(timeoutMillis: number): Promise<void> {
    const engine = this.engine;
    if (engine === undefined) return;
    try {
      await engine.drain({ timeoutMillis });
    } finally {
      if (engine === this.#engine) this.#isOver = true;
    }
  }

  /** Looks at what a call answered: an engine or a stream that is over is opened again. */
  notice(error: unknown, engine: HostedEngine | undefined, stream?: Stream): void {
    const { scheduler } = this.#options.world;
    if (!EngineError.is(error)) {
      scheduler.fail('internal', `${this.star}: ${String(error)}`, error);
      return;
    }
    if (error.kind === 'internal' || error.kind === 'corrupt') {
      scheduler.fail('internal', `${this.star}: ${error.message}`, error);
    }
    if (stream !== undefined && HANDLE_OVER.includes(error.code)) void this.#drop(stream);
    if (OVER.includes(error.code) && engine !== undefined && engine === this.#engine) {
      this.#isOver = true;
    }
  }

  /** Ends with a Finish of everything. */
  async close(timeoutMillis: number): Promise<void> {
    this.#isStopped = true;
    const process = this.#process;
    const engine = this.engine;
    const closed = engine?.close({ timeoutMillis }).catch((error: unknown) => {
      this.notice(error, undefined);
    });
    await Promise.race([closed, process?.death]);
    process?.crash();
  }

  async #serve(process: SimulatedProcess): Promise<void> {
    const { clock, settings, changed, peers, onOpened } = this.#options;
    while (process.state !== 'dead' && !this.#isStopped) {
      let engine: HostedEngine;
      try {
        engine = await openEngine(process.ports, changed?.() ?? settings, {
          timeoutMillis: 20_000,
          peers: peers?.join(process),
        });
      } catch (error) {
        this.notice(error, undefined);
        await sleep(clock, 500);
        continue;
      }
      this.#engine = engine;
      this.#isOver = false;
      this.opens++;
      onOpened?.(this);
      await this.#untilOver(process);
      if (!this.#isOverNow()) return;
      this.reopens++;
      this.#forget();
      await engine.close({ timeoutMillis: 2_000 }).catch((error: unknown) => {
        this.notice(error, undefined);
      });
    }
  }

  /** Lets go of a handle that is over, if it is the one in use. */
  async #drop(stream: Stream): Promise<void> {
    const opened = this.#streams.get(stream.name);
    if (opened === undefined || (await opened.catch(() => undefined)) !== stream) return;
    if (this.#streams.get(stream.name) === opened) this.#streams.delete(stream.name);
    const process = this.#process;
    const closed = stream.close({ timeoutMillis: 5_000 }).catch((error: unknown) => {
      this.notice(error, undefined);
    });
    await Promise.race([closed, process?.death]);
  }

  #isOverNow(): boolean {
    return this.#isOver;
  }

  async #untilOver(process: SimulatedProcess): Promise<void> {
    while (!this.#isOver && process.state !== 'dead') await sleep(this.#options.clock, 50);
  }

  #forget(): void {
    this.#engine = undefined;
    for (const stream of this.#streams.values()) stream.catch(() => undefined);
    this.#streams.clear();
  }
}

/** A world with all checkers on it; storms and scripted scenarios run in one. */
import type { Clock } from '../../src/lib/clock.ts';
import type { Stream } from '../../src/engine/api.ts';
import { sleep } from '../../src/lib/wait.ts';
import type { ResolvedSettings } from '../../src/protocol/settings.ts';
import { VirtualClock } from '../../src/testing/virtual-clock.ts';
import { World, type WorldOptions } from '../../src/testing/world.ts';
import { AcknowledgedChecker, EvidenceChecker } from './checkers/acknowledged.ts';
import type { CheckContext, Checker } from './checkers/context.ts';
import { CompletionChecker, FenceChecker } from './checkers/fence.ts';
import { DepartureChecker } from './checkers/departure.ts';
import { MintChecker } from './checkers/mint.ts';
import { ConditionChecker, DeletionChecker } from './checkers/requests.ts';
import { HistoryChecker } from './checkers/history.ts';
import { PlacementChecker } from './checkers/roll.ts';
import { SettlementChecker } from './checkers/settlement.ts';
import { CoverageChecker, TenureChecker } from './checkers/tenure.ts';
import { FirstPutChecker, HaltChecker, OneContentChecker } from './checkers/writer.ts';
import { seen } from './client.ts';
import { Counters } from './counters.ts';
import { MetaIndex } from './meta-index.ts';
import { SimulatedNode, type NodeOptions } from './node.ts';
import type { TokenBook } from './tokens.ts';
import { OperationLog, type OperationListener, type SeenRecord } from './operations.ts';
import { SlotIndex } from './slot-index.ts';

export interface HarnessOptions extends WorldOptions {
  readonly wrapStream?: ((stream: Stream) => Stream) | undefined;
  /** Only these rules count: shows that a checker notices a break by itself. All count by default. */
  readonly rules?: readonly string[] | undefined;
}

export class Harness {
  readonly world: World;
  readonly log = new OperationLog();
  readonly slots = new SlotIndex();
  readonly meta: MetaIndex;
  readonly counters: Counters;
  readonly history: HistoryChecker;
  readonly deletions: DeletionChecker;
  /** A clock outside of all processes. */
  readonly clock: Clock;
  readonly #checkers: readonly Checker[];
  readonly #fail: CheckContext['fail'];
  readonly #wrapStream: HarnessOptions['wrapStream'];

  constructor(options: HarnessOptions) {
    this.world = new World(options);
    const { world, log, slots } = this;
    this.meta = new MetaIndex(world.metastore.journal);
    this.clock = new VirtualClock(world.scheduler);
    const fail = (rule: string, text: string): void => {
      if (options.rules?.includes(rule) !== false) world.scheduler.fail(rule, text);
    };
    this.#fail = fail;
    this.#wrapStream = options.wrapStream;
    const base = { world, slots, meta: this.meta, log, fail };
    const acknowledged = new AcknowledgedChecker(base);
    const context: CheckContext = { ...base, acks: acknowledged };
    this.counters = new Counters(context);
    this.history = new HistoryChecker(context);
    this.deletions = new DeletionChecker(context);
    this.#checkers = [
      acknowledged,
      new EvidenceChecker(context),
      new OneContentChecker(context),
      new FirstPutChecker(context),
      new HaltChecker(context),
      new FenceChecker(context),
      new CompletionChecker(context),
      new TenureChecker(context),
      new CoverageChecker(context),
      new MintChecker(context),
      new SettlementChecker(context),
      new PlacementChecker(context),
      new DepartureChecker(context),
      new ConditionChecker(context),
      this.deletions,
      this.history,
      this.counters,
    ];
    world.observe(this.slots);
    world.observe(this.meta);
    log.listeners.push(tracer(world));
    for (const checker of this.#checkers) {
      world.observe(checker);
      this.meta.listeners.push(checker);
      this.log.listeners.push(checker);
    }
  }

  node(options: Omit<NodeOptions, 'world' | 'clock' | 'wrapStream'>): SimulatedNode {
    return new SimulatedNode({
      ...options,
      world: this.world,
      clock: this.clock,
      wrapStream: this.#wrapStream,
      onOpened: (node) => {
        if (node.opens > 1) this.counters.add('restart');
        options.onOpened?.(node);
      },
    });
  }

  /** Runs the world until the promise settles; a world that stands still before is broken. */
  async until<T>(promise: Promise<T>, what: string): Promise<T> {
    const { scheduler } = this.world;
    let settled = false;
    promise.then(
      () => (settled = true),
      () => (settled = true),
    );
    // A promise that nobody waits for, or a callback, broke inside the product: a real process ends here.
    const onRejection = (reason: unknown): void => {
      scheduler.fail(
        'unhandled',
        reason instanceof Error ? reason.message : String(reason),
        reason,
      );
    };
    process.on('unhandledRejection', onRejection);
    process.on('uncaughtException', onRejection);
    const end = await scheduler
      .run(() => settled)
      .finally(() => {
        process.off('unhandledRejection', onRejection);
        process.off('uncaughtException', onRejection);
      });
    if (end === 'idle') throw scheduler.failure('idle', `nothing is due any more before ${what}`);
    return promise;
  }

  /** The world is at rest: every caller must have been answered. */
  rested(): void {
    for (const checker of this.#checkers) checker.rested?.();
  }

  /**
   * Reads every stream from its first position with a fresh star, and compares with all that was seen.
   *
   * @param tokensOf - what is known of the tokens of a stream that does not open without one.
   */
  async readBack(
    settings: ResolvedSettings,
    streams: readonly string[],
    tokensOf: (name: string) => TokenBook | undefined = () => undefined,
  ): Promise<void> {
    const node = this.node({
      settings,
      restartMillis: () => 1_000,
      host: `host-${settings.star}`,
      openOptions: (name) => {
        const fencingToken = tokensOf(name)?.current(name);
        return fencingToken === undefined ? {} : { fencingToken };
      },
    });
    void node.run();
    for (const name of streams) {
      const stream = await this.#openPatiently(node, name, tokensOf(name));
      const { first, records, tail } = await this.#readAll(stream);
      const end = first + records.length;
      if (tail !== end) this.#fail('T2', `${name} is read to ${end} and has the tail ${tail}`);
      for (const checker of this.#checkers) checker.finished?.(stream.id, first, records);
    }
    await node.close(60_000);
  }

  async #readAll(
    stream: Stream,
  ): Promise<{ first: number; records: readonly SeenRecord[]; tail: number }> {
    const records: SeenRecord[] = [];
    try {
      for await (const record of stream.read({ timeoutMillis: 60_000 })) records.push(seen(record));
      const { seqNum } = await stream.checkTail({ timeoutMillis: 60_000 });
      return { first: records[0]?.seqNum ?? seqNum, records, tail: seqNum };
    } catch (error) {
      const { message } = error as Error;
      throw this.world.scheduler.failure('read', `${stream.name}: ${message}`, error);
    }
  }

  async #openPatiently(node: SimulatedNode, name: string, tokens?: TokenBook): Promise<Stream> {
    for (let attempt = 0; attempt < 200; attempt++) {
      const { engine } = node;
      try {
        if (engine !== undefined) return await node.stream(name, 60_000);
      } catch (error) {
        node.notice(error, engine);
        tokens?.notice(name, error);
        this.world.scheduler.note(`${name} does not open: ${(error as Error).message}`);
      }
      await sleep(this.clock, 500);
    }
    throw this.world.scheduler.failure('open', `${name} does not open in a world at rest`);
  }
}

/** Puts what callers see into the history. */
function tracer(world: World): OperationListener {
  return {
    operationBegan: ({ id, process, kind, stream }) => {
      world.scheduler.note(`${process} caller ${kind} ${id} ${stream}`);
    },
    operationEnded: ({ id, process, kind, stream }, outcome) => {
      const { kind: what, ...rest } = outcome;
      const detail = 'records' in rest ? `${rest.records.length} records` : JSON.stringify(rest);
      world.scheduler.note(`${process} caller ${kind} ${id} ${stream} ${what} ${detail}`);
    },
  };
}

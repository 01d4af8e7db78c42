/** A caller: appends, reads and asks for tails of a few streams, through whichever star leads them. */
import type { HostedEngine } from '../../src/engine/host.ts';
import type { ReadRecord, Stream } from '../../src/engine/api.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import { actsOf, type Act } from './acts.ts';
import type { SimulatedNode } from './node.ts';
import {
  outcomeOf,
  type Operation,
  type OperationLog,
  type OperationRequest,
  type Outcome,
  type SeenRecord,
} from './operations.ts';
import type { TokenBook } from './tokens.ts';
import type { Feature } from './world-config.ts';

export interface ClientOptions {
  readonly clock: Clock;
  readonly prng: Prng;
  readonly log: OperationLog;
  readonly nodes: readonly SimulatedNode[];
  readonly streams: readonly string[];
  readonly features: ReadonlySet<Feature>;
  readonly tokens: TokenBook;
  readonly thinkMillis: number;
  /** Batches in flight at once. */
  readonly depth: number;
  /** Told the code of every open that failed. */
  readonly onRefused?: (code: string) => void;
}

/** A handle, and where it was opened. */
export interface Lead {
  readonly node: SimulatedNode;
  readonly engine: HostedEngine;
  readonly stream: Stream;
  readonly process: string;
}

export class Client {
  readonly options: ClientOptions;
  readonly #acts: readonly { readonly share: number; readonly act: Act }[];
  #isStopped = false;

  constructor(options: ClientOptions) {
    this.options = options;
    this.#acts = actsOf(options.features);
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { clock, prng, streams, thinkMillis } = this.options;
    while (!this.#isStopped) {
      await sleep(clock, thinkMillis * 2 * prng.fraction());
      const lead = await this.#lead(prng.pick(streams));
      if (lead !== undefined) await this.#draw()(this, lead);
    }
  }

  /** Ends the operation exactly once: by its outcome, or by the death of its process. */
  async perform(
    lead: Lead,
    request: Omit<OperationRequest, 'process' | 'stream' | 'streamId'>,
    run: (operation: Operation) => Promise<Outcome>,
  ): Promise<Outcome> {
    const { log, features, tokens } = this.options;
    const { stream, process, engine, node } = lead;
    const operation = log.begin({
      ...request,
      process,
      mayBeForwarded: features.has('peers'),
      stream: stream.name,
      streamId: stream.id,
    });
    const failed = (error: unknown): Outcome => {
      node.notice(error, engine, stream);
      tokens.notice(stream.name, error);
      return outcomeOf(error);
    };
    const outcome = await Promise.race([run(operation).catch(failed), this.#death(lead)]);
    log.end(operation, outcome);
    return outcome;
  }

  /** Something that is no operation on records; its errors tell the node what it has to do. */
  async ask(lead: Lead, run: () => Promise<unknown>): Promise<void> {
    const { node, engine } = lead;
    const failed = (error: unknown): void => {
      node.notice(error, engine);
    };
    await Promise.race([run().catch(failed), this.#death(lead)]);
  }

  /** The end of the last batch of the stream that was acknowledged, as far as anybody was told. */
  knownEnd(streamId: string): number {
    const { operations } = this.options.log;
    for (let i = operations.length - 1; i >= 0; i--) {
      const { outcome, streamId: other } = operations[i]!;
      if (other === streamId && outcome?.kind === 'appended') return outcome.end;
    }
    return 0;
  }

  #death({ node, process }: Lead): Promise<Outcome> {
    const crashed: Outcome = { kind: 'indeterminate', code: 'CRASHED' };
    if (node.process?.name !== process) return Promise.resolve(crashed);
    return node.process.death.then(() => crashed);
  }

  #draw(): Act {
    let left = this.options.prng.fraction();
    for (const { share, act } of this.#acts) {
      left -= share;
      if (left < 0) return act;
    }
    return this.#acts[0]!.act;
  }

  /** Somebody who leads the stream, or can be made to. */
  async #lead(name: string): Promise<Lead | undefined> {
    const { nodes, prng, onRefused, tokens } = this.options;
    const first = prng.below(nodes.length);
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[(first + i) % nodes.length]!;
      const { engine, process } = node;
      if (engine === undefined || process === undefined) continue;
      try {
        const stream = await Promise.race([node.stream(name, 8_000), process.death]);
        if (stream !== 'dead') return { node, engine, stream, process: process.name };
      } catch (error) {
        node.notice(error, engine);
        tokens.notice(name, error);
        onRefused?.((error as EngineError).code);
      }
    }
    return undefined;
  }
}

const decoder = new TextDecoder();

export function seen({ seqNum, body, command }: ReadRecord): SeenRecord {
  if (command === undefined) return { seqNum, body: decoder.decode(body) };
  const detail = command.kind === 'fence' ? command.fencingToken : command.trimPoint;
  return { seqNum, body: `#${command.kind}:${detail}` };
}

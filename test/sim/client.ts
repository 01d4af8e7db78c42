/** A caller: appends, reads and asks for tails of a few streams, through whichever star leads them. */
import type { HostedEngine } from '../../src/engine/host.ts';
import type { ReadRecord, Stream } from '../../src/engine/api.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import type { SimulatedNode } from './node.ts';
import {
  outcomeOf,
  type Operation,
  type OperationLog,
  type Outcome,
  type SeenRecord,
} from './operations.ts';

export interface ClientOptions {
  readonly clock: Clock;
  readonly prng: Prng;
  readonly log: OperationLog;
  readonly nodes: readonly SimulatedNode[];
  readonly streams: readonly string[];
  readonly thinkMillis: number;
  /** Batches in flight at once. */
  readonly depth: number;
  /** Told the code of every open that failed. */
  readonly onRefused?: (code: string) => void;
}

interface Lead {
  readonly node: SimulatedNode;
  readonly engine: HostedEngine;
  readonly stream: Stream;
  readonly process: string;
}

export class Client {
  readonly #options: ClientOptions;
  #isStopped = false;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { clock, prng, streams, thinkMillis } = this.#options;
    while (!this.#isStopped) {
      await sleep(clock, thinkMillis * 2 * prng.fraction());
      const name = prng.pick(streams);
      const lead = await this.#lead(name);
      if (lead !== undefined) await this.#act(name, lead);
    }
  }

  /** Somebody who leads the stream, or can be made to. */
  async #lead(name: string): Promise<Lead | undefined> {
    const { nodes, prng, onRefused } = this.#options;
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
        onRefused?.((error as EngineError).code);
      }
    }
    return undefined;
  }

  async #act(name: string, lead: Lead): Promise<void> {
    const { prng, depth } = this.#options;
    const draw = prng.fraction();
    if (draw < 0.6) {
      await Promise.all(
        Array.from({ length: 1 + prng.below(depth) }, () => this.#append(name, lead)),
      );
    } else if (draw < 0.78) await this.#read(name, lead);
    else if (draw < 0.96) await this.#checkTail(name, lead);
    else {
      const released = lead.node.release(name, 6_000).catch((error: unknown) => {
        lead.node.notice(error, lead.engine);
      });
      await Promise.race([released, lead.node.process?.death]);
    }
  }

  #append(name: string, lead: Lead): Promise<void> {
    const { log, prng, clock } = this.#options;
    const operation = log.begin({
      process: lead.process,
      kind: 'append',
      stream: name,
      streamId: lead.stream.id,
      records: 1 + prng.below(3),
    });
    const controller = new AbortController();
    const timer = prng.chance(0.03)
      ? clock.setTimeout(() => {
          controller.abort();
        }, prng.below(40))
      : undefined;
    return this.#settle(operation, lead, async () => {
      try {
        const records = operation.bodies.map((body) => ({ body }));
        const timeoutMillis = 2_000 + prng.below(15_000);
        const { signal } = controller;
        const { start, end } = await lead.stream.append(records, { timeoutMillis, signal });
        return { kind: 'appended', start: start.seqNum, end: end.seqNum };
      } finally {
        if (timer !== undefined) clock.clearTimeout(timer);
      }
    });
  }

  async #read(name: string, lead: Lead): Promise<void> {
    const { log, prng } = this.#options;
    const known = log.operations.findLast(
      ({ streamId, outcome }) => streamId === lead.stream.id && outcome?.kind === 'appended',
    );
    const end = known?.outcome?.kind === 'appended' ? known.outcome.end : 0;
    const from = prng.below(end + 1);
    const operation = log.begin({
      process: lead.process,
      kind: 'read',
      stream: name,
      streamId: lead.stream.id,
      from,
    });
    await this.#settle(operation, lead, async () => {
      const limit = prng.chance(0.3) ? 1 + prng.below(5) : undefined;
      const options = { from, timeoutMillis: 10_000, ...(limit === undefined ? {} : { limit }) };
      const records: SeenRecord[] = [];
      for await (const record of lead.stream.read(options)) records.push(seen(record));
      return { kind: 'read', records, complete: limit === undefined };
    });
  }

  async #checkTail(name: string, lead: Lead): Promise<void> {
    const operation = this.#options.log.begin({
      process: lead.process,
      kind: 'checkTail',
      stream: name,
      streamId: lead.stream.id,
    });
    await this.#settle(operation, lead, async () => {
      const { seqNum } = await lead.stream.checkTail({ timeoutMillis: 10_000 });
      return { kind: 'tail', tail: seqNum };
    });
  }

  /** Ends the operation exactly once: by its outcome, or by the death of its process. */
  async #settle(operation: Operation, lead: Lead, run: () => Promise<Outcome>): Promise<void> {
    const { log } = this.#options;
    const crashed: Outcome = { kind: 'indeterminate', code: 'CRASHED' };
    const death = lead.node.process?.death.then(() => crashed);
    const outcome = await Promise.race([
      run().catch((error: unknown) => {
        lead.node.notice(error, lead.engine, operation.stream);
        return outcomeOf(error);
      }),
      ...(death === undefined ? [] : [death]),
    ]);
    log.end(operation, outcome);
  }
}

const decoder = new TextDecoder();

export function seen({ seqNum, body, command }: ReadRecord): SeenRecord {
  return { seqNum, body: command === undefined ? decoder.decode(body) : `#${command.kind}` };
}

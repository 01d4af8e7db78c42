/**
 * Settles and sweeps, in the background, what nobody opens: epochs below the head of their class, and
 * heads of incarnations that are not registered any more; resumes what is unswept. Any star may do it
 * for any chain. Source: DESIGN "Settle (S)".
 */
import type { TimerHandle } from '../src/lib/clock.ts';
import { toEngineError } from '../src/lib/errors.ts';
import { linkedSignal } from '../src/lib/wait.ts';
import { isCollectable } from '../src/protocol/collectable.ts';
import {
  chainRecord,
  epochRecord,
  parseRecordValue,
  type ChainRecord,
  type EpochRecord,
} from '../src/protocol/records.ts';
import type { FenceActors } from './fence.actor.ts';
import type { StarPorts } from './ports.ts';
import type { SettlementActors } from './settlement.actor.ts';

export interface CollectorInput {
  readonly ports: StarPorts;
  readonly fences: FenceActors;
  readonly settlements: SettlementActors;
  readonly everyMillis: number;
  isRegistered(star: string, incarnation: string, signal: AbortSignal): Promise<boolean>;
  /** Told of every epoch that it finds fenced: it may be the one that this star writes. */
  onFenced(epoch: Pick<EpochRecord, 'star' | 'epoch'>): void;
}

const PAGE = 500;
/** One epoch may stand undecided behind a lost bucket; the others are not kept waiting. */
const EPOCH_MILLIS = 30_000;

export class CollectorActor {
  readonly #input: CollectorInput;
  readonly #controller = new AbortController();
  #timer: TimerHandle | undefined;
  #pass: Promise<void> | undefined;

  constructor(input: CollectorInput) {
    this.#input = input;
  }

  /** Begins; the first pass comes after one interval, so that stars that restart recover themselves. */
  start(): void {
    if (this.#timer !== undefined || this.#controller.signal.aborted) return;
    const { clock } = this.#input.ports;
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      this.#pass = this.collect().finally(() => {
        this.#pass = undefined;
        this.start();
      });
    }, this.#input.everyMillis);
  }

  async close(): Promise<void> {
    this.#controller.abort();
    if (this.#timer !== undefined) this.#input.ports.clock.clearTimeout(this.#timer);
    await this.#pass;
  }

  /** One pass over all chains. Never rejects: what fails is tried again in the next pass. */
  async collect(): Promise<void> {
    const { ports } = this.#input;
    try {
      for await (const record of this.#candidates()) {
        if (this.#controller.signal.aborted) return;
        await this.#settle(record);
      }
      ports.metrics.counter('collector.passes').add();
    } catch (cause) {
      if (this.#controller.signal.aborted) return;
      const { code, message } = toEngineError(cause);
      ports.log.warn({ code, message }, 'the collector did not end its pass');
    }
  }

  async *#candidates(): AsyncGenerator<EpochRecord> {
    const { ports } = this.#input;
    const { signal } = this.#controller;
    let startAfter: string | undefined;
    const chains = new Map<string, ChainRecord>();
    for (;;) {
      const page = await ports.metastore.children('chains/', {
        signal,
        limit: PAGE,
        ...(startAfter === undefined ? {} : { startAfter }),
      });
      for (const { key, value } of page) {
        const [, star = '', epoch] = key.split('/');
        // The key of a chain sorts before those of its epochs, though not next to them.
        if (epoch === undefined) chains.set(star, parseRecordValue(chainRecord, key, value));
        else {
          const record = parseRecordValue(epochRecord, key, value);
          if (record.state !== 'open') this.#input.onFenced(record);
          if (await this.#isOver(record, chains.get(star))) yield record;
        }
      }
      if (page.length < PAGE) return;
      startAfter = page.at(-1)!.key;
    }
  }

  async #isOver(record: EpochRecord, chain: ChainRecord | undefined): Promise<boolean> {
    if (chain === undefined) return false;
    const verdict = isCollectable(record, chain.heads[record.class]);
    if (verdict !== 'if-unregistered') return verdict === 'yes';
    const { signal } = this.#controller;
    return !(await this.#input.isRegistered(record.star, record.incarnation, signal));
  }

  async #settle({ star, epoch }: EpochRecord): Promise<void> {
    const { ports, fences, settlements } = this.#input;
    const limited = linkedSignal(
      ports.clock,
      { signal: this.#controller.signal, timeoutMillis: EPOCH_MILLIS },
      'collector',
    );
    try {
      await fences.fence({ star, epoch }, { signal: limited.signal });
      this.#input.onFenced({ star, epoch });
      const result = await settlements.settle({ star, epoch }, { signal: limited.signal });
      if (result.kind === 'settled') ports.metrics.counter('collector.settled').add();
    } catch (cause) {
      if (this.#controller.signal.aborted) return;
      const { code, message } = toEngineError(cause);
      ports.log.warn({ star, epoch, code, message }, 'an epoch was not settled in the background');
    } finally {
      limited.release();
    }
  }
}

/**
 * A client of one stream: one operation at a time, through whichever engine serves the stream, each
 * written down before it is called and after it is answered.
 */
import type { AppendOptions, Stream } from '../../src/engine/api.ts';
import type { Clock } from '../../src/lib/clock.ts';
import { EngineError } from '../../src/lib/errors.ts';
import type { Prng } from '../../src/lib/prng.ts';
import { sleep } from '../../src/lib/wait.ts';
import { chained, EMPTY_CHAIN } from './chain.ts';
import type { AppendCall, Call, Result } from './events.ts';
import type { Recorder } from './recorder.ts';
import { intentOf, type Workflow } from './workflow.ts';
import { xxh3 } from './xxh3.ts';

/** A handle of the stream in some process. */
export interface Lead {
  readonly stream: Stream;
  /** Resolves when the process dies: it answers nothing any more. */
  readonly death?: Promise<unknown> | undefined;
  /** Told of every error that a call answered. */
  failed(error: unknown): void;
  /** Gives the stream back, so that another engine may lead it. */
  release?(): Promise<void>;
}

export interface ClientOptions {
  /** No two clients of one history have the same: part of its records and its fencing token. */
  readonly name: string;
  readonly clock: Clock;
  readonly prng: Prng;
  readonly recorder: Recorder;
  /** Somebody who serves the stream; undefined while nobody does. */
  readonly lead: () => Promise<Lead | undefined>;
  readonly workflow: Workflow;
  readonly operations: number;
  readonly thinkMillis: number;
  readonly timeoutMillis: number;
}

/** What ends first when nobody serves the stream. */
const MISSED_LEADS_MAX = 300;
const MISSED_LEAD_MILLIS = 100;
const RELEASE_CHANCE = 0.03;
const IMPATIENT_CHANCE = 0.05;
const IMPATIENT_MILLIS = 40;
const PADDING_BYTES_MAX = 60;

const encoder = new TextEncoder();

export class Client {
  readonly #options: ClientOptions;
  #id: number;
  #records = 0;
  /** The number it takes for the next one. */
  #nextSeqNum = 0;
  #isStopped = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#id = options.recorder.newClient();
  }

  stop(): void {
    this.#isStopped = true;
  }

  async run(): Promise<void> {
    const { clock, prng, lead, operations, thinkMillis } = this.#options;
    let missed = 0;
    for (let index = 0; index < operations && missed < MISSED_LEADS_MAX && !this.#isStopped;) {
      await sleep(clock, thinkMillis * 2 * prng.fraction());
      const found = await lead();
      if (found === undefined) {
        missed++;
        await sleep(clock, MISSED_LEAD_MILLIS);
      } else if (found.release !== undefined && prng.chance(RELEASE_CHANCE)) {
        await Promise.race([found.release(), ...deathOf(found)]);
      } else await this.#act(found, index++);
    }
  }

  /** Reads the whole stream, or asks for its tail. @returns whether it was answered. */
  async look(lead: Lead, kind: 'read' | 'checkTail'): Promise<boolean> {
    const { timeoutMillis } = this.#options;
    const result = await this.#told(lead, { kind }, async () =>
      kind === 'read' ? readWhole(lead.stream, timeoutMillis) : tailOf(lead.stream, timeoutMillis),
    );
    return result.kind === 'readSuccess' || result.kind === 'checkTailSuccess';
  }

  async #act(lead: Lead, index: number): Promise<void> {
    const { name, prng, workflow } = this.#options;
    const intent = intentOf(workflow, index, prng);
    if (intent.kind === 'read' || intent.kind === 'checkTail') {
      await this.look(lead, intent.kind);
      return;
    }
    const bodies = intent.kind === 'fence' ? [] : this.#bodies(1 + prng.below(3));
    const hashed = intent.kind === 'fence' ? [encoder.encode(name)] : bodies;
    const call: AppendCall = {
      kind: 'append',
      recordHashes: hashed.map((body) => xxh3(body)),
      setFencingToken: intent.kind === 'fence' ? name : null,
      fencingToken: intent.givesToken ? name : null,
      matchSeqNum: intent.matches ? this.#nextSeqNum : null,
    };
    await this.#append(lead, call, bodies);
  }

  async #append(lead: Lead, call: AppendCall, bodies: readonly Uint8Array[]): Promise<void> {
    const { name, prng, timeoutMillis } = this.#options;
    const isImpatient = prng.chance(IMPATIENT_CHANCE);
    const options: AppendOptions = {
      timeoutMillis: isImpatient ? 1 + prng.below(IMPATIENT_MILLIS) : timeoutMillis,
      ...(call.matchSeqNum === null ? {} : { matchSeqNum: call.matchSeqNum }),
      ...(call.fencingToken === null ? {} : { fencingToken: call.fencingToken }),
    };
    await this.#told(lead, call, async () => {
      const ack =
        call.setFencingToken === null
          ? await lead.stream.append(
              bodies.map((body) => ({ body })),
              options,
            )
          : await lead.stream.fence(name, options);
      return { kind: 'appendSuccess', tail: ack.end.seqNum };
    });
  }

  /** Calls and writes down both ends; the death of the process is an unknown outcome. */
  async #told(lead: Lead, call: Call, run: () => Promise<Result>): Promise<Result> {
    const { recorder } = this.#options;
    const opId = recorder.start(this.#id, call);
    const answer = run().catch((error: unknown) => {
      lead.failed(error);
      return resultOf(call, error);
    });
    const result = await Promise.race([
      answer,
      ...deathOf(lead).map((death) => death.then(() => resultOf(call, undefined))),
    ]);
    this.#id = recorder.finish(this.#id, opId, result);
    if ('tail' in result) this.#nextSeqNum = result.tail;
    return result;
  }

  #bodies(count: number): Uint8Array[] {
    const { name, prng } = this.#options;
    return Array.from({ length: count }, () =>
      encoder.encode(`${name}.${this.#records++} `.padEnd(prng.below(PADDING_BYTES_MAX), '.')),
    );
  }
}

function deathOf({ death }: Lead): Promise<unknown>[] {
  return death === undefined ? [] : [death];
}

async function readWhole(stream: Stream, timeoutMillis: number): Promise<Result> {
  let tail = 0;
  let streamHash = EMPTY_CHAIN;
  for await (const { seqNum, body } of stream.read({ from: 0, timeoutMillis })) {
    tail = seqNum + 1;
    streamHash = chained(streamHash, xxh3(body));
  }
  return { kind: 'readSuccess', tail, streamHash };
}

async function tailOf(stream: Stream, timeoutMillis: number): Promise<Result> {
  const { seqNum } = await stream.checkTail({ timeoutMillis });
  return { kind: 'checkTailSuccess', tail: seqNum };
}

/** What a call that failed tells its caller of its effect. */
function resultOf({ kind }: Call, error: unknown): Result {
  if (kind === 'read') return { kind: 'readFailure' };
  if (kind === 'checkTail') return { kind: 'checkTailFailure' };
  // A caller that gave up knows nothing, whatever the error says of side effects.
  const isDefinite =
    EngineError.is(error) && error.sideEffects === 'none' && error.code !== 'ABORTED';
  return { kind: isDefinite ? 'appendDefiniteFailure' : 'appendIndefiniteFailure' };
}

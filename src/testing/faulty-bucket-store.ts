/**
 * A bucket as one process reaches it over a network that delays, loses, repeats nothing and
 * delivers late. Keeps the port's contract: the bytes of a creation are copied when it is called, so
 * a request may arrive long after the caller has its memory back.
 */
import { EngineError } from '../lib/errors.ts';
import type { Prng } from '../lib/prng.ts';
import { abortedError } from '../lib/wait.ts';
import type * as port from '../ports/bucket-store.ts';
import {
  CALM_BUCKETS,
  drawBucketFate,
  type BucketCall,
  type BucketFate,
  type BucketFaultProfile,
  type BucketOp,
} from './bucket-fates.ts';
import { BucketServer } from './bucket-server.ts';
import { Exchange } from './exchange.ts';
import { FaultScript } from './fault-script.ts';
import { drawLatency } from './latency.ts';
import type { EventOwner, Scheduler } from './scheduler.ts';

export interface FaultyBucketOptions {
  readonly scheduler: Scheduler;
  /** The process that calls; without one, calls come from outside of all processes. */
  readonly owner?: EventOwner;
  readonly profile?: BucketFaultProfile;
  /** Asked before the profile; may be shared by many stores. */
  readonly script?: FaultScript<BucketFate, BucketCall>;
}

interface Answer {
  readonly kind: string;
}

type Apply<T> = (store: port.BucketStore, call: BucketCall) => Promise<T>;

/** A bucket as one process sees it: every call has a fate, by rule or by odds. */
export class FaultyBucketStore implements port.BucketStore {
  readonly name: string;
  readonly server: BucketServer;
  /** May be replaced at any time, for example by a calm one when a world comes to rest. */
  profile: BucketFaultProfile;
  readonly script: FaultScript<BucketFate, BucketCall>;
  readonly #scheduler: Scheduler;
  readonly #owner: EventOwner | undefined;
  readonly #process: string;
  readonly #prng: Prng;
  #serial = 0;
  #outstanding = 0;
  #closing: (() => void)[] = [];

  constructor(target: port.BucketStore | BucketServer, options: FaultyBucketOptions) {
    this.server =
      target instanceof BucketServer
        ? target
        : new BucketServer({
            name: target.name,
            scheduler: options.scheduler,
            create: () => target,
          });
    this.name = this.server.name;
    this.profile = options.profile ?? CALM_BUCKETS;
    this.script = options.script ?? new FaultScript();
    this.#scheduler = options.scheduler;
    this.#owner = options.owner;
    this.#process = options.owner?.name ?? 'outside';
    this.#prng = options.scheduler.prng(`${this.#process} to ${this.name}`);
  }

  createOnly(
    key: string,
    bytes: Uint8Array,
    options?: port.CallOptions,
  ): Promise<port.CreateOutcome> {
    const copy = bytes.slice();
    const isUnchanged = (): boolean => Buffer.compare(copy, bytes) === 0;
    return this.#call<port.CreateOutcome>(
      { op: 'createOnly', key, bytes: copy },
      (store) => store.createOnly(key, copy),
      options,
      isUnchanged,
    );
  }

  readHead(
    key: string,
    lengthBytes: number,
    options?: port.ReadOptions,
  ): Promise<port.ReadOutcome> {
    return this.#call<port.ReadOutcome>(
      { op: 'readHead', key },
      (store) => store.readHead(key, lengthBytes),
      options,
    );
  }

  readRange(
    key: string,
    start: number,
    end: number,
    options?: port.ReadOptions,
  ): Promise<port.ReadOutcome> {
    return this.#call<port.ReadOutcome>(
      { op: 'readRange', key },
      (store) => store.readRange(key, start, end),
      options,
    );
  }

  delete(key: string, options?: port.CallOptions): Promise<port.DeleteOutcome> {
    return this.#call<port.DeleteOutcome>(
      { op: 'delete', key },
      (store) => store.delete(key),
      options,
    );
  }

  async deleteMany(
    keys: readonly string[],
    options?: port.CallOptions,
  ): Promise<readonly port.DeleteOutcome[]> {
    const failing = keys.map(() => this.#prng.chance(this.profile.deleteErrors));
    const answer = await this.#call<Answer & { readonly each?: readonly port.DeleteOutcome[] }>(
      { op: 'deleteMany', key: keys[0] ?? '' },
      async (store, call) => ({
        kind: 'answered',
        each: await Promise.all(
          keys.map(async (key, index) => {
            if (failing[index]!) return broken<port.DeleteOutcome>('the store failed on one key');
            const outcome = await store.delete(key);
            this.#tell('bucketApplied', { ...call, op: 'delete', key }, outcome);
            return outcome;
          }),
        ),
      }),
      options,
    );
    return answer.each ?? keys.map(() => answer as port.DeleteOutcome);
  }

  list(prefix: string, options?: port.ListOptions): Promise<port.ListOutcome> {
    return this.#call<port.ListOutcome>(
      { op: 'list', key: prefix },
      async (store) => {
        const answer = await store.list(prefix, options);
        if (answer.kind !== 'listed') return answer;
        return { ...answer, keys: shuffled(this.#prng, answer.keys) };
      },
      options,
    );
  }

  probe(options?: port.CallOptions): Promise<port.ProbeOutcome> {
    return this.#call<port.ProbeOutcome>(
      { op: 'probe', key: '' },
      (store) => store.probe(),
      options,
    );
  }

  close(): Promise<void> {
    if (this.#outstanding === 0) return Promise.resolve();
    return new Promise((resolve) => this.#closing.push(resolve));
  }

  /**
   * One call from request to answer.
   *
   * @param isUnchanged - false once the caller touched the bytes of a call that has not ended.
   */
  #call<T extends Answer>(
    part: { readonly op: BucketOp; readonly key: string; readonly bytes?: Uint8Array },
    apply: Apply<T>,
    options: port.CallOptions | undefined,
    isUnchanged: () => boolean = () => true,
  ): Promise<T> {
    const call: BucketCall = {
      ...part,
      process: this.#process,
      target: this.name,
      serial: this.#serial++,
    };
    const signal = options?.signal;
    if (signal?.aborted === true) {
      return Promise.resolve(unknown<T>(abortedError(signal, call.op)));
    }
    for (const observer of this.server.observers) observer.bucketSent?.(call);
    const fate = this.script.decide(call) ?? drawBucketFate(this.#prng, this.profile, call.op);
    for (const observer of this.server.observers) observer.bucketFate?.(call, fate);
    this.#scheduler.note(`${this.#describe(call)} ${describeFate(fate)}`);
    this.#outstanding++;
    return new Promise<T>((resolve) => {
      const exchange = new Exchange<T>({
        scheduler: this.#scheduler,
        owner: this.#owner,
        signal,
        timeoutMillis: this.profile.timeoutMillis,
        abandoned: (why) =>
          why === 'signal'
            ? unknown<T>(abortedError(signal!, call.op))
            : broken<T>('no answer before the time-out'),
        ended: (outcome) => {
          this.#ended(call, outcome);
          resolve(outcome);
        },
      });
      this.#carry(call, fate, exchange, apply, isUnchanged);
    });
  }

  #carry<T extends Answer>(
    call: BucketCall,
    fate: BucketFate,
    exchange: Exchange<T>,
    apply: Apply<T>,
    isUnchanged: () => boolean,
  ): void {
    const scripted: Partial<Extract<BucketFate, { kind: 'pass' }>> =
      fate.kind === 'pass' ? fate : {};
    const requestMillis = scripted.requestMillis ?? this.#latency('request');
    const arrive = (then: (outcome: T) => void): void => {
      void this.#arrive(call, exchange, apply, isUnchanged).then((outcome) => {
        if (outcome !== undefined) then(outcome);
      });
    };
    const reach = (delayMillis: number, then: (outcome: T) => void): void => {
      this.#scheduler.schedule(delayMillis, 'request', () => {
        if (scripted.requestGate === undefined) arrive(then);
        else scripted.requestGate.pass(() => arrive(then));
      });
    };
    const nothing = (): void => undefined;
    switch (fate.kind) {
      case 'pass':
        reach(requestMillis, (outcome) => {
          const answer = (): void => {
            exchange.answerAfter(scripted.responseMillis ?? this.#latency('response'), outcome);
          };
          if (scripted.responseGate === undefined) answer();
          else scripted.responseGate.pass(answer);
        });
        return;
      case 'lost-request':
        exchange.answerAfter(requestMillis, broken('the connection broke'));
        return;
      case 'lost-response':
        reach(requestMillis, () => {
          exchange.answerAfter(this.#latency('response'), broken('the connection broke'));
        });
        return;
      case 'late':
        reach(this.profile.timeoutMillis + fate.afterMillis, nothing);
        return;
      case 'hang':
        if (fate.stored === true) reach(requestMillis, nothing);
        return;
      case 'error': {
        const fail = (): void => {
          const outcome = broken<T>(`the store answered ${fate.status}`);
          exchange.answerAfter(this.#latency('response'), outcome);
        };
        if (fate.stored === true) reach(requestMillis, fail);
        else this.#scheduler.schedule(requestMillis, 'request', fail);
        return;
      }
      case 'refused':
        exchange.answerAfter(requestMillis, refusalOf<T>(call.op));
        return;
    }
  }

  /** The request is at the bucket; undefined when it got lost on the way. */
  async #arrive<T extends Answer>(
    call: BucketCall,
    exchange: Exchange<T>,
    apply: Apply<T>,
    isUnchanged: () => boolean,
  ): Promise<T | undefined> {
    if (!this.server.isReachableFrom(this.#process)) {
      // Refused at once or dropped: the caller cannot tell this from a lost answer.
      if (this.#prng.chance(0.5)) exchange.answerAfter(0, broken('the bucket is unreachable'));
      return undefined;
    }
    const cutOff = exchange.isAbandoned && exchange.age < this.profile.timeoutMillis;
    if (cutOff && this.#prng.chance(this.profile.cutOff)) return undefined;
    if (exchange.isOpen && !isUnchanged()) {
      this.#scheduler.fail(
        'memory',
        `${this.#describe(call)}: bytes changed before the call ended`,
      );
    }
    const outcome = await apply(this.server.store, call);
    this.#scheduler.note(`${this.#describe(call)} applied ${outcome.kind}`);
    this.#tell('bucketApplied', call, outcome);
    return outcome;
  }

  #latency(leg: 'request' | 'response'): number {
    return drawLatency(this.#prng, this.profile[leg]) * this.server.slowness;
  }

  #ended(call: BucketCall, outcome: Answer): void {
    this.#scheduler.note(`${this.#describe(call)} answers ${outcome.kind}`);
    this.#tell('bucketAnswered', call, outcome);
    this.#outstanding--;
    if (this.#outstanding === 0) for (const resolve of this.#closing.splice(0)) resolve();
  }

  #tell(what: 'bucketApplied' | 'bucketAnswered', call: BucketCall, outcome: Answer): void {
    for (const observer of this.server.observers) observer[what]?.(call, outcome);
  }

  #describe(call: BucketCall): string {
    return `${call.process} ${call.target} ${call.op} ${call.key} #${call.serial}`;
  }
}

function unknown<T>(cause: EngineError): T {
  return { kind: 'unknown', cause } as T;
}

function broken<T>(reason: string): T {
  return unknown(new EngineError('BUCKET_UNAVAILABLE', reason));
}

/** Only creations and probes have an outcome of their own for it. */
function refusalOf<T>(op: BucketOp): T {
  if (op !== 'createOnly' && op !== 'probe') {
    return unknown(new EngineError('BUCKET_REFUSED', 'the store refuses the call'));
  }
  const code = op === 'probe' ? 'BUCKET_REFUSED' : 'BUCKET_FULL';
  const cause = new EngineError(code, 'the store refused to create the object');
  return { kind: 'refused', cause } as T;
}

function describeFate(fate: BucketFate): string {
  if (fate.kind === 'error') return `error ${fate.status}${fate.stored === true ? ' stored' : ''}`;
  return fate.kind;
}

function shuffled<T>(prng: Prng, items: readonly T[]): T[] {
  const left = [...items];
  for (let i = left.length - 1; i > 0; i--) {
    const j = prng.below(i + 1);
    [left[i], left[j]] = [left[j]!, left[i]!];
  }
  return left;
}

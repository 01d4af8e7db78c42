/**
 * Runs a world of promises on virtual time: one event, then everything that follows from it, then
 * the next. What is due at one time runs in an order drawn from the seed.
 */
import { assert } from '../lib/assert.ts';
import { Prng } from '../lib/prng.ts';
import { assertSeed } from './check.ts';
import { EventQueue, type DueEvent } from './event-queue.ts';
import { History } from './history.ts';
import { SimulationFailure } from './simulation-failure.ts';

/** Whose event it is. An answer to a paused process waits for it; one to a dead process is lost. */
export interface EventOwner {
  readonly name: string;
  readonly state: 'running' | 'paused' | 'dead';
}

export interface ScheduledEvent extends DueEvent {
  readonly label: string;
  readonly run: () => void;
  readonly owner: EventOwner | undefined;
  /** Set aside because its owner is paused. */
  held: boolean;
}

export interface SchedulerOptions {
  readonly seed: number;
  /** More events than this are taken for a loop that never ends. */
  readonly maxSteps?: number;
  /** Virtual milliseconds after which the world should long be done. */
  readonly maxMillis?: number;
  readonly history?: History;
  readonly replay?: string;
}

/** `idle`: nothing is due any more. */
export type RunEnd = 'done' | 'idle';

const TIER_ORDINARY = 0;
const TIER_IMMEDIATE = 1;
/** Turns of the real event loop after which a world that still acts on its own is broken. */
const TURNS_MAX = 10_000;

/** Virtual time and the events in it; one seed, one order. */
export class Scheduler {
  readonly seed: number;
  readonly history: History;
  readonly replay: string;
  readonly #queue = new EventQueue<ScheduledEvent>();
  readonly #held = new Map<EventOwner, ScheduledEvent[]>();
  readonly #order: Prng;
  readonly #maxSteps: number;
  readonly #maxMillis: number;
  #time = 0;
  #serial = 0;
  #steps = 0;
  #running = false;
  #failure: SimulationFailure | undefined;

  constructor(options: SchedulerOptions) {
    assertSeed(options.seed);
    this.seed = options.seed;
    this.history = options.history ?? new History();
    this.replay = options.replay ?? `npm run sim -- --from ${options.seed} --seeds 1`;
    this.#order = this.prng('order');
    this.#maxSteps = options.maxSteps ?? 2_000_000;
    this.#maxMillis = options.maxMillis ?? 24 * 3_600_000;
  }

  /** Virtual milliseconds since the start. */
  get time(): number {
    return this.#time;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Events that are due some time, without those that wait for a paused process. */
  get pending(): number {
    return this.#queue.size;
  }

  /** A generator of its own for each purpose: what one part draws never shifts another's numbers. */
  prng(purpose: string): Prng {
    const text = `${this.seed}/${purpose}`;
    let high = 0x811c9dc5;
    let low = 0x9dc5811c;
    for (let i = 0; i < text.length; i++) {
      high = Math.imul(high ^ text.charCodeAt(i), 0x01000193);
      low = Math.imul(low ^ text.charCodeAt(i), 0x85ebca6b);
    }
    return new Prng((high >>> 11) * 2 ** 32 + (low >>> 0));
  }

  /** Adds a line with the time in front to the history. */
  note(line: string): void {
    this.history.note(`${this.#time.toFixed(3)} ${line}`);
  }

  schedule(
    delayMillis: number,
    label: string,
    run: () => void,
    owner?: EventOwner,
  ): ScheduledEvent {
    assert(!Number.isNaN(delayMillis), 'a delay is a number');
    return this.#push(this.#time + Math.max(0, delayMillis), TIER_ORDINARY, label, run, owner);
  }

  /** Runs after everything that is due now. */
  scheduleImmediate(label: string, run: () => void, owner?: EventOwner): ScheduledEvent {
    return this.#push(this.#time, TIER_IMMEDIATE, label, run, owner);
  }

  cancel(event: ScheduledEvent): void {
    if (event.held) event.cancelled = true;
    else this.#queue.cancel(event);
  }

  /** Makes what was held back for a woken process due now, in the order it had been due. */
  release(owner: EventOwner): void {
    const events = this.#held.get(owner) ?? [];
    this.#held.delete(owner);
    for (const event of events) {
      if (event.cancelled) continue;
      event.at = this.#time;
      event.order = 0;
      event.serial = this.#serial++;
      event.held = false;
      this.#queue.push(event);
    }
  }

  /** Runs until `isDone`, or until nothing is due any more. */
  async run(isDone: () => boolean = () => false): Promise<RunEnd> {
    assert(!this.#running, 'the scheduler runs already');
    this.#running = true;
    try {
      await this.settle();
      while (!isDone()) {
        if (!(await this.step())) return 'idle';
      }
      return 'done';
    } finally {
      this.#running = false;
    }
  }

  /** Runs everything that is due within the next `millis`. */
  async runFor(millis: number): Promise<void> {
    let over = false;
    const end = this.schedule(millis, 'end of run', () => (over = true));
    await this.run(() => over);
    this.cancel(end);
  }

  /** Runs the next event and what follows from it; false when nothing is due. */
  async step(): Promise<boolean> {
    const event = this.#next();
    if (event === undefined) return false;
    this.#steps++;
    this.#time = event.at;
    if (this.#steps > this.#maxSteps) {
      throw this.failure('step-limit', `more than ${this.#maxSteps} events happened`);
    }
    if (this.#time > this.#maxMillis) {
      throw this.failure('time-limit', `${this.#maxMillis} virtual milliseconds passed`);
    }
    this.history.mix(event.label);
    this.history.mixNumber(Math.round(event.at * 1000));
    event.run();
    await this.settle();
    if (this.#failure !== undefined) throw this.#failure;
    return true;
  }

  /**
   * Lets promises run until none of them is left to run. A turn of the event loop begins only when
   * the queue of microtasks is empty, so a turn in which nothing was scheduled is the end.
   */
  async settle(): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      const before = this.#serial;
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.#serial === before) return;
    }
    throw this.failure('turn-limit', 'promises go on scheduling without an event');
  }

  failure(rule: string, summary: string, cause?: unknown): SimulationFailure {
    return new SimulationFailure(rule, summary, this, cause);
  }

  /** Ends the run with a broken rule as soon as the event under way has ended; the first one counts. */
  fail(rule: string, summary: string, cause?: unknown): void {
    this.#failure ??= this.failure(rule, summary, cause);
  }

  #push(
    at: number,
    tier: number,
    label: string,
    run: () => void,
    owner: EventOwner | undefined,
  ): ScheduledEvent {
    const order = this.#order.uint32();
    const serial = this.#serial++;
    const event: ScheduledEvent = {
      at,
      tier,
      order,
      serial,
      cancelled: false,
      label,
      run,
      owner,
      held: false,
    };
    this.#queue.push(event);
    return event;
  }

  /** The next event that somebody lives to see; those of paused processes are set aside. */
  #next(): ScheduledEvent | undefined {
    for (;;) {
      const event = this.#queue.pop();
      if (event?.owner === undefined || event.owner.state === 'running') return event;
      if (event.owner.state === 'dead') continue;
      event.held = true;
      const held = this.#held.get(event.owner);
      if (held === undefined) this.#held.set(event.owner, [event]);
      else held.push(event);
    }
  }
}

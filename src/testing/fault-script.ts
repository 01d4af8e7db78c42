/** Rules that decide the fate of single calls by hand, before any probability is asked. */
import { assertFateKind } from './check.ts';
import type { Scheduler } from './scheduler.ts';

/** What a rule matches on; a call carries these fields. */
export interface MatchedCall {
  /** Name of the process that calls. */
  readonly process: string;
  /** Name of the bucket or of the metastore that is called. */
  readonly target: string;
  readonly op: string;
  readonly key: string;
  /** The value or object to be written, if the call writes one. */
  readonly bytes?: Uint8Array | undefined;
}

export interface FaultRule<Fate, Call extends MatchedCall = MatchedCall> {
  readonly process?: string;
  readonly target?: string;
  readonly op?: Call['op'] | readonly Call['op'][];
  /** A part of the key, or an expression that finds it. */
  readonly key?: string | RegExp;
  /** Any further condition, for example on the bytes. */
  readonly when?: (call: Call) => boolean;
  /** Spares this many matching calls first. */
  readonly skip?: number;
  /** Applies to this many calls; by default to one. */
  readonly times?: number;
  readonly fate: Fate | ((call: Call) => Fate | undefined);
}

export interface ActiveRule {
  /** Calls that the rule decided. */
  readonly hits: number;
  remove(): void;
}

interface RuleState<Fate, Call extends MatchedCall> {
  readonly rule: FaultRule<Fate, Call>;
  seen: number;
  hits: number;
}

/** Rules in order; the first that matches and answers decides. */
export class FaultScript<Fate, Call extends MatchedCall = MatchedCall> {
  readonly #rules: RuleState<Fate, Call>[] = [];
  readonly #kinds: readonly string[] | undefined;

  /** @param kinds - the fates that a rule may decide on; others are refused. */
  constructor(kinds?: readonly string[]) {
    this.#kinds = kinds;
  }

  /** @throws EngineError `INVALID_OPTION` for a fate that there is not. */
  add(rule: FaultRule<Fate, Call>): ActiveRule {
    if (typeof rule.fate !== 'function') this.#check(rule.fate);
    const state: RuleState<Fate, Call> = { rule, seen: 0, hits: 0 };
    this.#rules.push(state);
    return {
      get hits() {
        return state.hits;
      },
      remove: () => {
        const index = this.#rules.indexOf(state);
        if (index >= 0) this.#rules.splice(index, 1);
      },
    };
  }

  clear(): void {
    this.#rules.length = 0;
  }

  decide(call: Call): Fate | undefined {
    for (const state of this.#rules) {
      const { rule } = state;
      if (!matches(rule, call)) continue;
      if (state.seen++ < (rule.skip ?? 0)) continue;
      if (state.hits >= (rule.times ?? 1)) continue;
      const fate =
        typeof rule.fate === 'function'
          ? (rule.fate as (call: Call) => Fate | undefined)(call)
          : rule.fate;
      if (fate === undefined) continue;
      this.#check(fate);
      state.hits++;
      return fate;
    }
    return undefined;
  }

  #check(fate: Fate): void {
    if (this.#kinds === undefined) return;
    assertFateKind((fate as { readonly kind?: unknown } | null)?.kind, this.#kinds);
  }
}

function matches<Fate, Call extends MatchedCall>(rule: FaultRule<Fate, Call>, call: Call): boolean {
  if (rule.process !== undefined && rule.process !== call.process) return false;
  if (rule.target !== undefined && rule.target !== call.target) return false;
  if (rule.op !== undefined) {
    const ops: readonly string[] = typeof rule.op === 'string' ? [rule.op] : rule.op;
    if (!ops.includes(call.op)) return false;
  }
  if (typeof rule.key === 'string' && !call.key.includes(rule.key)) return false;
  if (rule.key instanceof RegExp && !rule.key.test(call.key)) return false;
  return rule.when?.(call) ?? true;
}

/** Holds what reaches it until a test opens it: builds one exact order of events. */
export class Gate {
  readonly #scheduler: Scheduler;
  readonly #label: string;
  readonly #waiting: (() => void)[] = [];
  #open = false;

  constructor(scheduler: Scheduler, label: string) {
    this.#scheduler = scheduler;
    this.#label = label;
  }

  /** How many wait now. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs `run` at once when open, else as an event of its own after `open`. */
  pass(run: () => void): void {
    if (this.#open) run();
    else this.#waiting.push(run);
  }

  open(): void {
    this.#open = true;
    for (const run of this.#waiting.splice(0)) {
      this.#scheduler.schedule(0, `gate ${this.#label}`, run);
    }
  }
}

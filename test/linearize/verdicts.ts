/** Judges histories and keeps the account of a run. */
import { check, type CheckLimits } from './checker.ts';
import { counterExampleOf, type CounterExample } from './counter-example.ts';
import { isStart, type HistoryEvent, type Result } from './events.ts';
import { isRequired, operationsOf } from './history.ts';

export interface JudgedHistory {
  /** Where it comes from, as a reader would look for it. */
  readonly label: string;
  readonly events: readonly HistoryEvent[];
  /** The command that makes or judges it again. */
  readonly replay: string;
}

export interface Violation {
  readonly label: string;
  readonly replay: string;
  /** Missing when time did not suffice to make it short. */
  readonly counterExample?: CounterExample | undefined;
  /** An engine that broke before its history was whole. */
  readonly failure?: string;
}

export class Account {
  histories = 0;
  operations = 0;
  readonly violations: Violation[] = [];
  readonly unknown: { readonly label: string; readonly replay: string }[] = [];
  readonly results: Record<Result['kind'], number> = {
    appendSuccess: 0,
    appendDefiniteFailure: 0,
    appendIndefiniteFailure: 0,
    readSuccess: 0,
    readFailure: 0,
    checkTailSuccess: 0,
    checkTailFailure: 0,
  };
  configurations = 0;
  /** Appends of unknown outcome that must have taken effect for the history to have an order. */
  tookEffect = 0;
  readonly #limits: CheckLimits;

  constructor(limits: CheckLimits = {}) {
    this.#limits = limits;
  }

  get isClean(): boolean {
    return this.violations.length === 0 && this.unknown.length === 0;
  }

  /** Was a history found that no right engine can have? */
  get isRejecting(): boolean {
    return this.violations.some(({ failure }) => failure === undefined);
  }

  judge({ label, events, replay }: JudgedHistory): void {
    this.histories++;
    for (const event of events) {
      if (isStart(event)) this.operations++;
      else this.results[event.result.kind]++;
    }
    const operations = operationsOf(events);
    const verdict = check(operations, this.#limits);
    this.configurations += verdict.configurations;
    if (verdict.kind === 'linearizable') {
      const { placed } = verdict.order;
      this.tookEffect += placed.filter((index) => !isRequired(operations[index]!)).length;
      return;
    }
    if (verdict.kind === 'unknown') {
      this.unknown.push({ label, replay });
      return;
    }
    const counterExample = counterExampleOf(events, this.#limits);
    this.violations.push({ label, replay, counterExample });
  }

  /** The run failed in another way than by its history. */
  broke(label: string, replay: string, failure: string): void {
    this.violations.push({ label, replay, failure });
  }
}

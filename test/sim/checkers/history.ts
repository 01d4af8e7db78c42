/** End to end, from what callers saw: A5, T2, reads, and a check-tail that is linearizable. */
import type { Operation, Outcome, SeenRecord } from '../operations.ts';
import { describe } from './acknowledged.ts';
import type { CheckContext, Checker } from './context.ts';

interface StreamView {
  /** Body seen at each position, by whomever first. */
  readonly bodies: Map<number, string>;
  readonly positions: Map<string, number>;
  /** Operations that prove a tail, in the order of their ends. */
  readonly floors: { readonly ended: number; readonly tail: number }[];
}

export class HistoryChecker implements Checker {
  readonly #context: CheckContext;
  readonly #streams = new Map<string, StreamView>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    const view = this.#view(operation.streamId);
    switch (outcome.kind) {
      case 'appended':
        for (const [index, body] of operation.bodies.entries()) {
          this.#see(operation, { seqNum: outcome.start + index, body });
        }
        this.#proveTail(view, operation, outcome.end);
        return;
      case 'tail':
        this.#checkTail(view, operation, outcome.tail);
        this.#proveTail(view, operation, outcome.tail);
        return;
      case 'read':
        this.#checkRead(view, operation, outcome.records, outcome.complete);
        this.#proveTail(view, operation, (outcome.records.at(-1)?.seqNum ?? -1) + 1);
        return;
      case 'failed': {
        const tail = tailSaid(outcome);
        if (tail !== undefined) {
          this.#checkTail(view, operation, tail);
          this.#proveTail(view, operation, tail);
        }
        if (outcome.code === 'TRIMMED') this.#checkTrimmed(operation, outcome.says);
        return;
      }
      case 'indeterminate':
    }
  }

  /** A read that is refused names the first position, and a trim that was asked for moved it there. */
  #checkTrimmed(operation: Operation, first: unknown): void {
    const { fail } = this.#context;
    if (typeof first !== 'number' || first <= operation.from) {
      fail(
        'T2',
        `${describe(operation)} from ${operation.from} is refused, first ${String(first)}`,
      );
    } else if (first > this.#highestTrim(operation.streamId, () => true)) {
      fail('T2', `${describe(operation)} is refused below ${first}, where nobody trimmed`);
    }
  }

  /** What is not readable any more was trimmed, and what was trimmed is not readable any more. */
  #checkFirst(streamId: string, first: number): void {
    const { fail } = this.#context;
    const asked = this.#highestTrim(streamId, () => true);
    const done = this.#highestTrim(streamId, ({ outcome }) => outcome?.kind === 'appended');
    if (first > asked) fail('T2', `${streamId} begins at ${first}, it was trimmed to ${asked}`);
    if (first < done) fail('T2', `${streamId} begins at ${first}, a trim to ${done} was answered`);
  }

  #highestTrim(streamId: string, counts: (operation: Operation) => boolean): number {
    let highest = 0;
    for (const operation of this.#context.log.operations) {
      const body = operation.bodies[0];
      if (operation.streamId !== streamId || body?.startsWith('#trim:') !== true) continue;
      if (counts(operation)) highest = Math.max(highest, Number(body.slice('#trim:'.length)));
    }
    return highest;
  }

  /** A5: by now everybody has been told. */
  rested(): void {
    for (const operation of this.#context.log.pending) {
      this.#context.fail('A5', `${describe(operation)} was never answered`);
    }
  }

  finished(streamId: string, from: number, records: readonly SeenRecord[]): void {
    const { fail, log } = this.#context;
    const view = this.#view(streamId);
    const finalBodies = new Map<number, string>();
    for (const [index, { seqNum, body }] of records.entries()) {
      finalBodies.set(seqNum, body);
      if (seqNum !== from + index) fail('R2', `${streamId} has nothing at ${from + index}`);
    }
    this.#checkFirst(streamId, from);
    const count = new Map<string, number>();
    for (const { body } of records) count.set(body, (count.get(body) ?? 0) + 1);
    for (const [seqNum, body] of view.bodies) {
      if (seqNum < from || finalBodies.get(seqNum) === body) continue;
      const found = finalBodies.get(seqNum) ?? 'nothing';
      fail('T2', `${body} of ${streamId} was seen at ${seqNum}, in the end ${found} is there`);
    }
    for (const operation of log.operations) {
      if (operation.streamId !== streamId) continue;
      for (const body of operation.bodies) this.#checkFinal(operation, count.get(body) ?? 0);
      const tail = tailSaid(operation.outcome);
      if (tail !== undefined) this.#checkInvoked(operation, tail, finalBodies, from);
    }
  }

  #checkFinal(operation: Operation, count: number): void {
    const { fail } = this.#context;
    const isTrim = operation.bodies[0]?.startsWith('#trim:') === true;
    if (isTrim || operation.bodies[0] === '#fence:') return;
    if (count > 1) fail('T2', `a record of ${describe(operation)} is there ${count} times`);
    if (operation.outcome?.kind === 'failed' && count > 0) {
      fail(
        'A5',
        `${describe(operation)} failed as ${operation.outcome.code}, but its record is there`,
      );
    }
  }

  /** A tail counts only records that had been sent when it was answered. */
  #checkInvoked(
    operation: Operation,
    tail: number,
    finalBodies: ReadonlyMap<number, string>,
    from: number,
  ): void {
    const { fail, log } = this.#context;
    for (let seqNum = from; seqNum < tail; seqNum++) {
      const body = finalBodies.get(seqNum);
      const isCommand = body?.startsWith('#') === true;
      const id = body === undefined || isCommand ? undefined : Number(body.split(':')[1]);
      const sender = id === undefined ? undefined : log.operations[id];
      if (body === undefined) {
        fail('L1', `${describe(operation)} answered ${tail}, but nothing is at ${seqNum}`);
      } else if (sender !== undefined && sender.began > operation.ended!) {
        fail('L1', `${describe(operation)} answered ${tail} before ${body} was sent`);
      }
    }
  }

  #checkTail(view: StreamView, operation: Operation, tail: number): void {
    const floor = floorBefore(view, operation.began);
    if (tail >= floor) return;
    this.#context.fail('L1', `${describe(operation)} answered ${tail} after ${floor} was known`);
  }

  #checkRead(
    view: StreamView,
    operation: Operation,
    records: readonly SeenRecord[],
    complete: boolean,
  ): void {
    const { fail } = this.#context;
    let next = operation.from;
    for (const record of records) {
      if (record.seqNum !== next) {
        fail('T2', `${describe(operation)} jumps from ${next} to ${record.seqNum}`);
      }
      next = record.seqNum + 1;
      this.#see(operation, record);
    }
    const floor = floorBefore(view, operation.began);
    if (complete && next < floor) {
      fail('L1', `${describe(operation)} ended at ${next} after ${floor} was known`);
    }
  }

  #see(operation: Operation, { seqNum, body }: SeenRecord): void {
    const { fail } = this.#context;
    const { bodies, positions } = this.#view(operation.streamId);
    const known = bodies.get(seqNum);
    if (known === undefined) bodies.set(seqNum, body);
    else if (known !== body) {
      fail('T2', `${describe(operation)} saw ${body} at ${seqNum}, where ${known} was seen`);
    }
    if (body.startsWith('#')) return;
    const before = positions.get(body);
    if (before === undefined) positions.set(body, seqNum);
    else if (before !== seqNum) {
      fail('T2', `${describe(operation)} saw ${body} at ${seqNum}, before at ${before}`);
    }
  }

  #proveTail(view: StreamView, operation: Operation, tail: number): void {
    const before = view.floors.at(-1)?.tail ?? 0;
    view.floors.push({ ended: operation.ended!, tail: Math.max(before, tail) });
  }

  #view(streamId: string): StreamView {
    const known = this.#streams.get(streamId);
    if (known !== undefined) return known;
    const view: StreamView = { bodies: new Map(), positions: new Map(), floors: [] };
    this.#streams.set(streamId, view);
    return view;
  }
}

/** A refusal by number is a tail read as well (L1). */
function tailSaid(outcome: Outcome | undefined): number | undefined {
  if (outcome?.kind === 'tail') return outcome.tail;
  if (outcome?.kind !== 'failed' || outcome.code !== 'SEQ_NUM_MISMATCH') return undefined;
  return typeof outcome.says === 'number' ? outcome.says : undefined;
}

/** The highest tail that somebody knew before an operation began. */
function floorBefore({ floors }: StreamView, began: number): number {
  let low = 0;
  let high = floors.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (floors[middle]!.ended < began) low = middle + 1;
    else high = middle;
  }
  return floors[low - 1]?.tail ?? 0;
}

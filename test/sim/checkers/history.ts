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
      case 'failed':
      case 'indeterminate':
    }
  }

  /** A5: by now everybody has been told. */
  rested(): void {
    for (const operation of this.#context.log.pending) {
      this.#context.fail('A5', `${describe(operation)} was never answered`);
    }
  }

  /** What the stream holds in the end, read by a process that saw nothing of it before. */
  finish(streamId: string, from: number, records: readonly SeenRecord[]): void {
    const { fail, log } = this.#context;
    const view = this.#view(streamId);
    const finalBodies = new Map(records.map(({ seqNum, body }) => [seqNum, body]));
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
      if (operation.outcome?.kind === 'tail') {
        this.#checkInvoked(operation, operation.outcome.tail, finalBodies, from);
      }
    }
  }

  #checkFinal(operation: Operation, count: number): void {
    const { fail } = this.#context;
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
      const sender = body === undefined ? undefined : log.operations[Number(body.split(':')[1])];
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

/** What an acknowledgement must keep of its request: K its conditions, T5 that the stream exists. */
import type { Operation, Outcome } from '../operations.ts';
import { describe } from './acknowledged.ts';
import type { CheckContext, Checker } from './context.ts';

/** K: a batch that names the number it expects gets that number or none. */
export class ConditionChecker implements Checker {
  readonly #context: CheckContext;

  constructor(context: CheckContext) {
    this.#context = context;
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    const { matchSeqNum } = operation;
    if (matchSeqNum === undefined || outcome.kind !== 'appended') return;
    if (outcome.start === matchSeqNum) return;
    this.#context.fail(
      'K',
      `${describe(operation)} is appended at ${outcome.start}, it asked for ${matchSeqNum}`,
    );
  }
}

/** T5: nothing that was asked for after a deletion was answered is appended to the deleted stream. */
export class DeletionChecker implements Checker {
  readonly #context: CheckContext;
  /** Number of the first operation after the deletion, by stream id. */
  readonly #deleted = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  /** Told when the caller of a deletion was told so. */
  deleted(streamId: string): void {
    this.#deleted.set(streamId, this.#context.log.operations.length);
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    const from = this.#deleted.get(operation.streamId);
    if (from === undefined || outcome.kind !== 'appended' || operation.id < from) return;
    this.#context.fail('T5', `${describe(operation)} is acknowledged into a deleted stream`);
  }
}

/** What an acknowledgement must keep of its request: K its conditions, T5 that the stream exists. */
import { commandOf } from '../../../src/format/records.ts';
import type { Operation, Outcome } from '../operations.ts';
import { describe } from './acknowledged.ts';
import type { CheckContext, Checker } from './context.ts';

/**
 * K: a batch that names the number it expects gets that number or none, and one that gives a token is
 * appended behind a fence record of that token only.
 */
export class ConditionChecker implements Checker {
  readonly #context: CheckContext;

  constructor(context: CheckContext) {
    this.#context = context;
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    if (outcome.kind !== 'appended') return;
    const { matchSeqNum, fencingToken, streamId } = operation;
    if (matchSeqNum !== undefined && outcome.start !== matchSeqNum) {
      this.#context.fail(
        'K',
        `${describe(operation)} is appended at ${outcome.start}, it asked for ${matchSeqNum}`,
      );
    }
    if (fencingToken === undefined) return;
    const inForce = this.#tokenBefore(streamId, outcome.start);
    if (inForce === fencingToken) return;
    this.#context.fail(
      'K',
      `${describe(operation)} is appended under "${inForce}", it gave "${fencingToken}"`,
    );
  }

  /** The token of the last fence record below the number, as far as slots were written. */
  #tokenBefore(streamId: string, seqNum: number): string {
    const { slots } = this.#context;
    let found = { seqNum: -1, token: '' };
    for (const place of slots.placesOf(streamId, 0, seqNum)) {
      for (const record of slots.recordsOf(place)) {
        if (record.seqNum >= seqNum || record.seqNum <= found.seqNum) continue;
        const command = record.headers.length === 1 ? commandOf(record) : undefined;
        if (command?.command !== 'fence') continue;
        found = { seqNum: record.seqNum, token: command.fencingToken };
      }
    }
    return found.token;
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

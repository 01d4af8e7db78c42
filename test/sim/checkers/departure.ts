/**
 * From the moment at which a released or deleted record is sent: L2 its sender serves the stream no
 * more, and N it acknowledges nothing beyond the tail that it released, because every batch was
 * resolved before.
 */
import { parseRecordValue, writerRecord } from '../../../src/protocol/records.ts';
import type { MetaCall } from '../../../src/testing/meta-fates.ts';
import type { WriterChange } from '../meta-index.ts';
import type { Operation, Outcome } from '../operations.ts';
import { describe } from './acknowledged.ts';
import type { CheckContext, Checker } from './context.ts';

export class DepartureChecker implements Checker {
  readonly #context: CheckContext;
  /** What was released, and when in logical time, by process and stream. */
  readonly #left = new Map<string, { readonly tail: number; readonly at: number }>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  metaSent(call: MetaCall): void {
    const match = /^streams\/([^/]+)\/writer$/.exec(call.key);
    if (match === null || call.op !== 'put' || call.bytes === undefined) return;
    const record = parseRecordValue(writerRecord, call.key, call.bytes);
    const name = `${call.process} ${match[1]!}`;
    // A tenure that is claimed again: the open gate reads the tail anew.
    if (record.kind === 'tenure') this.#left.delete(name);
    else {
      const tail = record.kind === 'released' ? record.tail : Number.POSITIVE_INFINITY;
      this.#left.set(name, { tail, at: this.#context.log.ticks });
    }
  }

  writerChanged(streamId: string, { record, process }: WriterChange): void {
    if (record.kind === 'tenure') this.#left.delete(`${process} ${streamId}`);
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    // Of a forwarded operation nobody here knows who answered it.
    if (operation.mayBeForwarded === true) return;
    const left = this.#left.get(`${operation.process} ${operation.streamId}`);
    if (left === undefined) return;
    const { tail, at } = left;
    const { fail } = this.#context;
    if (outcome.kind === 'tail') {
      fail('L2', `${describe(operation)} answered ${outcome.tail} after its release was sent`);
    }
    // One that began before may have confirmed its tail before; its records do not change.
    if (outcome.kind === 'read' && outcome.complete && operation.began >= at) {
      fail('L2', `${describe(operation)} began after its release was sent, and was answered`);
    }
    if (outcome.kind === 'appended' && outcome.end > tail) {
      fail('N', `${describe(operation)} ends at ${outcome.end}, released was ${tail}`);
    }
  }
}

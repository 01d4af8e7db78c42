/**
 * L2: whoever sent a released or deleted record of a stream serves the stream no more, until a tenure
 * of its own was written after that.
 */
import { parseRecordValue, writerRecord } from '../../../src/protocol/records.ts';
import type { MetaCall } from '../../../src/testing/meta-fates.ts';
import type { WriterChange } from '../meta-index.ts';
import type { Operation, Outcome } from '../operations.ts';
import { describe } from './acknowledged.ts';
import type { CheckContext, Checker } from './context.ts';

interface Leading {
  /** Logical time at which the stream was given up last. */
  leftAt?: number;
  /** Whether a tenure was written after that. */
  isBack: boolean;
}

export class ServingChecker implements Checker {
  readonly #context: CheckContext;
  readonly #leading = new Map<string, Leading>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  metaSent({ op, key, bytes, process }: MetaCall): void {
    const streamId = op === 'put' ? /^streams\/([0-9a-f]+)\/writer$/.exec(key)?.[1] : undefined;
    if (streamId === undefined || bytes === undefined) return;
    if (parseRecordValue(writerRecord, key, bytes).kind === 'tenure') return;
    const leading = this.#of(process, streamId);
    leading.leftAt = this.#context.log.ticks;
    leading.isBack = false;
  }

  writerChanged(streamId: string, { process, record }: WriterChange): void {
    if (record.kind === 'tenure') this.#of(process, streamId).isBack = true;
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    // Which engine answers a call that may be forwarded is not known.
    if (operation.mayBeForwarded === true) return;
    const served =
      outcome.kind === 'appended' ||
      outcome.kind === 'tail' ||
      (outcome.kind === 'failed' && outcome.code === 'SEQ_NUM_MISMATCH');
    const { leftAt, isBack } = this.#of(operation.process, operation.streamId);
    if (!served || leftAt === undefined || isBack || operation.began < leftAt) return;
    this.#context.fail('L2', `${describe(operation)} is served after the stream was given up`);
  }

  #of(process: string, streamId: string): Leading {
    const name = `${process} ${streamId}`;
    const known = this.#leading.get(name);
    if (known !== undefined) return known;
    const leading: Leading = { isBack: false };
    this.#leading.set(name, leading);
    return leading;
  }
}

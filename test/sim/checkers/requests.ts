/** What an answer must keep of its request: K its conditions, T5 that the stream exists. */
import type { WriterChange } from '../meta-index.ts';
import type { Operation, Outcome, SeenRecord } from '../operations.ts';
import type { EntryPlace } from '../slot-index.ts';
import { describe } from './acknowledged.ts';
import { DurablePrefixes, type CheckContext, type Checker } from './context.ts';

interface FenceRecord {
  readonly seqNum: number;
  readonly token: string;
  readonly place: EntryPlace;
}

const FENCE = '#fence:';

/**
 * K: a batch that names the number it expects gets that number or none, and one that gives a token is
 * appended behind a fence record of that token only. A refusal names what is in force, and what it
 * was judged by is durable when it is answered.
 */
export class ConditionChecker implements Checker {
  readonly #context: CheckContext;
  readonly #prefixes: DurablePrefixes;
  readonly #fences = new Map<string, { seen: number; readonly records: FenceRecord[] }>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.#prefixes = new DurablePrefixes(context);
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    if (outcome.kind === 'appended') this.#checkAppended(operation, outcome.start);
    if (outcome.kind !== 'failed' || outcome.says === undefined) return;
    if (outcome.code === 'SEQ_NUM_MISMATCH') this.#checkNumber(operation, Number(outcome.says));
    if (outcome.code === 'FENCING_TOKEN_MISMATCH') {
      this.#checkToken(operation, String(outcome.says));
    }
  }

  /** Tokens that were in force where batches stand, by what is there in the end. */
  finished(streamId: string, first: number, records: readonly SeenRecord[]): void {
    const fences = records.filter(({ body }) => body.startsWith(FENCE));
    for (const operation of this.#context.log.operations) {
      const { outcome, fencingToken } = operation;
      if (operation.streamId !== streamId || fencingToken === undefined) continue;
      if (outcome?.kind !== 'appended') continue;
      const last = fences.findLast(({ seqNum }) => seqNum < outcome.start);
      // What was in force where the stream begins now is not readable any more.
      if (last === undefined && first > 0) continue;
      this.#checkForce(operation, outcome.start, last?.body.slice(FENCE.length) ?? '');
    }
  }

  #checkAppended(operation: Operation, start: number): void {
    const { matchSeqNum, fencingToken, streamId } = operation;
    if (matchSeqNum !== undefined && start !== matchSeqNum) {
      this.#context.fail(
        'K',
        `${describe(operation)} is appended at ${start}, it asked for ${matchSeqNum}`,
      );
    }
    if (fencingToken === undefined) return;
    // Everything below an acknowledged record is durable, and nothing else is there.
    const before = this.#fencesOf(streamId)
      .filter(({ seqNum, place }) => seqNum < start && this.#isDurable(place))
      .sort((a, b) => a.seqNum - b.seqNum);
    this.#checkForce(operation, start, before.at(-1)?.token ?? '');
  }

  #checkForce(operation: Operation, start: number, inForce: string): void {
    const { fencingToken } = operation;
    if (inForce === fencingToken) return;
    this.#context.fail(
      'K',
      `${describe(operation)} is appended at ${start} under "${inForce}", it gave "${fencingToken ?? ''}"`,
    );
  }

  #checkNumber(operation: Operation, expected: number): void {
    const { fail, slots } = this.#context;
    const { streamId, matchSeqNum } = operation;
    const isMismatch = matchSeqNum !== undefined && matchSeqNum !== expected;
    if (!isMismatch) fail('K', `${describe(operation)} is refused though ${expected} is right`);
    if (expected === 0) return;
    const places = slots.placesOf(streamId, expected - 1, expected);
    if (places.some((place) => this.#isDurable(place))) return;
    fail('K', `${describe(operation)} is refused by number ${expected}, which is not durable`);
  }

  #checkToken(operation: Operation, token: string): void {
    const { fail, log } = this.#context;
    const { streamId } = operation;
    // The right token is refused, too: by a handle that a newer one has ended.
    const installed = this.#fencesOf(streamId).filter((record) => record.token === token);
    const durable = installed.filter(({ place }) => this.#isDurable(place));
    if (durable.length === 0 && token !== '') {
      fail('K', `${describe(operation)} is refused by "${token}", which is not durable`);
    }
    // A newer token that somebody was told of before the call began is in force for it.
    const known = log.operations.reduce((highest, { streamId: other, bodies, outcome, ended }) => {
      const isFence = other === streamId && bodies[0]?.startsWith(FENCE) === true;
      if (!isFence || outcome?.kind !== 'appended' || ended! > operation.began) return highest;
      return Math.max(highest, outcome.start);
    }, -1);
    const newest = token === '' && installed.length === 0 ? -1 : maxOf(durable);
    if (newest < known) {
      fail('K', `${describe(operation)} is refused by "${token}" after a newer one was known`);
    }
  }

  /** The slot has its W copies as all below it, and no cut takes it away. */
  #isDurable({ at }: EntryPlace): boolean {
    const cut = this.#context.meta.epoch(at.star, at.epoch)?.record.cut;
    if (cut !== undefined && at.slot >= cut) return false;
    return this.#prefixes.of(at.star, at.epoch) > at.slot;
  }

  /** Every fence record that was ever sent for the stream. */
  #fencesOf(streamId: string): readonly FenceRecord[] {
    const { slots } = this.#context;
    let known = this.#fences.get(streamId);
    if (known === undefined) {
      known = { seen: 0, records: [] };
      this.#fences.set(streamId, known);
    }
    const places = slots.allPlacesOf(streamId);
    for (; known.seen < places.length; known.seen++) {
      const place = places[known.seen]!;
      if (place.entry.delta?.fencingToken === undefined) continue;
      for (const [index, text] of slots.textsOf(place).entries()) {
        if (!text.startsWith(FENCE)) continue;
        const seqNum = place.entry.firstSeqNum + index;
        known.records.push({ seqNum, token: text.slice(FENCE.length), place });
      }
    }
    return known.records;
  }
}

function maxOf(records: readonly FenceRecord[]): number {
  return records.reduce((highest, { seqNum }) => Math.max(highest, seqNum), -1);
}

/** T5: nothing that was asked for after a deletion was decided is appended to the deleted stream. */
export class DeletionChecker implements Checker {
  readonly #context: CheckContext;
  /** Number of the first operation after the deletion, by stream id. */
  readonly #deleted = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  /** Told when the caller of a deletion was told so. */
  deleted(streamId: string): void {
    this.#note(streamId);
  }

  writerChanged(streamId: string, { record }: WriterChange): void {
    if (record.kind === 'deleted') this.#note(streamId);
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    const from = this.#deleted.get(operation.streamId);
    if (from === undefined || outcome.kind !== 'appended' || operation.id < from) return;
    this.#context.fail('T5', `${describe(operation)} is acknowledged into a deleted stream`);
  }

  finished(streamId: string): void {
    if (!this.#deleted.has(streamId)) return;
    this.#context.fail('T5', `${streamId} is opened after it was deleted`);
  }

  #note(streamId: string): void {
    if (!this.#deleted.has(streamId)) {
      this.#deleted.set(streamId, this.#context.log.operations.length);
    }
  }
}

/** How often a run reached the situations that it is there for. */
import { parsePreamble } from '../../src/format/preamble.ts';
import type { CreateOutcome } from '../../src/ports/bucket-store.ts';
import type { BucketCall } from '../../src/testing/bucket-fates.ts';
import type { MetaCall } from '../../src/testing/meta-fates.ts';
import type { Operation, Outcome } from './operations.ts';
import type { CheckContext, Checker } from './checkers/context.ts';
import type { EpochChange, WriterChange } from './meta-index.ts';
import { addressOf } from './slot-index.ts';

export const SITUATIONS = [
  'acknowledged',
  'definiteFailure',
  'indeterminate',
  'crashWithUnacknowledged',
  'restart',
  'reopened',
  'roll',
  'revival',
  'republished',
  'stoppedByPoison',
  'sameAfterLostResponse',
  'repair',
  'lateArrivalAboveCut',
  'cutPublished',
  'publishConflict',
  'undecided',
  'decidedAfterUndecided',
  'settled',
  'tailSwept',
  'takeover',
  'cleanRelease',
  'absorbed',
  'checkpointAdvanced',
  'staleRead',
  'indeterminateMetaWrite',
  'tailConfirmed',
  'readBack',
] as const;
export type Situation = (typeof SITUATIONS)[number];

export class Counters implements Checker {
  readonly counts: Record<Situation, number>;
  readonly outcomes: Record<string, number> = {};
  readonly #context: CheckContext;
  readonly #unknown = new Set<string>();
  readonly #undecided = new Set<string>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.counts = Object.fromEntries(SITUATIONS.map((name) => [name, 0])) as Counters['counts'];
  }

  add(situation: Situation, amount = 1): void {
    this.counts[situation] += amount;
  }

  /** What the gauge of a process shows now; asked for now and then. */
  undecidedAge(process: string, ageMillis: number): void {
    const was = this.#undecided.has(process);
    if (ageMillis > 0) {
      this.#undecided.add(process);
      if (!was) this.add('undecided');
    } else if (this.#undecided.delete(process)) this.add('decidedAfterUndecided');
  }

  operationEnded(operation: Operation, outcome: Outcome): void {
    const code = 'code' in outcome ? outcome.code : outcome.kind;
    const name = `${operation.kind} ${code}`;
    this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
    if (outcome.kind === 'appended') {
      this.add('acknowledged');
      const { slots } = this.#context;
      const places = slots.placesOf(operation.streamId, outcome.start, outcome.start + 1);
      if (places.length > 1) this.add('republished');
    }
    if (outcome.kind === 'tail') this.add('tailConfirmed');
    else if (outcome.kind === 'read') this.add('readBack', outcome.records.length);
    else if (operation.kind === 'append' && outcome.kind !== 'appended') {
      this.add(outcome.kind === 'failed' ? 'definiteFailure' : 'indeterminate');
    }
  }

  bucketAnswered(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const name = `${call.process} ${call.target} ${call.key}`;
    if (outcome.kind === 'unknown') this.#unknown.add(name);
    if (outcome.kind !== 'exists') return;
    const read = parsePreamble((outcome as Extract<CreateOutcome, { kind: 'exists' }>).head);
    if (!read.ok) return;
    const epoch = this.#context.meta.epoch(address.star, address.epoch);
    if (read.preamble.kind === 'flight') {
      if (this.#unknown.has(name)) this.add('sameAfterLostResponse');
    } else if (epoch?.minter === call.process) this.add('stoppedByPoison');
  }

  bucketApplied(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const read = parsePreamble(call.bytes!);
    if (!read.ok || read.preamble.kind !== 'flight') return;
    const epoch = this.#context.meta.epoch(address.star, address.epoch);
    if (epoch === undefined) return;
    const { cut } = epoch.record;
    if (cut !== undefined && address.slot >= cut) this.add('lateArrivalAboveCut');
    if (epoch.minter !== call.process && outcome.kind === 'created') this.add('repair');
  }

  metaConflicted(call: MetaCall): void {
    if (call.op === 'put' && /^chains\/[^/]+\/\d{16}$/.test(call.key)) this.add('publishConflict');
  }

  metaFailed(_call: MetaCall, code: string): void {
    if (code === 'METASTORE_INDETERMINATE') this.add('indeterminateMetaWrite');
  }

  metaStale(): void {
    this.add('staleRead');
  }

  epochChanged({ record, before, epoch, process }: EpochChange): void {
    if (before === undefined) {
      const earlier = this.#context.meta.epoch(epoch.star, epoch.epoch - 1);
      if (earlier?.record.incarnation === record.incarnation) this.add('roll');
      else if (earlier !== undefined && earlier.minter === process) this.add('revival');
      return;
    }
    if (record.cut !== undefined && before.cut === undefined) this.add('cutPublished');
    if (record.state === 'settled' && before.state !== 'settled') this.add('settled');
    if (record.tailSwept && !before.tailSwept) this.add('tailSwept');
    if (record.checkpoint > before.checkpoint) this.add('checkpointAdvanced');
  }

  writerChanged(_streamId: string, { record, before }: WriterChange): void {
    if (record.kind === 'released') this.add('cleanRelease');
    if (record.kind !== 'tenure' || before?.kind !== 'tenure') return;
    if (record.tenure.incarnation !== before.tenure.incarnation) this.add('takeover');
  }

  rowChanged(): void {
    this.add('absorbed');
  }
}

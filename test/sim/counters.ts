/** How often a run reached the situations that it is there for. */
import { parsePreamble } from '../../src/format/preamble.ts';
import type { CreateOutcome } from '../../src/ports/bucket-store.ts';
import { epochRecord, parseRecordValue } from '../../src/protocol/records.ts';
import type { BucketCall, BucketFate } from '../../src/testing/bucket-fates.ts';
import type { MetaCall, MetaFate } from '../../src/testing/meta-fates.ts';
import type { MetaChange } from '../../src/testing/meta-journal.ts';
import type { Operation, Outcome } from './operations.ts';
import type { CheckContext, Checker } from './checkers/context.ts';
import type { EpochChange, WriterChange } from './meta-index.ts';
import { addressOf, type SlotAddress } from './slot-index.ts';

/** Faults that were drawn, one counter each. */
const FAULTS = [
  'lostRequest',
  'lostResponse',
  'lateRequest',
  'hang',
  'storeConflict409',
  'storeExists412',
  'storeThrottled429',
  'storeErrorOther',
  'storeError503',
  'storeRefused',
  'bucketDown',
  'linkCut',
  'slowBucket',
  'bitFlip',
  'metaUnavailable',
  'metaLostResponse',
  'metaLate',
  'metaNever',
  'metaArrivedLate',
  'keyRecreatedLate',
  'metastoreDown',
  'isolation',
  'watchLost',
  'leaseEnded',
  'peerCut',
  'crash',
  'pause',
  'clockStep',
] as const;

export const SITUATIONS = [
  ...FAULTS,
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
  'repairRaced',
  'publishMetCut',
  'barrier',
  'barrierHit',
  'supersededSettle',
  'settledByOther',
  'markConsumed',
  'limboEntered',
  'limboLeft',
  'forceRelease',
  'drain',
  'handoff',
  'deleted',
  'recreated',
  'trimmed',
  'readBelowTrim',
  'tokenInstalled',
  'tokenAccepted',
  'tokenRefused',
  'numberAccepted',
  'numberRefused',
  'rejectionUnconfirmed',
  'reconfigured',
  'classChanged',
  'forwarded',
  'callerTimedOut',
] as const;
export type Situation = (typeof SITUATIONS)[number];

const REACHED_BY_CODE: Readonly<Record<string, Situation>> = {
  FENCING_TOKEN_MISMATCH: 'tokenRefused',
  SEQ_NUM_MISMATCH: 'numberRefused',
  REJECTION_UNCONFIRMED: 'rejectionUnconfirmed',
  TRIMMED: 'readBelowTrim',
  DEADLINE_EXCEEDED: 'callerTimedOut',
};
const REACHED_BY_STATUS: Readonly<Record<number, Situation>> = {
  409: 'storeConflict409',
  429: 'storeThrottled429',
  503: 'storeError503',
};
const REACHED_BY_BUCKET_FATE: Readonly<
  Record<Exclude<BucketFate['kind'], 'pass' | 'error'>, Situation>
> = {
  'lost-request': 'lostRequest',
  'lost-response': 'lostResponse',
  late: 'lateRequest',
  hang: 'hang',
  refused: 'storeRefused',
};
const REACHED_BY_META_FATE: Readonly<Record<Exclude<MetaFate['kind'], 'pass'>, Situation>> = {
  unavailable: 'metaUnavailable',
  'lost-response': 'metaLostResponse',
  late: 'metaLate',
  never: 'metaNever',
};

export class Counters implements Checker {
  readonly counts: Record<Situation, number>;
  readonly outcomes: Record<string, number> = {};
  readonly #context: CheckContext;
  /** Keys of slots that were poisoned ahead of the walk. */
  readonly #barriers = new Set<string>();
  /** Writes whose callers were told that the outcome is not known. */
  readonly #indeterminate = new WeakSet<MetaCall>();
  readonly #deletedKeys = new Set<string>();
  readonly #ids = new Map<string, string>();
  readonly #unknown = new Set<string>();
  readonly #undecided = new Set<string>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.counts = Object.fromEntries(SITUATIONS.map((name) => [name, 0])) as Counters['counts'];
  }

  add(situation: Situation, amount = 1): void {
    this.counts[situation] += amount;
  }

  outcome(name: string): void {
    this.outcomes[name] = (this.outcomes[name] ?? 0) + 1;
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
    this.outcome(`${operation.kind} ${code}`);
    const reached = REACHED_BY_CODE[code];
    if (reached !== undefined) this.add(reached);
    if (outcome.kind === 'appended') this.#appended(operation, outcome.start);
    const known = this.#ids.get(operation.stream);
    this.#ids.set(operation.stream, operation.streamId);
    if (known !== undefined && known !== operation.streamId) this.add('recreated');
    if (outcome.kind === 'tail') this.add('tailConfirmed');
    else if (outcome.kind === 'read') this.add('readBack', outcome.records.length);
    else if (operation.kind === 'append' && outcome.kind !== 'appended') {
      this.add(outcome.kind === 'failed' ? 'definiteFailure' : 'indeterminate');
    }
  }

  #appended(
    { process, streamId, matchSeqNum, fencingToken, bodies }: Operation,
    start: number,
  ): void {
    const { slots, meta } = this.#context;
    this.add('acknowledged');
    const places = slots.placesOf(streamId, start, start + 1);
    if (places.length > 1) this.add('republished');
    if (matchSeqNum !== undefined) this.add('numberAccepted');
    if (fencingToken !== undefined) this.add('tokenAccepted');
    if (bodies[0]?.startsWith('#fence:') === true) this.add('tokenInstalled');
    if (bodies[0]?.startsWith('#trim:') === true) this.add('trimmed');
    const minters = places.map(({ at }) => meta.epoch(at.star, at.epoch)?.minter);
    if (!minters.includes(process)) this.add('forwarded');
  }

  bucketFate(_call: BucketCall, fate: BucketFate): void {
    if (fate.kind === 'error') this.add(REACHED_BY_STATUS[fate.status] ?? 'storeErrorOther');
    else if (fate.kind !== 'pass') this.add(REACHED_BY_BUCKET_FATE[fate.kind]);
  }

  metaFate(_call: MetaCall, fate: MetaFate): void {
    if (fate.kind !== 'pass') this.add(REACHED_BY_META_FATE[fate.kind]);
  }

  metaWatchLost(): void {
    this.add('watchLost');
  }

  bucketAnswered(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const name = `${call.process} ${call.target} ${call.key}`;
    if (outcome.kind === 'unknown') this.#unknown.add(name);
    if (outcome.kind !== 'exists') return;
    this.add('storeExists412');
    const read = parsePreamble((outcome as Extract<CreateOutcome, { kind: 'exists' }>).head);
    if (!read.ok) return;
    const epoch = this.#context.meta.epoch(address.star, address.epoch);
    if (read.preamble.kind === 'flight') {
      if (this.#unknown.has(name)) this.add('sameAfterLostResponse');
      const sent = parsePreamble(call.bytes!);
      const isRepair = sent.ok && sent.preamble.kind === 'flight';
      if (isRepair && epoch !== undefined && epoch.minter !== call.process) {
        this.add('repairRaced');
      }
    } else if (epoch?.minter === call.process) {
      this.add('stoppedByPoison');
      if (this.#barriers.has(call.key)) this.add('barrierHit');
    }
  }

  bucketApplied(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const read = parsePreamble(call.bytes!);
    if (!read.ok) return;
    if (read.preamble.kind !== 'flight') {
      if (outcome.kind === 'created') this.#poisoned(call.key, address);
      return;
    }
    const epoch = this.#context.meta.epoch(address.star, address.epoch);
    if (epoch === undefined) return;
    const { cut } = epoch.record;
    if (cut !== undefined && address.slot >= cut) this.add('lateArrivalAboveCut');
    if (epoch.minter !== call.process && outcome.kind === 'created') this.add('repair');
  }

  /** The walk goes slot by slot: poison behind a slot that nobody touched is a barrier. */
  #poisoned(key: string, { star, epoch, slot }: SlotAddress): void {
    if (slot === 0 || this.#barriers.has(key)) return;
    const below = this.#context.slots.find({ star, epoch, slot: slot - 1 });
    const isTouched = below !== undefined && below.copies.size + below.poisoned.size > 0;
    if (isTouched) return;
    this.#barriers.add(key);
    this.add('barrier');
  }

  metaConflicted(call: MetaCall): void {
    if (call.op !== 'put' || !/^chains\/[^/]+\/\d{16}$/.test(call.key)) return;
    this.add('publishConflict');
    const wanted = parseRecordValue(epochRecord, call.key, call.bytes!);
    const { record } = this.#context.meta.epoch(wanted.star, wanted.epoch) ?? {};
    // Whether the cut is another's, to be adopted, or the publisher's own from before.
    if (wanted.state === 'fenced' && record?.cut !== undefined) this.add('publishMetCut');
  }

  metaFailed(call: MetaCall, code: string): void {
    if (code !== 'METASTORE_INDETERMINATE') return;
    this.add('indeterminateMetaWrite');
    this.#indeterminate.add(call);
  }

  metaArrived(call: MetaCall): void {
    // The caller was told before that nothing is known.
    if (!this.#indeterminate.has(call)) return;
    this.add('metaArrivedLate');
    const isAnew = call.op === 'put' && call.expected === 'absent';
    if (isAnew && this.#deletedKeys.has(call.key)) this.add('keyRecreatedLate');
  }

  metaChanged({ key, entry }: MetaChange): void {
    const isLimbo = key.startsWith('limbo/');
    if (entry === undefined) {
      this.#deletedKeys.add(key);
      if (isLimbo) this.add('limboLeft');
    } else {
      this.#deletedKeys.delete(key);
      if (isLimbo) this.add('limboEntered');
    }
  }

  metaStale(): void {
    this.add('staleRead');
  }

  epochChanged({ record, before, epoch, process }: EpochChange): void {
    if (before === undefined) {
      const earlier = this.#context.meta.epoch(epoch.star, epoch.epoch - 1);
      const old = earlier?.record;
      if (old !== undefined) {
        const isSame = old.copyQuorum === record.copyQuorum && old.window === record.window;
        if (!isSame) this.add('reconfigured');
        if (old.class !== record.class) this.add('classChanged');
      }
      if (earlier?.record.incarnation === record.incarnation) this.add('roll');
      else if (earlier !== undefined && earlier.minter === process) this.add('revival');
      return;
    }
    if (record.cut !== undefined && before.cut === undefined) this.add('cutPublished');
    if (record.state === 'settled' && before.state !== 'settled') {
      this.add('settled');
      const isOther = !process.startsWith(`${epoch.star}.`);
      if (isOther) this.add('settledByOther');
      const isSuperseded = this.#context.meta.epoch(epoch.star, epoch.epoch + 1) !== undefined;
      if (isOther && isSuperseded) this.add('supersededSettle');
    }
    if (record.tailSwept && !before.tailSwept) this.add('tailSwept');
    if (record.checkpoint > before.checkpoint) this.add('checkpointAdvanced');
  }

  writerChanged(_streamId: string, { record, before, process }: WriterChange): void {
    if (record.kind === 'deleted') this.add('deleted');
    if (record.kind === 'tenure' && before?.kind === 'released') {
      this.add('markConsumed');
      const isOther = before.tenure.star !== record.tenure.star;
      if (isOther && !process.startsWith('z.')) this.add('handoff');
    }
    if (record.kind === 'released') this.add('cleanRelease');
    if (record.kind !== 'tenure' || before?.kind !== 'tenure') return;
    if (record.tenure.incarnation !== before.tenure.incarnation) this.add('takeover');
  }

  rowChanged(): void {
    this.add('absorbed');
  }
}

/** The cut: F1 above all acknowledged slots, F3 the same for all, F4 no holes below, poison at it; P it stands. */
import { parsePreamble } from '../../../src/format/preamble.ts';
import { epochRecord, parseRecordValue } from '../../../src/protocol/records.ts';
import type { BucketCall } from '../../../src/testing/bucket-fates.ts';
import type { MetaCall } from '../../../src/testing/meta-fates.ts';
import type { EpochChange } from '../meta-index.ts';
import { addressOf, epochName } from '../slot-index.ts';
import { DurablePrefixes, type CheckContext, type Checker } from './context.ts';

export class FenceChecker implements Checker {
  readonly #context: CheckContext;
  readonly #prefixes: DurablePrefixes;
  /** The first cut that anybody tried to publish. */
  readonly #cuts = new Map<string, { readonly cut: number; readonly process: string }>();
  /** Cuts that the writer published itself, without poison. */
  readonly #closed = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
    this.#prefixes = new DurablePrefixes(context);
  }

  /** F3: attempts count as well, whether or not they win. */
  metaSent(call: MetaCall): void {
    if (call.op !== 'put' || !/^chains\/[^/]+\/\d{16}$/.test(call.key)) return;
    const { star, epoch, cut } = parseRecordValue(epochRecord, call.key, call.bytes!);
    if (cut === undefined) return;
    const name = epochName({ star, epoch });
    const first = this.#cuts.get(name);
    if (first === undefined) {
      this.#cuts.set(name, { cut, process: call.process });
    } else if (first.cut !== cut) {
      const text = `${first.process} derives the cut ${first.cut} of ${name}, ${call.process} ${cut}`;
      this.#context.fail('F3', text);
    }
  }

  epochChanged({ process, epoch, record, before }: EpochChange): void {
    const { fail, acks, slots } = this.#context;
    const { star } = epoch;
    const name = epochName(epoch);
    const { cut, checkpoint, rewritten, trimmed, swept } = record;
    const ordered = [0, swept, trimmed, rewritten, checkpoint, cut ?? checkpoint];
    if (ordered.some((cursor, index) => index > 0 && cursor < ordered[index - 1]!)) {
      fail('P', `the cursors of ${name} are out of order`);
    }
    if (before !== undefined && isBack(before, record)) {
      fail('P', `${process} takes the record of ${name} back`);
    }
    if (cut === undefined || before?.cut === cut) return;
    const lost = acks.ackedFrom(star, epoch.epoch, cut);
    if (lost !== undefined) {
      fail('F1', `${process} cuts ${name} at ${cut}, but slot ${lost} was acknowledged`);
    }
    const prefix = this.#prefixes.of(star, epoch.epoch);
    if (prefix < cut) fail('F4', `${process} cuts ${name} at ${cut} above the hole at ${prefix}`);
    const blocking = record.buckets - record.copyQuorum + 1;
    const poisoned = slots.find({ star, epoch: epoch.epoch, slot: cut })?.poisoned.size ?? 0;
    if (poisoned >= blocking) return;
    const sentAbove = [...slots.slotsOf(star, epoch.epoch)].some(
      ([slot, { contents }]) => slot >= cut && contents.length > 0,
    );
    if (process !== epoch.minter || sentAbove) {
      fail('F1', `${process} cuts ${name} at ${cut} with poison in ${poisoned} buckets there`);
    }
    this.#closed.set(name, cut);
  }

  /** A writer that published its own cut has ended. */
  bucketSent(call: BucketCall): void {
    const address = addressOf(call.key);
    if (address === undefined || call.op !== 'createOnly') return;
    const cut = this.#closed.get(epochName(address));
    if (cut === undefined || address.slot < cut) return;
    const isFlight = (this.#context.slots.find(address)?.contents.length ?? 0) > 0;
    if (isFlight) this.#context.fail('F2', `${call.process} writes ${call.key} after it closed`);
  }

  /** Poison stands until the star is decommissioned; flights below the cut, until they are trimmed. */
  bucketApplied(call: BucketCall, outcome: { readonly kind: string }): void {
    if (call.op !== 'delete' || outcome.kind !== 'deleted') return;
    const address = addressOf(call.key);
    if (address === undefined) return;
    const record = this.#context.meta.epoch(address.star, address.epoch)?.record;
    const state = this.#context.slots.find(address);
    const { cut, trimmed = 0, window = 0 } = record ?? {};
    const isBelow = address.slot < trimmed;
    const isTail = cut !== undefined && address.slot >= cut && address.slot <= cut + window;
    // The index saw the deletion first: a flight is still known by its content.
    const wasFlight = state?.held.has(call.target) === true;
    if (!wasFlight || !(isBelow || isTail)) {
      this.#context.fail('F1', `${call.process} deletes ${call.key} in ${call.target}`);
    }
  }
}

const STATES = ['open', 'fenced', 'settled', 'retired'];

function isBack(before: EpochChange['record'], after: EpochChange['record']): boolean {
  return (
    STATES.indexOf(after.state) < STATES.indexOf(before.state) ||
    after.checkpoint < before.checkpoint ||
    after.trimmed < before.trimmed ||
    after.swept < before.swept ||
    (before.cut !== undefined && after.cut !== before.cut) ||
    after.nonce !== before.nonce
  );
}

/**
 * C: completing a slot wins over killing it. Whoever was shown a flight in a slot since the epoch was
 * last quiet does not send poison for that slot.
 */
export class CompletionChecker implements Checker {
  readonly #context: CheckContext;
  /** When a process was last shown a flight in a slot. */
  readonly #shown = new Map<string, number>();
  /** The newest question to a bucket that was answered, by process and slot. */
  readonly #answered = new Map<string, number>();

  constructor(context: CheckContext) {
    this.#context = context;
  }

  bucketAnswered(call: BucketCall, outcome: { readonly kind: string }): void {
    const address = addressOf(call.key);
    if (address === undefined) return;
    // What an earlier question brings late, a probe's for example, no decision waits for.
    const question = `${call.process} ${call.target} ${call.key}`;
    if (call.serial < (this.#answered.get(question) ?? 0)) return;
    this.#answered.set(question, call.serial);
    const { bytes, head } = outcome as { readonly bytes?: Uint8Array; readonly head?: Uint8Array };
    const shown = outcome.kind === 'found' ? bytes : outcome.kind === 'exists' ? head : undefined;
    const read = shown === undefined ? undefined : parsePreamble(shown);
    if (read?.ok !== true || read.preamble.kind !== 'flight') return;
    // Another writer's flight counts for nothing.
    const nonce = this.#context.meta.epoch(address.star, address.epoch)?.record.nonce;
    if (read.preamble.nonce !== nonce) return;
    this.#shown.set(`${call.process} ${call.key}`, this.#context.world.scheduler.time);
  }

  bucketSent(call: BucketCall): void {
    if (call.op !== 'createOnly' || addressOf(call.key) === undefined) return;
    const read = parsePreamble(call.bytes!);
    if (!read.ok || read.preamble.kind !== 'poison') return;
    const at = this.#shown.get(`${call.process} ${call.key}`);
    // A later fence of the same process begins anew and may find the holder of the flight silent.
    if (at === undefined || this.#context.world.scheduler.time - at > FORGOTTEN_MILLIS) return;
    this.#context.fail(
      'C',
      `${call.process} poisons ${call.key} after it was shown a flight there`,
    );
  }
}

const FORGOTTEN_MILLIS = 1_000;

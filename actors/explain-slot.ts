/**
 * What each bucket holds of one slot, who wrote it, and why the slot is what it is. Looks only: it
 * writes nothing and decides nothing. Rules: src/protocol/slot.ts (C).
 */
import { inspectSlotObject } from '../src/format/slot-object.ts';
import { headLengths } from '../src/format/preamble.ts';
import { DEFAULT_HEAD_READ_BYTES, parseHeader } from '../src/format/flight.ts';
import { NO_EPOCH, parsePoison } from '../src/format/poison.ts';
import { PREAMBLE_BYTES } from '../src/format/preamble.ts';
import { slotKey } from '../src/protocol/keys.ts';
import { blockingSet } from '../src/protocol/quorum.ts';
import type { EpochRecord } from '../src/protocol/records.ts';
import {
  classify,
  CORRUPT,
  EMPTY,
  FLIGHT,
  markOddCopies,
  POISON,
  UNKNOWN,
  type CellCode,
  type SlotClass,
} from '../src/protocol/slot.ts';
import type { BucketSet, IdentityVerdict, SetBucket } from './bucket-set.ts';
import { slotDamage, type SlotDamage } from './slot-damage.ts';

export interface ExplainedCell {
  readonly bucket: string;
  readonly holds: 'flight' | 'poison' | 'empty' | 'foreign' | 'corrupt' | 'unknown';
  /** Whether the bucket shows the identity of its set, by a read begun after this look. */
  readonly identity: IdentityVerdict;
  readonly sizeBytes?: number;
  /** The copy counts towards W; false for one that differs from W identical others. */
  readonly counts: boolean;
  readonly flight?: {
    readonly nonce: string;
    readonly released: number;
    readonly entries: readonly {
      readonly streamId: string;
      readonly firstSeqNum: number;
      readonly count: number;
    }[];
    readonly bodyChecksum: number;
  };
  readonly poison?: {
    readonly byStar: string;
    readonly byIncarnation: string;
    readonly byEpoch?: number;
    readonly atMillis: number;
  };
  /** Why the bytes are corrupt, or why the bucket did not answer. */
  readonly problem?: string;
}

export interface ExplainedSlot {
  readonly star: string;
  readonly epoch: number;
  readonly slot: number;
  readonly buckets: number;
  readonly copyQuorum: number;
  readonly blockingSet: number;
  readonly state: EpochRecord['state'];
  readonly checkpoint: number;
  readonly cut?: number;
  readonly verdict: SlotClass['kind'];
  /** The slot is dead although it was acknowledged: a fence or a settlement refuses with this code. */
  readonly damage?: SlotDamage['code'];
  readonly cells: readonly ExplainedCell[];
  /** Sentences, in order: what follows from the record, from the copies, from what is missing. */
  readonly why: readonly string[];
}

interface Seen {
  readonly cell: ExplainedCell;
  readonly code: CellCode;
  readonly print: number;
}

export async function explainSlot(
  set: BucketSet,
  record: EpochRecord,
  slot: number,
  signal?: AbortSignal,
): Promise<ExplainedSlot> {
  const seen = await Promise.all(set.buckets.map((b, i) => look(b, i, record, slot, signal)));
  const quorum = { buckets: record.buckets, copies: record.copyQuorum };
  const codes = Uint8Array.from(seen, ({ code }) => code);
  markOddCopies(
    quorum,
    codes,
    seen.map(({ print }) => print),
  );
  const verdict = classify(quorum, codes);
  const damage = verdict.kind === 'dead' ? await slotDamage(set, record, slot, signal) : undefined;
  return {
    star: record.star,
    epoch: record.epoch,
    slot,
    buckets: quorum.buckets,
    copyQuorum: quorum.copies,
    blockingSet: blockingSet(quorum),
    state: record.state,
    checkpoint: record.checkpoint,
    ...(record.cut === undefined ? {} : { cut: record.cut }),
    verdict: verdict.kind,
    ...(damage === undefined ? {} : { damage: damage.code }),
    cells: seen.map(({ cell }, index) => ({ ...cell, counts: codes[index] === FLIGHT })),
    why: [...reasons(record, slot, codes, verdict.kind), ...(damage?.why ?? [])],
  };
}

async function look(
  bucket: SetBucket | undefined,
  index: number,
  record: EpochRecord,
  slot: number,
  signal: AbortSignal | undefined,
): Promise<Seen> {
  if (bucket === undefined) {
    const problem = 'this bucket of the set is not configured';
    return seenAs(
      { bucket: `#${index.toString()}`, holds: 'unknown', identity: 'unknown', problem },
      UNKNOWN,
    );
  }
  const { star, epoch, nonce } = record;
  const { store } = bucket;
  const read = await store.readHead(slotKey(star, epoch, slot), DEFAULT_HEAD_READ_BYTES, {
    signal,
  });
  // After the look: an absence or poison counts only in the bucket it claims to be.
  const identity = await bucket.confirm(signal);
  const base = { bucket: store.name, identity };
  if (read.kind === 'unknown') {
    return seenAs({ ...base, holds: 'unknown', problem: read.cause.message }, UNKNOWN);
  }
  if (read.kind === 'absent') {
    return seenAs({ ...base, holds: 'empty' }, identity === 'confirmed' ? EMPTY : UNKNOWN);
  }
  const object = inspectSlotObject(read.bytes, read.sizeBytes, { star, epoch, slot, nonce });
  const sized = { ...base, sizeBytes: read.sizeBytes };
  switch (object.kind) {
    case 'corrupt':
      return seenAs({ ...sized, holds: 'corrupt', problem: object.reason }, CORRUPT);
    case 'foreign':
      return seenAs(
        { ...sized, holds: 'foreign', problem: `nonce ${object.preamble.nonce}` },
        CORRUPT,
      );
    case 'poison': {
      const parsed = parsePoison(read.bytes);
      if (!parsed.ok)
        return seenAs({ ...sized, holds: 'corrupt', problem: parsed.reason }, CORRUPT);
      const { fencedBy, atMillis } = parsed.poison;
      const by = { byStar: fencedBy.star, byIncarnation: fencedBy.incarnation, atMillis };
      const poison = fencedBy.epoch === NO_EPOCH ? by : { ...by, byEpoch: fencedBy.epoch };
      return seenAs(
        { ...sized, holds: 'poison', poison },
        identity === 'confirmed' ? POISON : UNKNOWN,
      );
    }
    case 'flight': {
      const { preamble } = object;
      const { headBytes } = headLengths(preamble);
      const header =
        read.bytes.length >= headBytes
          ? parseHeader(read.bytes.subarray(PREAMBLE_BYTES, headBytes), preamble)
          : undefined;
      const entries = header?.ok === true ? header.entries : [];
      const flight = {
        nonce: preamble.nonce,
        released: preamble.released,
        bodyChecksum: preamble.bodyChecksum,
        entries: entries.map(({ streamId, firstSeqNum, count }) => ({
          streamId,
          firstSeqNum,
          count,
        })),
      };
      return seenAs({ ...sized, holds: 'flight', flight }, FLIGHT, preamble.headerChecksum);
    }
  }
}

function seenAs(cell: Omit<ExplainedCell, 'counts'>, code: CellCode, print = 0): Seen {
  return { cell: { ...cell, counts: false }, code, print };
}

function reasons(
  record: EpochRecord,
  slot: number,
  codes: Uint8Array,
  verdict: SlotClass['kind'],
): string[] {
  const { copyQuorum, buckets, checkpoint, cut } = record;
  const blocking = blockingSet({ buckets, copies: copyQuorum });
  const count = (code: number): number => codes.reduce((n, seen) => n + (seen === code ? 1 : 0), 0);
  const why: string[] = [];
  if (slot < checkpoint) {
    why.push(
      'below the checkpoint: rows cover it, so it was acknowledged and may have been deleted',
    );
  }
  if (cut !== undefined) {
    why.push(
      slot < cut
        ? 'below the published cut: it is part of the chain'
        : slot === cut
          ? 'the published cut: nothing here or above was or will be acknowledged'
          : 'above the published cut: what is here was never acknowledged',
    );
  }
  const flights = count(FLIGHT);
  const poisons = count(POISON);
  if (verdict === 'committed')
    why.push(`${flights} identical copies, ${copyQuorum} make it durable`);
  if (verdict === 'dead') {
    why.push(
      `poison in ${poisons} buckets: with ${blocking} of them ${copyQuorum} copies can never come together`,
    );
  }
  if (verdict === 'repair')
    why.push(`${flights} copies of ${copyQuorum}: a fence would complete them before it poisons`);
  if (verdict === 'poison')
    why.push('no copy in any bucket that answers: a fence would poison it, one bucket at a time');
  if (verdict === 'undecided') {
    why.push(
      `undecided: ${count(UNKNOWN)} buckets do not count and ${count(CORRUPT)} hold damage; they have the deciding vote`,
    );
  }
  return why;
}

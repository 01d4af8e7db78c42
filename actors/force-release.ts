/**
 * Takes a stream from a leader that does not give it back: an operator's way out of limbo. The epoch
 * is fenced first, so that nothing more can be acknowledged in it; then the rows are brought up to the
 * cut, marked, and the writer record is released in the leader's name (T6: after the cut of its epoch
 * is published). What cannot be covered is not released: coverage outranks availability.
 */
import { EngineError, toEngineError } from '../src/lib/errors.ts';
import { forEachBounded } from '../src/lib/bounded.ts';
import { backoffMillis } from '../src/lib/backoff.ts';
import { sleep, type TimeLimit } from '../src/lib/wait.ts';
import { judgePredecessor } from '../src/protocol/gate.ts';
import { chainKey, writerKey } from '../src/protocol/keys.ts';
import { LOOK_EVERY_MILLIS } from '../src/protocol/lease.ts';
import {
  chainRecord,
  parseRecordValue,
  type EpochRecord,
  type StreamRecord,
  type Tenure,
} from '../src/protocol/records.ts';
import { partitionOf } from '../src/ports/metastore.ts';
import type { BucketSets } from './bucket-set.ts';
import type { FenceActors, FenceProgress } from './fence.actor.ts';
import { removeNote } from './limbo-register.ts';
import { readEpoch } from './read-epoch.ts';
import { markTail, readLastRowFresh } from './ref-rows.ts';
import type { SettlementActors } from './settlement.actor.ts';
import { readFlightHead } from './slot-heads.ts';
import type { StarPorts } from './ports.ts';
import { StarObserver } from './star-observer.ts';
import { notFoundError } from './stream-errors.ts';
import { WriterTenure } from './writer-tenure.ts';

export interface ReleaseActors {
  readonly sets: BucketSets;
  readonly fences: FenceActors;
  readonly settlements: SettlementActors;
}

export interface ReleasedStream {
  readonly stream: string;
  /** `nobody`: it was never led. `already`: its leader released it before. */
  readonly outcome: 'released' | 'already' | 'nobody';
  readonly tail: number;
  /** Whose leadership ended; absent when there was none to end. */
  readonly from?: { readonly star: string; readonly epoch: number; readonly cut: number };
  /** Records at or above the cut, as far as buckets show them: never acknowledged, now discarded. */
  readonly givenUp: { readonly records: number; readonly slots: number };
}

const NOTHING = { records: 0, slots: 0 };
const READ_CONCURRENCY = 16;
const TRIES_MAX = 10;
const RETRY = { firstMillis: 20, maxMillis: 1_000 };

export interface ForceReleaseOptions {
  /** `fromLiving` also from a star that shows a sign of life and whose epoch is the head of its chain. */
  readonly force: 'never' | 'fromLiving';
  readonly onProgress?: ((progress: FenceProgress) => void) | undefined;
}

/**
 * @throws EngineError STREAM_NOT_FOUND, STREAM_HELD (without force); FENCE_UNDECIDED, DATA_LOSS,
 *   STREAM_UNSETTLED, METASTORE_CORRUPT (nothing was released); ABORTED, DEADLINE_EXCEEDED
 */
export async function releaseByForce(
  ports: StarPorts,
  actors: ReleaseActors,
  record: StreamRecord,
  { force, onProgress }: ForceReleaseOptions,
  { signal, left }: TimeLimit,
): Promise<ReleasedStream> {
  const { clock, random } = ports;
  const { stream } = record;
  // A living leader may take the stream into a new epoch as fast as this one fences the old.
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    if (tries > 0) await sleep(clock, backoffMillis(random, tries, RETRY), signal);
    const writer = new WriterTenure(ports, stream, signal);
    await ports.metastore.barrier(partitionOf(writer.key), { signal });
    writer.saw(await ports.metastore.get(writerKey(stream), { signal }));
    const seen = writer.record;
    if (seen === undefined) return { stream, outcome: 'nobody', tail: 0, givenUp: NOTHING };
    if (seen.kind === 'deleted') throw notFoundError(record.name);
    if (seen.kind === 'released') {
      return { stream, outcome: 'already', tail: seen.tail, givenUp: NOTHING };
    }
    const { tenure } = seen;
    if (force === 'never' && (await isAlive(ports, tenure, signal))) {
      throw heldError(record.name, tenure);
    }
    const { star, epoch } = tenure;
    const { cut } = await actors.fences.fence({ star, epoch }, { ...left(), onProgress });
    // Before its tail is swept.
    const givenUp = await countBeyond(ports, actors.sets, { stream, star, epoch, cut }, signal);
    const { end: tail } = await actors.settlements.covered(star, epoch, stream, left());
    if (!(await mark(ports, stream, { tenure, tail }, signal))) continue;
    if (!(await writer.leave({ kind: 'released', tail }))) continue;
    await forgetNote(ports, { star, stream }, signal);
    return { stream, outcome: 'released', tail, from: { star, epoch, cut }, givenUp };
  }
  throw new EngineError('STREAM_HELD', 'the leader of this stream takes it again and again', {
    details: { name: record.name, tries: TRIES_MAX },
    retryAfterMillis: 1_000,
  });
}

/** The mark that makes the release a clean one; false when the rows went on meanwhile. */
async function mark(
  ports: StarPorts,
  stream: string,
  { tenure, tail }: { readonly tenure: Tenure; readonly tail: number },
  signal: AbortSignal,
): Promise<boolean> {
  const last = await readLastRowFresh(ports, stream, { signal });
  if ((last?.row.end ?? 0) !== tail) return false;
  if (last === undefined) return true;
  return (await markTail(ports, stream, last, { tenure, tail }, { signal })).kind === 'marked';
}

/** The stream is released by now: a note that stays says nothing any more, and its star removes it. */
async function forgetNote(
  ports: StarPorts,
  note: { readonly star: string; readonly stream: string },
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, log } = ports;
  try {
    await removeNote(ports, note, { clock, random, signal });
  } catch (cause) {
    log.warn({ ...note, code: toEngineError(cause).code }, 'the note of limbo stays');
  }
}

/**
 * Only a reason to ask the operator first (T3). A lease that nobody bumps is watched until it may be
 * ended, which is at most its timeout and a margin; the first bump is a sign of life.
 */
async function isAlive(ports: StarPorts, tenure: Tenure, signal: AbortSignal): Promise<boolean> {
  const { metastore, clock } = ports;
  const { star, incarnation } = tenure;
  const chain = await metastore.get(chainKey(star), { signal });
  const head = chain && parseRecordValue(chainRecord, chain.key, chain.value).heads[tenure.class];
  const facts = { tenure, head, registered: true, ownIncarnation: '' };
  if (judgePredecessor(facts) === 'settle') return false;
  const observer = new StarObserver(ports);
  let beat: number | undefined;
  for (;;) {
    const holder = await observer.holder(star, incarnation, signal);
    if (holder === undefined) return false;
    beat ??= holder.lease.beat;
    if (holder.lease.beat !== beat) return true;
    await sleep(clock, LOOK_EVERY_MILLIS, signal);
  }
}

async function countBeyond(
  ports: StarPorts,
  sets: BucketSets,
  target: {
    readonly stream: string;
    readonly star: string;
    readonly epoch: number;
    readonly cut: number;
  },
  signal: AbortSignal,
): Promise<{ readonly records: number; readonly slots: number }> {
  const { stream, star, epoch, cut } = target;
  const record: EpochRecord = await readEpoch(ports, star, epoch, signal);
  if (record.tailSwept) return NOTHING;
  const set = await sets.resolve(record.set, signal);
  let records = 0;
  let slots = 0;
  const range = Array.from({ length: record.window + 1 }, (_, index) => cut + index);
  await forEachBounded(range, READ_CONCURRENCY, async (slot) => {
    const expected = { star, epoch, slot, nonce: record.nonce };
    const head = await readFlightHead(ports, set, expected, { signal });
    if (head.kind !== 'good') return;
    const own = head.value.entries.filter((entry) => entry.streamId === stream);
    if (own.length > 0) slots++;
    for (const entry of own) records += entry.count;
  });
  return { records, slots };
}

function heldError(name: string, { star, epoch }: Tenure): EngineError {
  return new EngineError(
    'STREAM_HELD',
    'a living star leads this stream: close it there, or force the release',
    { details: { name, star, epoch } },
  );
}

/** What operators do without leading anything: fence an epoch, explain a slot, release a stream. */
import { EngineError, textOf } from '../lib/errors.ts';
import { within, type TimeLimit, type WaitOptions } from '../lib/wait.ts';
import { BucketSets } from '../../actors/bucket-set.ts';
import { explainSlot, type ExplainedSlot } from '../../actors/explain-slot.ts';
import { FenceActors } from '../../actors/fence.actor.ts';
import { ensureMetastoreId } from '../../actors/metastore-id.ts';
import {
  releaseByForce,
  type ReleaseActors,
  type ReleasedStream,
} from '../../actors/force-release.ts';
import { lookUpStream } from '../../actors/names.ts';
import { readEpoch } from '../../actors/read-epoch.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { SettlementActors } from '../../actors/settlement.actor.ts';
import { notFoundError } from '../../actors/stream-errors.ts';
import type { FenceProgress } from './api.ts';

export type { ExplainedCell, ExplainedSlot } from '../../actors/explain-slot.ts';

/** Names the operator in poison and in records; no star may have a name that begins so. */
const OPERATOR = 'operator';

export interface FenceReport {
  readonly star: string;
  readonly epoch: number;
  readonly cut: number;
  readonly alreadyFenced: boolean;
  readonly rounds: number;
  readonly gets: number;
  readonly puts: number;
  readonly repairs: number;
  readonly millis: number;
  /** `gap`: a stream of the epoch waits for an older one, which is settled first (S4). */
  readonly settlement: 'settled' | 'gap';
  readonly settledStreams: number;
  readonly swept: boolean;
}

/**
 * Ends an epoch and settles it. A live writer of the epoch loses its next slot and rolls; nothing
 * acknowledged is lost.
 *
 * @throws EngineError STAR_UNKNOWN, EPOCH_UNKNOWN, FENCE_UNDECIDED, DEADLINE_EXCEEDED, ABORTED,
 *   ACKNOWLEDGED_SLOT_POISONED, DATA_LOSS
 */
export async function fenceEpoch(
  ports: StarPorts,
  target: { readonly star: string; readonly epoch: number },
  options: WaitOptions & {
    readonly onProgress?: ((progress: FenceProgress) => void) | undefined;
  } = {},
): Promise<FenceReport> {
  const { onProgress } = options;
  return withActors(ports, options, 'fence', async ({ fences, settlements }, { left }) => {
    const fenced = await fences.fence(target, { ...left(), onProgress });
    const settled = await settlements.settle(target, left());
    const { cut, alreadyFenced, rounds, gets, puts, repairs, millis } = fenced;
    return {
      ...target,
      cut,
      alreadyFenced,
      rounds,
      gets,
      puts,
      repairs,
      millis,
      settlement: settled.kind,
      settledStreams: settled.kind === 'settled' ? settled.streams : 0,
      swept: settled.kind === 'settled' && settled.swept,
    };
  });
}

/**
 * What the buckets hold of one slot and why it is what it is. Writes nothing.
 *
 * @throws EngineError EPOCH_UNKNOWN, INVALID_POSITION, METASTORE_CORRUPT
 */
export async function explainEpochSlot(
  ports: StarPorts,
  target: { readonly star: string; readonly epoch: number; readonly slot: number },
  options: WaitOptions = {},
): Promise<ExplainedSlot> {
  for (const name of ['epoch', 'slot'] as const) {
    if (Number.isSafeInteger(target[name]) && target[name] >= 0) continue;
    throw new EngineError('INVALID_POSITION', 'an epoch or slot is a safe integer from 0', {
      details: { option: name, value: textOf(target[name]), min: 0 },
    });
  }
  const record = await readEpoch(ports, target.star, target.epoch, options.signal);
  const set = await new BucketSets(ports, '').resolve(record.set, options.signal);
  return explainSlot(set, record, target.slot, options.signal);
}

/** What became of a stream that an operator took from its leader. */
export interface ReleaseReport extends ReleasedStream {
  readonly name: string;
  /** Of the epoch that was fenced for it: `gap` when another stream waits for an older epoch (S4). */
  readonly settlement?: 'settled' | 'gap';
}

export interface ReleaseRequest {
  readonly basin: string;
  readonly name: string;
  /** `fromLiving` takes it from a star that is alive, too. */
  readonly force: 'never' | 'fromLiving';
}

/**
 * Releases a stream in its leader's name: fences the epoch, covers the stream up to the cut, marks and
 * releases it, then settles the rest of the epoch. A living leader loses the stream, goes on with its
 * others in a new epoch, and answers its callers.
 *
 * @throws EngineError STREAM_NOT_FOUND, STREAM_HELD; FENCE_UNDECIDED, DATA_LOSS, STREAM_UNSETTLED,
 *   METASTORE_CORRUPT (nothing was released then); DEADLINE_EXCEEDED, ABORTED
 */
export async function releaseStream(
  ports: StarPorts,
  { basin, name, force }: ReleaseRequest,
  options: WaitOptions & {
    readonly onProgress?: ((progress: FenceProgress) => void) | undefined;
  } = {},
): Promise<ReleaseReport> {
  const { onProgress } = options;
  return withActors(ports, options, 'release', async (actors, limit) => {
    const record = await lookUpStream(ports, basin, name, { signal: limit.signal });
    if (record === undefined) {
      throw notFoundError(name);
    }
    const released = await releaseByForce(ports, actors, record, { force, onProgress }, limit);
    if (released.from === undefined) return { name, ...released };
    const { star, epoch } = released.from;
    const settled = await actors.settlements.settle({ star, epoch }, limit.left());
    return { name, ...released, settlement: settled.kind };
  });
}

async function withActors<T>(
  ports: StarPorts,
  options: WaitOptions,
  what: string,
  use: (actors: ReleaseActors, limit: TimeLimit) => Promise<T>,
): Promise<T> {
  return within(ports.clock, options, what, async (limit) => {
    const { signal } = limit;
    const sets = new BucketSets(ports, await ensureMetastoreId(ports, { signal }));
    const by = { star: OPERATOR, incarnation: ports.random.hex(16) };
    const fences = new FenceActors(ports, sets, by);
    const settlements = new SettlementActors(ports, sets, by);
    try {
      return await use({ sets, fences, settlements }, limit);
    } finally {
      await Promise.all([fences.close(), settlements.close()]);
    }
  });
}

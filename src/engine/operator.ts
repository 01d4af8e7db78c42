/** What operators do to a chain without leading anything: fence an epoch, explain a slot. */
import { EngineError } from '../lib/errors.ts';
import type { WaitOptions } from '../lib/wait.ts';
import { epochKey } from '../protocol/keys.ts';
import { epochRecord, parseRecordValue, type EpochRecord } from '../protocol/records.ts';
import { BucketSets } from '../../actors/bucket-set.ts';
import { explainSlot, type ExplainedSlot } from '../../actors/explain-slot.ts';
import { FenceActors } from '../../actors/fence.actor.ts';
import { ensureMetastoreId } from '../../actors/metastore-id.ts';
import type { StarPorts } from '../../actors/ports.ts';
import { SettlementActors } from '../../actors/settlement.actor.ts';
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
  const sets = new BucketSets(ports, await ensureMetastoreId(ports, options));
  const by = { star: OPERATOR, incarnation: ports.random.hex(16) };
  const fences = new FenceActors(ports, sets, by);
  const settlements = new SettlementActors(ports, sets, by);
  try {
    const fenced = await fences.fence(target, options);
    const settled = await settlements.settle(target, options);
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
  } finally {
    await Promise.all([fences.close(), settlements.close()]);
  }
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
      details: { option: name, value: String(target[name]), min: 0 },
    });
  }
  const record = await readEpoch(ports, target.star, target.epoch, options.signal);
  const set = await new BucketSets(ports, '').resolve(record.set, options.signal);
  return explainSlot(set, record, target.slot, options.signal);
}

async function readEpoch(
  ports: StarPorts,
  star: string,
  epoch: number,
  signal: AbortSignal | undefined,
): Promise<EpochRecord> {
  const key = epochKey(star, epoch);
  const entry = await ports.metastore.get(key, { signal });
  if (entry !== undefined) return parseRecordValue(epochRecord, key, entry.value);
  throw new EngineError('EPOCH_UNKNOWN', 'the chain has no such epoch', {
    details: { star, epoch },
  });
}

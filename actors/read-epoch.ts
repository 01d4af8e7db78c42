import { EngineError } from '../src/lib/errors.ts';
import { epochKey } from '../src/protocol/keys.ts';
import { epochRecord, parseRecordValue, type EpochRecord } from '../src/protocol/records.ts';
import type { StarPorts } from './ports.ts';

/**
 * The record of an epoch; the read may be stale.
 *
 * @throws EngineError EPOCH_UNKNOWN, METASTORE_CORRUPT
 */
export async function readEpoch(
  { metastore }: Pick<StarPorts, 'metastore'>,
  star: string,
  epoch: number,
  signal: AbortSignal | undefined,
): Promise<EpochRecord> {
  const key = epochKey(star, epoch);
  const entry = await metastore.get(key, { signal });
  if (entry !== undefined) return parseRecordValue(epochRecord, key, entry.value);
  throw new EngineError('EPOCH_UNKNOWN', 'the chain has no such epoch', {
    details: { star, epoch },
  });
}

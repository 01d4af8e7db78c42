/** What the buckets hold of an epoch's slots, for whoever wants to see it. */
import { EngineError, textOf } from '../lib/errors.ts';
import { checkOptionsObject } from '../lib/wait.ts';
import type { EpochRecord } from '../protocol/records.ts';
import type { BucketSet } from '../../actors/bucket-set.ts';
import { hiddenError, isHidden, lookAtSlot, type SlotSight } from '../../actors/committed-run.ts';
import type { SlotOptions, SlotView } from './api.ts';

interface SlotRequest {
  readonly from: number | undefined;
  readonly limit: number;
}

const DEFAULT_LIMIT = 256;
const WAVE_SLOTS = 16;

const VERDICTS: Readonly<Record<SlotSight, SlotView['verdict']>> = {
  committed: 'committed',
  partial: 'partial',
  poison: 'poisoned',
  empty: 'empty',
  undecided: 'undecided',
};

/** @throws EngineError INVALID_POSITION, INVALID_OPTION */
export function checkSlotRequest(epoch: number, options: SlotOptions): SlotRequest {
  checkOptionsObject(options);
  const { from, limit } = options;
  for (const [option, value] of Object.entries({ epoch, from, limit })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 0)) continue;
    throw new EngineError('INVALID_POSITION', 'a position is a safe integer from 0', {
      details: { option, value: textOf(value), min: 0, max: Number.MAX_SAFE_INTEGER },
    });
  }
  return { from, limit: limit ?? DEFAULT_LIMIT };
}

/**
 * Ends behind a whole window of empty slots: assignment never runs further ahead.
 *
 * @throws EngineError BUCKET_REFUSED, BUCKET_UNAVAILABLE when too few buckets say anything of a whole wave.
 */
export async function slotViews(
  set: BucketSet,
  record: EpochRecord,
  request: SlotRequest,
  signal: AbortSignal | undefined,
): Promise<SlotView[]> {
  const first = request.from ?? record.checkpoint;
  const end = first + request.limit;
  const views: SlotView[] = [];
  let empty = 0;
  for (let slot = first; slot < end && empty < record.window; slot += WAVE_SLOTS) {
    const wave = Array.from({ length: Math.min(WAVE_SLOTS, end - slot) }, (_, at) => slot + at);
    const all = await Promise.all(wave.map((s) => lookAtSlot(set, record, s, signal)));
    if (all.every((seen) => isHidden(seen, record))) throw hiddenError(all[0]!, record);
    for (const seen of all) {
      empty = seen.sight === 'empty' ? empty + 1 : 0;
      views.push({ slot: seen.slot, verdict: VERDICTS[seen.sight], copies: seen.copies });
    }
  }
  const last = views.findLastIndex(({ verdict }) => verdict !== 'empty');
  return views.slice(0, last + 1);
}

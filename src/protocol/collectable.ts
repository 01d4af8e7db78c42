import type { EpochRecord } from './records.ts';

/**
 * Whether an epoch that nobody opens may be fenced, settled and swept in the background. A head is
 * left to its incarnation while that is registered: the registry is a reason to wait (T3).
 *
 * @param head - the newest epoch of the record's class on its chain.
 */
export function isCollectable(
  record: Pick<EpochRecord, 'state' | 'tailSwept' | 'epoch'>,
  head: number | undefined,
): 'yes' | 'no' | 'if-unregistered' {
  if (record.state === 'retired') return 'no';
  if (record.state === 'settled') return record.tailSwept ? 'no' : 'yes';
  if (record.state === 'fenced') return 'yes';
  return head === undefined || record.epoch < head ? 'yes' : 'if-unregistered';
}

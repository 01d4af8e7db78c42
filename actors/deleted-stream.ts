/** T5: deleted is final, so that even a stale read of it holds. */
import { writerKey } from '../src/protocol/keys.ts';
import { parseRecordValue, writerRecord } from '../src/protocol/records.ts';
import type { Metastore } from '../src/ports/metastore.ts';

/** Whether the stream was deleted; false may be old. */
export async function isDeleted(
  { metastore }: { readonly metastore: Metastore },
  streamId: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const key = writerKey(streamId);
  const entry = await metastore.get(key, { signal });
  return entry !== undefined && parseRecordValue(writerRecord, key, entry.value).kind === 'deleted';
}

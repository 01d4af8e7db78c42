import type { WaitOptions } from '../src/lib/wait.ts';
import { encodeRecordValue, metastoreIdRecord, parseRecordValue } from '../src/protocol/records.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

const KEY = 'metastore/id';

/** Which metastore this is; chosen once, by whoever comes first. Bucket identities name it. */
export async function ensureMetastoreId(
  ports: Pick<StarPorts, 'metastore' | 'random' | 'clock'>,
  options: WaitOptions = {},
): Promise<string> {
  const { metastore, random, clock } = ports;
  const found = await metastore.get(KEY, { signal: options.signal });
  if (found !== undefined) return parseRecordValue(metastoreIdRecord, KEY, found.value).metastore;
  const id = random.hex(16);
  const put = await conditionalPut(
    metastore,
    {
      key: KEY,
      expected: 'absent',
      encode: (attempt) => encodeRecordValue({ metastore: id, attempt }),
    },
    { clock, random, ...options },
  );
  if (put.kind === 'applied' || put.current === undefined) return id;
  return parseRecordValue(metastoreIdRecord, KEY, put.current.value).metastore;
}

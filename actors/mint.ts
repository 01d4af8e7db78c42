/**
 * Mints an epoch: CAS of the chain's counter, then the epoch's record. Only a returned mint may PUT
 * a slot (M1); a crash in between burns a number and nothing else (M2).
 * Source: DESIGN "Mint (M)".
 */
import { EngineError } from '../src/lib/errors.ts';
import type { WaitOptions } from '../src/lib/wait.ts';
import { chainKey, epochKey } from '../src/protocol/keys.ts';
import {
  chainRecord,
  epochRecord,
  encodeRecordValue,
  parseRecordValue,
  type ChainRecord,
  type EpochRecord,
  type StorageClass,
} from '../src/protocol/records.ts';
import type { MetaVersion } from '../src/ports/metastore.ts';
import { conditionalPut } from './conditional-write.ts';
import type { StarPorts } from './ports.ts';

export interface MintRequest {
  readonly star: string;
  readonly class: StorageClass;
  readonly incarnation: string;
  readonly set: string;
  readonly buckets: number;
  readonly copyQuorum: number;
  readonly window: number;
}

export interface MintedEpoch {
  readonly record: EpochRecord;
  readonly version: MetaVersion;
}

type MintPorts = Pick<StarPorts, 'clock' | 'random' | 'metastore'>;

/** The caller has registered its lease record (M0). */
export async function mintEpoch(
  ports: MintPorts,
  request: MintRequest,
  options: WaitOptions = {},
): Promise<MintedEpoch> {
  for (;;) {
    const minted = await createRecord(ports, request, options);
    if (minted !== undefined) return minted;
  }
}

/** Undefined when the answer was lost and others fenced the epoch since: its number is burned (M2). */
async function createRecord(
  ports: MintPorts,
  request: MintRequest,
  options: WaitOptions,
): Promise<MintedEpoch | undefined> {
  const { metastore, clock, random } = ports;
  const epoch = await takeNumber(ports, request, options);
  const draft: Omit<EpochRecord, 'attempt'> = {
    ...request,
    epoch,
    nonce: random.hex(16),
    state: 'open',
    checkpoint: 0,
    rewritten: 0,
    trimmed: 0,
    swept: 0,
    tailSwept: false,
  };
  const key = epochKey(request.star, epoch);
  const put = await conditionalPut(
    metastore,
    {
      key,
      expected: 'absent',
      encode: (attempt: string) => encodeRecordValue({ ...draft, attempt }),
    },
    { clock, random, ...options },
  );
  if (put.kind === 'applied') return { record: { ...draft, attempt: '' }, version: put.version };
  const found =
    put.current === undefined ? undefined : parseRecordValue(epochRecord, key, put.current.value);
  if (found?.nonce === draft.nonce) return undefined;
  throw new EngineError('INVARIANT', 'M1 a minted number belongs to one mint', {
    details: { star: request.star, epoch },
  });
}

async function takeNumber(
  { metastore, clock, random }: MintPorts,
  request: MintRequest,
  options: WaitOptions,
): Promise<number> {
  const key = chainKey(request.star);
  let entry = await metastore.get(key, { signal: options.signal });
  for (;;) {
    const chain: ChainRecord =
      entry === undefined
        ? { nextEpoch: 0, heads: {}, attempt: '' }
        : parseRecordValue(chainRecord, key, entry.value);
    const epoch = chain.nextEpoch;
    // M3: heads of different classes never depose each other.
    const heads = { ...chain.heads, [request.class]: epoch };
    const put = await conditionalPut(
      metastore,
      {
        key,
        expected: entry?.version ?? 'absent',
        encode: (attempt: string) => encodeRecordValue({ nextEpoch: epoch + 1, heads, attempt }),
      },
      { clock, random, ...options },
    );
    if (put.kind === 'applied') return epoch;
    entry = put.current;
  }
}

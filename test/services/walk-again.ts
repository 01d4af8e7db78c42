import { BucketSets } from '../../actors/bucket-set.ts';
import { FenceActors } from '../../actors/fence.actor.ts';
import { ensureMetastoreId } from '../../actors/metastore-id.ts';
import { readEpoch } from '../../actors/read-epoch.ts';
import { MemoryMetastore } from '../../src/adapters/memory/metastore.ts';
import { instantiate } from '../../src/engine/instantiate.ts';
import type { S3Components } from '../../src/index.ts';
import { epochKey } from '../../src/protocol/keys.ts';
import { encodeRecordValue } from '../../src/protocol/records.ts';
import { resolveSettings } from '../../src/protocol/settings.ts';

const TIMEOUT_MILLIS = 120_000;

/**
 * Fences a fenced epoch once more over the same buckets: in a copy of the metastore where its record is
 * open and its checkpoint is an earlier one, so that the whole walk is done again.
 *
 * @returns the cut of that walk.
 */
export async function walkAgain(
  components: S3Components,
  { star, epoch, checkpoint }: { star: string; epoch: number; checkpoint: number },
): Promise<number> {
  const settings = resolveSettings({ star: 'walker' }, components.buckets.length);
  const { ports, release } = await instantiate(components, settings, {
    log: undefined,
    mode: 'write',
  });
  try {
    const metastore = new MemoryMetastore();
    const { cut: _cut, fencedBy: _by, ...record } = await readEpoch(ports, star, epoch, undefined);
    const open = { ...record, state: 'open', tailSwept: false, checkpoint } as const;
    await metastore.put(epochKey(star, epoch), encodeRecordValue(open), 'absent');
    for (const prefix of ['metastore/', 'sets/', 'chains/']) {
      for (const { key, value } of await ports.metastore.children(prefix)) {
        await metastore.put(key, value, 'absent');
      }
    }
    const copy = { ...ports, metastore };
    const sets = new BucketSets(copy, await ensureMetastoreId(copy));
    const fences = new FenceActors(copy, sets, {
      star: 'operator',
      incarnation: ports.random.hex(16),
    });
    try {
      const result = await fences.fence({ star, epoch }, { timeoutMillis: TIMEOUT_MILLIS });
      if (result.alreadyFenced) throw new Error('the epoch was not walked again');
      return result.cut;
    } finally {
      await fences.close();
    }
  } finally {
    await release();
  }
}

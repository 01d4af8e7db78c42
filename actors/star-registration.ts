/** First steps of a star: which metastore, which buckets, whose lease (M0), then a mint (M1). */
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { BucketSets, type BucketSet } from './bucket-set.ts';
import { CollectorActor } from './collector.actor.ts';
import { FenceActors } from './fence.actor.ts';
import { StarLease } from './lease.actor.ts';
import { ensureMetastoreId } from './metastore-id.ts';
import { mintEpoch, type MintedEpoch } from './mint.ts';
import type { StarPorts } from './ports.ts';
import { SettlementActors } from './settlement.actor.ts';

export interface Registered {
  readonly sets: BucketSets;
  readonly lease: StarLease;
  readonly fences: FenceActors;
  readonly settlements: SettlementActors;
  readonly collector: CollectorActor;
}

/** M0: checks the buckets, then registers the lease; nothing is minted before. */
export async function registerStar(
  ports: StarPorts,
  settings: ResolvedSettings,
  options: {
    readonly buckets: readonly BucketStore[];
    readonly onLost: () => void;
    readonly signal: AbortSignal;
  },
): Promise<Registered> {
  const { buckets, onLost, signal } = options;
  const sets = new BucketSets(ports, await ensureMetastoreId(ports, { signal }));
  await sets.establish(buckets, settings.copyQuorum, signal);
  const lease = new StarLease(ports, {
    star: settings.star,
    timeoutMillis: settings.sessionTimeoutMillis,
    onLost,
  });
  const incarnation = await lease.register({ supersede: settings.supersede, signal });
  const by = { star: settings.star, incarnation };
  const fences = new FenceActors(ports, sets, by);
  const settlements = new SettlementActors(ports, sets, by);
  const collector = new CollectorActor({
    ports,
    fences,
    settlements,
    everyMillis: settings.collectMillis,
    isRegistered: (star, other, wait) => lease.isRegistered(star, other, wait),
  });
  return { sets, lease, fences, settlements, collector };
}

export async function mintForStar(
  ports: StarPorts,
  settings: ResolvedSettings,
  options: { readonly lease: StarLease; readonly set: BucketSet; readonly signal: AbortSignal },
): Promise<MintedEpoch> {
  const { lease, set, signal } = options;
  return mintEpoch(
    ports,
    {
      star: settings.star,
      class: settings.storageClass,
      incarnation: lease.incarnation,
      set: set.id,
      buckets: set.buckets.length,
      copyQuorum: settings.copyQuorum,
      window: settings.window,
    },
    { signal },
  );
}

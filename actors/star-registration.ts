/** First steps of a star: which metastore, which buckets, whose lease (M0), then a mint (M1). */
import type { EpochRecord } from '../src/protocol/records.ts';
import type { ResolvedSettings } from '../src/protocol/settings.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { BucketSets, type BucketSet } from './bucket-set.ts';
import { CollectorActor } from './collector.actor.ts';
import { FenceActors } from './fence.actor.ts';
import type { LossReason } from './lease.actor.ts';
import { ensureMetastoreId } from './metastore-id.ts';
import { mintEpoch, type MintedEpoch } from './mint.ts';
import type { StarPorts } from './ports.ts';
import { SettlementActors } from './settlement.actor.ts';
import { StarIncarnations } from './star-incarnations.ts';
import { StarObserver } from './star-observer.ts';

export interface Registered {
  readonly sets: BucketSets;
  readonly incarnations: StarIncarnations;
  /** Looks at the leases of all stars. */
  readonly observer: StarObserver;
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
    readonly address?: string | undefined;
    readonly onLost: (reason: LossReason) => void;
    readonly onFenced: (epoch: Pick<EpochRecord, 'star' | 'epoch'>) => void;
    readonly signal: AbortSignal;
  },
): Promise<Registered> {
  const { buckets, address, onLost, onFenced, signal } = options;
  const sets = new BucketSets(ports, await ensureMetastoreId(ports, { signal }));
  await sets.establish(buckets, settings.copyQuorum, signal);
  const { star } = settings;
  const incarnations = new StarIncarnations(ports, {
    star,
    timeoutMillis: settings.sessionTimeoutMillis,
    address,
    supersede: settings.supersede,
    onLost,
  });
  await incarnations.register(signal);
  // Fences and settlements outlive an incarnation; what they write names the current one.
  const by = {
    star,
    get incarnation() {
      return incarnations.current;
    },
  };
  const fences = new FenceActors(ports, sets, by);
  const settlements = new SettlementActors(ports, sets, by);
  const observer = new StarObserver(ports);
  observer.start();
  const collector = new CollectorActor({
    ports,
    fences,
    settlements,
    everyMillis: settings.collectMillis,
    isRegistered: (other, incarnation, wait) => observer.isRegistered(other, incarnation, wait),
    onFenced,
  });
  return { sets, incarnations, observer, fences, settlements, collector };
}

export async function mintForStar(
  ports: StarPorts,
  settings: ResolvedSettings,
  options: { readonly incarnation: string; readonly set: BucketSet; readonly signal: AbortSignal },
): Promise<MintedEpoch> {
  const { incarnation, set, signal } = options;
  return mintEpoch(
    ports,
    {
      star: settings.star,
      class: settings.storageClass,
      incarnation,
      set: set.id,
      buckets: set.buckets.length,
      copyQuorum: settings.copyQuorum,
      window: settings.window,
    },
    { signal },
  );
}

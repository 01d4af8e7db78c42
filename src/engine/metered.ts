/** Puts a meter of round trips in front of storage and metastore. */
import type { RoundTripMeter } from '../lib/round-trips.ts';
import type { BucketStore } from '../ports/bucket-store.ts';
import type { Metastore } from '../ports/metastore.ts';

/** One metered store for each store, however often it is asked for. */
export function meteredBuckets(meter: RoundTripMeter): (store: BucketStore) => BucketStore {
  const known = new Map<BucketStore, BucketStore>();
  return (store) => {
    const metered = known.get(store) ?? meteredBucket(store, meter);
    known.set(store, metered);
    return metered;
  };
}

function meteredBucket(store: BucketStore, meter: RoundTripMeter): BucketStore {
  return {
    name: store.name,
    wantsPages: store.wantsPages === true,
    createOnly: (...args) => meter.call(() => store.createOnly(...args)),
    readHead: (...args) => meter.call(() => store.readHead(...args)),
    readRange: (...args) => meter.call(() => store.readRange(...args)),
    delete: (...args) => meter.call(() => store.delete(...args)),
    deleteMany: (...args) => meter.call(() => store.deleteMany(...args)),
    list: (...args) => meter.call(() => store.list(...args)),
    probe: (...args) => meter.call(() => store.probe(...args)),
    close: () => store.close(),
  };
}

export function meteredMetastore(store: Metastore, meter: RoundTripMeter): Metastore {
  return {
    get: (...args) => meter.call(() => store.get(...args)),
    put: (...args) => meter.call(() => store.put(...args)),
    delete: (...args) => meter.call(() => store.delete(...args)),
    floor: (...args) => meter.call(() => store.floor(...args)),
    lastChild: (...args) => meter.call(() => store.lastChild(...args)),
    children: (...args) => meter.call(() => store.children(...args)),
    barrier: (...args) => meter.call(() => store.barrier(...args)),
    watch: (...args) => store.watch(...args),
    close: () => store.close(),
  };
}

/** One open epoch and a fencer of it, on any three buckets. */
import { BucketSets } from '../actors/bucket-set.ts';
import { FenceActors, type FenceResult } from '../actors/fence.actor.ts';
import type { StarPorts } from '../actors/ports.ts';
import { MemoryMetastore } from '../src/adapters/memory/metastore.ts';
import { systemClock } from '../src/adapters/system/clock.ts';
import { systemProcesses } from '../src/adapters/system/processes.ts';
import { systemRandom } from '../src/adapters/system/random.ts';
import { Metrics } from '../src/lib/metrics.ts';
import type { BucketStore } from '../src/ports/bucket-store.ts';
import { SILENT_LOG } from '../src/ports/log.ts';
import { epochKey, setKey } from '../src/protocol/keys.ts';
import { encodeRecordValue, type EpochRecord } from '../src/protocol/records.ts';
import { inlineCompute } from '../src/workers/inline.ts';
import { bucketIdOf, EPOCH, METASTORE, NONCE, SET, STAR } from './_sparse-store.ts';

export interface EpochShape {
  readonly copies: number;
  readonly window: number;
  readonly checkpoint: number;
}

/** Fences the epoch once, through machine and actor, with a metastore in memory. */
export async function fenceOnce(
  stores: readonly BucketStore[],
  shape: EpochShape,
  tailHint?: number,
): Promise<FenceResult> {
  const metastore = new MemoryMetastore();
  const attempt = '00'.repeat(8);
  const set = {
    set: SET,
    metastore: METASTORE,
    buckets: stores.map(({ name }, bucket) => ({ bucket: bucketIdOf(bucket), name })),
    attempt,
  };
  await metastore.put(setKey(SET), encodeRecordValue(set), 'absent');
  const record: EpochRecord = {
    star: STAR,
    epoch: EPOCH,
    class: 'standard',
    set: SET,
    buckets: stores.length,
    copyQuorum: shape.copies,
    window: shape.window,
    incarnation: '11'.repeat(16),
    nonce: NONCE,
    state: 'open',
    checkpoint: shape.checkpoint,
    rewritten: 0,
    trimmed: 0,
    swept: 0,
    tailSwept: false,
    attempt,
  };
  await metastore.put(epochKey(STAR, EPOCH), encodeRecordValue(record), 'absent');
  const ports: StarPorts = {
    clock: systemClock(),
    random: systemRandom(),
    metastore,
    compute: inlineCompute(),
    processes: systemProcesses(),
    log: SILENT_LOG,
    metrics: new Metrics(),
    buckets: stores,
    bucketByName: (name) => stores.find((store) => store.name === name),
  };
  const by = { star: 'fencer', incarnation: '22'.repeat(16) };
  const actors = new FenceActors(ports, new BucketSets(ports, METASTORE), by);
  const request = { star: STAR, epoch: EPOCH };
  const result = await actors.fence(tailHint === undefined ? request : { ...request, tailHint });
  await actors.close();
  return result;
}

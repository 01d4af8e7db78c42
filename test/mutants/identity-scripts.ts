/** Buckets that lost their objects, and with them the identity of their set. */
import { identityKey } from '../../src/format/identity.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { creates, type Scenario } from '../sim/scenario.ts';

/**
 * The last record is in the buckets 0 and 1. Bucket 0 is wiped, bucket 1 is away: poison in 0 and 2
 * would cut the record off, if a bucket without its identity had a vote.
 */
export async function wipedBucketAndOneAway(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await scenario.wait(100);
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    target: 'bucket-2',
    times: 1_000,
    fate: { kind: 'lost-request' },
  });
  await scenario.append(a, stream);
  const b = await scenario.start('b');
  a.process.crash();
  const identify = await wipe(scenario, 0);
  scenario.world.bucket(1).goDown();
  const taking = scenario.open(b, 's');
  await scenario.wait(20_000);
  scenario.world.bucket(1).recover();
  await scenario.append(b, await taking);
  await identify();
}

/** A copy is stored, its bucket is wiped, and only then the writer is told of the copy. */
export async function wipedBeforeTheAnswer(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await scenario.wait(100);
  const { scheduler, bucketScript } = scenario.world;
  const answer = new Gate(scheduler, 'answer');
  const request = new Gate(scheduler, 'request');
  const flights = { ...creates('flight'), process: a.process.name };
  bucketScript.add({
    ...flights,
    target: 'bucket-0',
    fate: { kind: 'pass', responseGate: answer },
  });
  bucketScript.add({
    ...flights,
    target: 'bucket-2',
    fate: { kind: 'pass', requestGate: request },
  });
  const outcome = scenario.append(a, stream);
  await scenario.until(() => answer.waiting > 0 && request.waiting > 0, 'the copies');
  const identify = await wipe(scenario, 0);
  // No confirmation from before the wipe is fresh any more.
  await scenario.wait(1_500);
  answer.open();
  await scenario.wait(500);
  request.open();
  await outcome;
  await identify();
}

/**
 * Empties the bucket of a set; what is returned puts its identity back, without which a new star
 * refuses the set: call it once the other buckets hold everything.
 */
async function wipe({ harness, world }: Scenario, index: number): Promise<() => Promise<void>> {
  const bucket = world.bucket(index);
  const key = identityKey(harness.meta.epoch('a', 0)!.record.set);
  const found = await bucket.store.readRange(key, 0, 1 << 10);
  if (found.kind !== 'found') throw new Error(`${bucket.name} has no identity`);
  bucket.wipe();
  return async () => {
    await bucket.store.createOnly(key, found.bytes);
  };
}

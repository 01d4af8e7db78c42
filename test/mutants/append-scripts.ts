/** What storms meet too rarely of mint and append. */
import { encodePoison } from '../../src/format/poison.ts';
import { slotKey } from '../../src/protocol/keys.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { creates, type Scenario } from '../sim/scenario.ts';

/** The star dies when one of the two writes of its mint is applied; the next process starts. */
export async function crashBetweenTheTwoWritesOfAMint(scenario: Scenario): Promise<void> {
  const { metaScript } = scenario.world;
  const writes = { op: 'put', key: /^chains\/a/ } as const;
  const first = scenario.world.spawn('a');
  // Only the first of the two is applied.
  metaScript.add({ ...writes, process: first.name, skip: 1, fate: { kind: 'never' } });
  scenario.openIn(first, 'a').catch(() => undefined);
  await scenario.wait(3_000);
  first.crash();
  const a = await scenario.start('a');
  await scenario.append(a, await scenario.open(a, 's'));
}

export async function restartInAnotherClass(scenario: Scenario): Promise<void> {
  const first = await scenario.start('a', { storageClass: 'express' });
  await scenario.append(first, await scenario.open(first, 's'));
  await first.engine.close({ timeoutMillis: 20_000 });
  first.process.crash();
  const second = await scenario.start('a', { storageClass: 'standard' });
  await scenario.append(second, await scenario.open(second, 's'));
}

/** One bucket is slow: its copies wait while the memory is wanted for further flights. */
export async function appendBeyondThePool(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  scenario.world.bucketScript.add({
    ...creates('flight'),
    target: 'bucket-2',
    times: 40,
    fate: { kind: 'error', status: 503 },
  });
  for (let round = 0; round < 40; round++) await scenario.appendMany(a, stream, 4);
}

/** The only copy that a crash left is damaged in its body. */
export async function repairFromDamage(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const b = await scenario.start('b');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const never = new Gate(scenario.world.scheduler, 'never');
  for (const target of ['bucket-1', 'bucket-2']) {
    scenario.world.bucketScript.add({
      ...creates('flight'),
      target,
      fate: { kind: 'pass', requestGate: never },
    });
  }
  void scenario.append(a, stream);
  await scenario.wait(50);
  a.process.crash();
  const key = slotKey('a', 0, 1);
  const { store } = scenario.world.bucket(0);
  const found = await store.readRange(key, 0, 1 << 20);
  if (found.kind !== 'found') throw new Error('the only copy is not there');
  const bytes = Uint8Array.from(found.bytes);
  bytes[bytes.length - 1]! ^= 1;
  await store.delete(key);
  await store.createOnly(key, bytes);
  await b.engine.open('s', { whileHeld: 'wait', timeoutMillis: 15_000 }).catch(() => undefined);
  // The sound copy comes back, as a bucket does that was away.
  await store.delete(key);
  await store.createOnly(key, found.bytes);
}

/** A flight meets the poison of a successor, which leads its stream by then. */
export async function leaveABatchOver(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
  const b = await scenario.start('b');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const held = new Gate(scenario.world.scheduler, 'flight');
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', requestGate: held },
  });
  void scenario.append(a, stream, { timeoutMillis: 600_000 });
  await scenario.wait(20);
  await scenario.append(b, await scenario.open(b, 's'));
  held.open();
  await scenario.wait(1_000);
}

/** The record of the epoch takes its time. */
export async function mintSlowly(scenario: Scenario): Promise<void> {
  scenario.world.metaScript.add({
    op: 'put',
    key: /^chains\/a\/\d/,
    fate: { kind: 'pass', requestMillis: 2_000 },
  });
  const a = await scenario.start('a');
  await scenario.append(a, await scenario.open(a, 's'));
}

/** Another process of the star takes the number that a mint is about to take. */
export async function mintTwice(scenario: Scenario): Promise<void> {
  const { metaScript, scheduler } = scenario.world;
  const first = scenario.world.spawn('a', { host: 'elsewhere' });
  const held = new Gate(scheduler, 'mint');
  metaScript.add({
    op: 'put',
    process: first.name,
    key: /^chains\/a$/,
    fate: { kind: 'pass', requestGate: held },
  });
  scenario.openIn(first, 'a').catch(() => undefined);
  await scenario.until(() => held.waiting > 0, 'the mint');
  const second = await scenario.start('a', { supersede: true });
  held.open();
  await scenario.append(second, await scenario.open(second, 's'));
  await scenario.wait(1_000);
  first.crash();
}

/** A request is lost in one bucket and sent again. */
export async function loseOneRequest(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const rule = {
    ...creates('flight'),
    target: 'bucket-1',
    fate: { kind: 'lost-request' },
  } as const;
  scenario.world.bucketScript.add(rule);
  await scenario.append(a, stream);
  await scenario.wait(2_000);
}

/** A flight of a full window meets the poison of a successor that leads one of its streams. */
export async function meetPoison(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
  const b = await scenario.start('b');
  const [moved, other] = [await scenario.open(a, 'moved'), await scenario.open(a, 'other')];
  await scenario.append(a, moved);
  await scenario.append(a, other);
  await scenario.wait(50);
  const held = new Gate(scenario.world.scheduler, 'flight');
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', requestGate: held },
  });
  const load = [scenario.append(a, other)];
  await scenario.until(() => held.waiting === 3, 'the flight');
  const taken = await scenario.open(b, 'moved');
  held.open();
  for (let i = 0; i < 30; i++) {
    await scenario.wait(1);
    load.push(scenario.append(a, other));
  }
  await Promise.all(load);
  await scenario.append(b, taken);
}

/** One bucket holds poison that is too little to end the epoch: its writer halts, the cut decides. */
export async function meetLittlePoison(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await scenario.wait(50);
  await poison(scenario, 1, [0]);
  // The answers come after the poison was seen, and before the cut is published.
  for (const target of ['bucket-1', 'bucket-2']) {
    scenario.world.bucketScript.add({
      ...creates('flight'),
      process: a.process.name,
      target,
      fate: { kind: 'pass', requestMillis: 1, responseMillis: 40 },
    });
  }
  scenario.world.metaScript.add({
    op: 'put',
    key: /^chains\/a\/\d/,
    fate: { kind: 'pass', requestMillis: 500 },
  });
  await scenario.append(a, stream);
}

/** Poison of some fencer in a slot of epoch 0 of star a. */
export async function poison(
  { harness, world }: Scenario,
  slot: number,
  buckets: readonly number[],
): Promise<void> {
  const { nonce, incarnation } = harness.meta.epoch('a', 0)!.record;
  const fencedBy = { star: 'b', incarnation, epoch: 0 };
  const bytes = encodePoison({ star: 'a', epoch: 0, slot, nonce, fencedBy, atMillis: 1 });
  const key = slotKey('a', 0, slot);
  for (const index of buckets) {
    const { store, observers, name: target } = world.bucket(index);
    const outcome = await store.createOnly(key, bytes);
    const call = { op: 'createOnly', key, bytes, process: 'b.1', target, serial: 0 } as const;
    for (const observer of observers) observer.bucketApplied?.(call, outcome);
  }
}

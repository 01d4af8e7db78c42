/** What storms meet too rarely of classify, fence and publish. */
import { slotKey } from '../../src/protocol/keys.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { foreignFlight } from '../sim/foreign-flight.ts';
import { creates, type Running, type Scenario } from '../sim/scenario.ts';
import { poison } from './append-scripts.ts';

/** A bucket holds a flight of a writer whose metastore was lost, in the slot that would come next. */
export async function foreignFlightAboveTheEnd(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const b = await scenario.start('b');
  await scenario.append(a, await scenario.open(a, 's'));
  await scenario.wait(100);
  await scenario.world.bucket(2).store.createOnly(slotKey('a', 0, 1), foreignFlight('a', 0, 1));
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

/** A crash leaves one copy of the last flight. */
export async function crashWithOneCopy(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  loseRequests(scenario, a, ['bucket-0', 'bucket-1']);
  void scenario.append(a, stream);
  await scenario.wait(30);
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

/** A crash leaves a hole below the highest flight. */
export async function crashWithAHole(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', requestMillis: 60_000 },
  });
  void scenario.append(a, stream);
  await scenario.wait(2);
  void scenario.append(a, stream);
  await scenario.wait(30);
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

/** Nothing of the poison of a fence arrives at first. */
export async function poisonWithoutAnAnswer(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  await scenario.append(a, await scenario.open(a, 's'));
  a.process.crash();
  scenario.world.bucketScript.add({
    ...creates('poison'),
    times: 3,
    fate: { kind: 'error', status: 409 },
  });
  await scenario.append(b, await scenario.open(b, 's'));
}

/** The barrier of a fencer that died stands far above the end. */
export async function barrierOfTheDead(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  await scenario.append(a, await scenario.open(a, 's'));
  await scenario.wait(50);
  await poison(scenario, 8, [0, 1, 2]);
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

/** A successor and the writer itself have walked, and neither has published yet. */
export async function twoFencersAtOnce(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
  const b = await scenario.start('b');
  const [moved, other] = [await scenario.open(a, 'moved'), await scenario.open(a, 'other')];
  await scenario.append(a, moved);
  await scenario.append(a, other);
  await scenario.wait(50);
  const held = new Gate(scenario.world.scheduler, 'cut');
  scenario.world.metaScript.add({
    op: 'put',
    process: b.process.name,
    key: /^chains\/a\/\d/,
    fate: { kind: 'pass', requestGate: held },
  });
  const taking = scenario.open(b, 'moved');
  await scenario.until(() => held.waiting > 0, 'the cut');
  await scenario.append(a, other);
  held.open();
  await scenario.append(b, await taking);
}

/**
 * The same over a flight that all buckets hold, and whose writer does not know yet: the cut is above
 * it, the writer's watermark below.
 */
export async function twoFencersOverAFlightUnderWay(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000 });
  const b = await scenario.start('b');
  const [moved, other] = [await scenario.open(a, 'moved'), await scenario.open(a, 'other')];
  await scenario.append(a, moved);
  await scenario.append(a, other);
  await scenario.wait(50);
  const answers = new Gate(scenario.world.scheduler, 'answers');
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', responseGate: answers },
  });
  const load = [scenario.append(a, other)];
  await scenario.until(() => answers.waiting === 3, 'the flight');
  const held = new Gate(scenario.world.scheduler, 'cut');
  scenario.world.metaScript.add({
    op: 'put',
    process: b.process.name,
    key: /^chains\/a\/\d/,
    fate: { kind: 'pass', requestGate: held },
  });
  const taking = scenario.open(b, 'moved');
  await scenario.until(() => held.waiting > 0, 'the cut');
  load.push(scenario.append(a, other));
  await Promise.all(load);
  answers.open();
  held.open();
  await scenario.append(b, await taking);
}

/** The checkpoint rises while a successor walks. */
export async function checkpointUnderAWalk(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000, absorbMillis: 300 });
  const b = await scenario.start('b');
  const stream = await scenario.open(a, 's');
  for (let i = 0; i < 3; i++) await scenario.append(a, stream);
  const held = new Gate(scenario.world.scheduler, 'walk');
  scenario.world.bucketScript.add({
    ...creates('poison'),
    process: b.process.name,
    fate: { kind: 'pass', responseGate: held },
  });
  const taking = scenario.open(b, 's');
  await scenario.until(
    () => (scenario.harness.meta.epoch('a', 0)?.record.checkpoint ?? 0) > 0,
    'the checkpoint',
  );
  held.open();
  await scenario.append(b, await taking);
}

function loseRequests({ world }: Scenario, from: Running, targets: readonly string[]): void {
  for (const target of targets) {
    world.bucketScript.add({
      ...creates('flight'),
      process: from.process.name,
      target,
      times: 1_000,
      fate: { kind: 'lost-request' },
    });
  }
}

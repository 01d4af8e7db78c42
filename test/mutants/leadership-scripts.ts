/** What storms meet too rarely of leadership. */
import { Gate } from '../../src/testing/fault-script.ts';
import { creates, type Scenario } from '../sim/scenario.ts';
import { poison } from './append-scripts.ts';

const OLD = { kind: 'pass', staleMillis: 3_600_000 } as const;

export async function rollBetweenAppends(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream, { records: 3 });
  await a.engine.roll({ timeoutMillis: 30_000 });
  await scenario.append(a, stream);
}

/** R2: every producer is answered with a position, whatever the roll finds under way. */
export async function rollUnderLoad(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  // No bucket hears of these for longer than a roll lets its window drain.
  scenario.world.bucketScript.add({
    ...creates('flight'),
    times: 9,
    fate: { kind: 'pass', requestMillis: 20_000 },
  });
  const load = scenario.appendMany(a, stream, 6);
  await scenario.wait(20);
  await a.engine.roll({ timeoutMillis: 60_000 });
  for (const outcome of await load) {
    if (outcome.kind === 'appended') continue;
    scenario.world.scheduler.fail('R2', `a producer is told ${JSON.stringify(outcome)} by a roll`);
  }
}

export async function openAfterRelease(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await stream.close();
  const b = await scenario.start('b');
  await scenario.append(b, await scenario.open(b, 's'));
}

/** A claim is on its way while another star takes the stream. */
export async function claimThatWasOvertaken(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const held = new Gate(scenario.world.scheduler, 'claim');
  scenario.world.metaScript.add({
    op: 'put',
    process: a.process.name,
    key: '/writer',
    fate: { kind: 'pass', requestGate: held },
  });
  const late = scenario.open(a, 's');
  await scenario.until(() => held.waiting > 0, 'the claim');
  const stream = await scenario.open(b, 's');
  await scenario.append(b, stream);
  held.open();
  await scenario.wait(100);
  await stream.close();
  await scenario.append(a, await late);
}

/** a has built rows, b leads and has built none: c asks who leads. */
export async function askOfARowsBuilder(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const first = await scenario.open(a, 's');
  await scenario.append(a, first);
  await first.close();
  const [b, c] = [await scenario.start('b'), await scenario.start('c')];
  const stream = await scenario.open(b, 's');
  await scenario.append(b, stream);
  await c.engine.open('s', { timeoutMillis: 5_000 }).catch(() => undefined);
  await scenario.append(b, stream);
}

/** b knows the stream by its name already when it is deleted. */
export async function deleteUnderAStaleName(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const held = new Gate(scenario.world.scheduler, 'stale name');
  scenario.world.metaScript.add({
    op: 'get',
    process: b.process.name,
    key: '/writer',
    fate: { kind: 'pass', requestGate: held },
  });
  const late = scenario.open(b, 's');
  await scenario.until(() => held.waiting > 0, 'the gate');
  await scenario.delete(a, 's', stream.id);
  a.process.crash();
  await scenario.wait(4_000);
  held.open();
  await scenario.append(b, await late);
}

export async function deleteBesideALeader(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await b.engine.deleteStream('s', { timeoutMillis: 5_000 }).catch(() => undefined);
  await scenario.append(a, stream);
}

/** No bucket has heard of a batch when its star gives the stream away. */
export async function drainWithABatchUnderWay(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  scenario.world.bucketScript.add({
    ...creates('flight'),
    times: 3,
    fate: { kind: 'pass', requestMillis: 1_000 },
  });
  const batch = scenario.append(a, stream, { records: 2 });
  await scenario.wait(20);
  await a.engine.drain({ timeoutMillis: 20_000 });
  await batch;
  await scenario.append(b, await scenario.open(b, 's'));
}

/** The rows of the epoch before are not written yet when the stream is closed. */
export async function closeAfterRoll(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const rows = new Gate(scenario.world.scheduler, 'rows');
  scenario.world.metaScript.add({
    op: 'put',
    key: '/refs/',
    fate: { kind: 'pass', requestGate: rows },
  });
  await a.engine.roll({ timeoutMillis: 30_000 });
  const closed = stream.close({ timeoutMillis: 20_000 });
  await scenario.wait(1_000);
  rows.open();
  await closed;
  const b = await scenario.start('b');
  await scenario.append(b, await scenario.open(b, 's'));
}

/** The stream was taken and its rows went on; its former leader has not noticed, and closes. */
export async function closeByAZombie(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a', { sessionTimeoutMillis: 600_000, absorbMillis: 60_000 });
  const b = await scenario.start('b');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  const taken = await scenario.open(b, 's');
  await scenario.append(b, taken, { records: 2 });
  await scenario.wait(1_000);
  scenario.world.metaScript.add({
    op: 'get',
    process: a.process.name,
    key: '/writer',
    times: 10,
    fate: OLD,
  });
  await stream.close({ timeoutMillis: 5_000 }).catch(() => undefined);
  await scenario.append(b, taken);
}

export async function sleepWhileAnotherLeads(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  a.process.pause();
  await scenario.wait(6_000);
  const taken = await scenario.open(b, 's');
  await scenario.append(b, taken);
  await scenario.wait(1_000);
  a.process.wake();
  await scenario.append(a, stream, { timeoutMillis: 20_000 });
  await scenario.wait(5_000);
  await scenario.append(b, taken);
}

/** A deletion of the old name is on its way while the name is given to a new stream. */
export async function removeANameThatIsNew(scenario: Scenario): Promise<void> {
  const [a, b, c] = [
    await scenario.start('a'),
    await scenario.start('b'),
    await scenario.start('c'),
  ];
  const { metaScript, scheduler } = scenario.world;
  const old = await scenario.open(a, 's');
  await scenario.append(a, old);
  const [never, late] = [new Gate(scheduler, 'never'), new Gate(scheduler, 'late')];
  for (const [{ process }, requestGate] of [
    [a, never],
    [b, late],
  ] as const) {
    const fate = { kind: 'pass', requestGate } as const;
    metaScript.add({ op: 'delete', process: process.name, key: 'names/', fate });
  }
  void a.engine.deleteStream('s').catch(() => undefined);
  await scenario.until(() => never.waiting > 0, 'the deletion');
  a.process.crash();
  const opening = scenario.open(b, 's');
  await scenario.until(() => late.waiting > 0, 'the removal of the name');
  const stream = await scenario.open(c, 's');
  await scenario.append(c, stream);
  await stream.close();
  late.open();
  const found = await opening;
  if (found.id !== stream.id) scheduler.fail('T5', 'the name of a living stream was removed');
  await scenario.append(b, found);
}

/** The answer to a claim is lost, and another star has claimed when it is sent again. */
export async function claimOfUnknownOutcome(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  scenario.world.metaScript.add({
    op: 'put',
    process: a.process.name,
    key: '/writer',
    fate: { kind: 'never' },
  });
  const late = scenario.open(a, 's');
  await scenario.wait(500);
  const stream = await scenario.open(b, 's');
  await scenario.append(b, stream);
  await scenario.wait(8_000);
  await stream.close();
  await scenario.append(a, await late);
}

/** The rows of the epoch before take their time when the stream is used in the next one. */
export async function rollAheadOfRows(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream, { records: 3 });
  scenario.world.metaScript.add({
    op: 'put',
    key: '/refs/',
    fate: { kind: 'pass', requestMillis: 2_000 },
  });
  await a.engine.roll({ timeoutMillis: 30_000 });
  await scenario.append(a, stream);
}

/** A slot is lost behind a flight that all buckets hold and none has answered yet. */
export async function rollBehindSilence(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await scenario.wait(50);
  await poison(scenario, 2, [0, 1, 2]);
  scenario.world.bucketScript.add({
    ...creates('flight'),
    times: 3,
    fate: { kind: 'pass', responseMillis: 4_000 },
  });
  const silent = scenario.append(a, stream);
  await scenario.wait(5);
  const lost = scenario.append(a, stream);
  await Promise.all([silent, lost]);
  await scenario.append(a, stream);
}

/** Several flights of one stream are under way at once. */
export async function appendBehindEachOther(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  scenario.world.bucketScript.add({
    ...creates('flight'),
    times: 12,
    fate: { kind: 'pass', requestMillis: 100 },
  });
  const load = [];
  for (let i = 0; i < 4; i++) {
    load.push(scenario.append(a, stream));
    await scenario.wait(10);
  }
  await Promise.all(load);
}

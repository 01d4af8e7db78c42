/** What storms meet too rarely of tail reads and conditions. */
import type { Stream } from '../../src/engine/api.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { creates, type Running, type Scenario } from '../sim/scenario.ts';

const HOUR = { sessionTimeoutMillis: 600_000 };

interface Led {
  readonly a: Running;
  readonly b: Running;
  readonly stream: Stream;
}

/** a leads the stream with one record in all buckets; b is there. */
async function begin(scenario: Scenario): Promise<Led> {
  const [a, b] = [await scenario.start('a', HOUR), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream);
  await scenario.wait(100);
  return { a, b, stream };
}

async function takeOver(scenario: Scenario, b: Running): Promise<Stream> {
  const taken = await scenario.open(b, 's');
  await scenario.append(b, taken, { records: 2 });
  return taken;
}

/** a has not noticed that b leads. */
export async function askAfterATakeover(scenario: Scenario): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  await takeOver(scenario, b);
  await scenario.checkTail(a, stream, 10_000);
}

/** A wave that found nothing is answered late: b leads since, and somebody else asks. */
export async function askBehindAWave(scenario: Scenario): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  const answers = new Gate(scenario.world.scheduler, 'answers');
  scenario.world.bucketScript.add({
    op: 'readHead',
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', responseGate: answers },
  });
  const first = scenario.checkTail(a, stream, 10_000);
  await scenario.until(() => answers.waiting === 3, 'the wave');
  await takeOver(scenario, b);
  const second = scenario.checkTail(a, stream, 10_000);
  answers.open();
  await Promise.all([first, second]);
}

/** A flight is stored and its answers are late: b keeps it and leads since, and somebody asks. */
export async function askBehindAFlight(scenario: Scenario): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  const answers = new Gate(scenario.world.scheduler, 'answers');
  scenario.world.bucketScript.add({
    ...creates('flight'),
    process: a.process.name,
    times: 3,
    fate: { kind: 'pass', responseGate: answers },
  });
  const batch = scenario.append(a, stream, { timeoutMillis: 10_000 });
  await scenario.until(() => answers.waiting === 3, 'the flight');
  await takeOver(scenario, b);
  const tail = scenario.checkTail(a, stream, 10_000);
  answers.open();
  await Promise.all([batch, tail]);
}

/** The star has rolled, its stream has not yet; b takes it from the epoch that has ended. */
export async function askAfterARollOfTheStarAlone(scenario: Scenario): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  await a.engine.roll({ timeoutMillis: 30_000 });
  await takeOver(scenario, b);
  await scenario.checkTail(a, stream, 10_000);
}

/** The buckets that hold b's poison do not answer a. */
export async function askPastSilentBuckets(scenario: Scenario): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  for (const index of [0, 1]) scenario.world.bucket(index).cutLink(a.process.name);
  await takeOver(scenario, b);
  await scenario.checkTail(a, stream, 10_000);
}

export function askWhileItIsReleased(scenario: Scenario): Promise<void> {
  return whileItIsReleased(scenario, (a, stream) => scenario.checkTail(a, stream, 10_000));
}

export function readWhileItIsReleased(scenario: Scenario): Promise<void> {
  return whileItIsReleased(scenario, (a, stream) => scenario.read(a, stream, 10_000));
}

/** The release is applied, its sender does not know yet. */
async function whileItIsReleased(
  scenario: Scenario,
  ask: (a: Running, stream: Stream) => Promise<unknown>,
): Promise<void> {
  const { a, b, stream } = await begin(scenario);
  const answer = new Gate(scenario.world.scheduler, 'answer');
  scenario.world.metaScript.add({
    op: 'put',
    process: a.process.name,
    key: '/writer',
    fate: { kind: 'pass', responseGate: answer },
  });
  const drained = a.engine.drain({ timeoutMillis: 20_000 });
  await scenario.until(() => answer.waiting > 0, 'the release');
  await takeOver(scenario, b);
  await ask(a, stream);
  answer.open();
  await drained;
}

export async function appendUnderConditions(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream, { matchSeqNum: 0 });
  await scenario.append(a, stream, { matchSeqNum: 7 });
  await scenario.append(a, stream, { matchSeqNum: 1 });
  await stream.fence('first');
  await scenario.append(a, stream, { fencingToken: 'first' });
  await stream.fence('second');
  await scenario.append(a, stream, { fencingToken: 'second' });
  await scenario.append(a, stream, { fencingToken: 'first' });
}

/** A newer token has its number, and is not durable yet. */
export async function tokensUnderWay(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await stream.fence('first');
  const second = stream.fence('second');
  await scenario.append(a, stream, { fencingToken: 'first' });
  await second;
  await scenario.append(a, stream, { fencingToken: 'second' });
}

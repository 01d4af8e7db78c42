/** What storms meet too rarely of rows and settlement. */
import { Gate } from '../../src/testing/fault-script.ts';
import type { Scenario } from '../sim/scenario.ts';

const OLD = { kind: 'pass', staleMillis: 3_600_000 } as const;

/** S1: a takeover of sound slots. */
export async function takeOverWithoutBodies(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const b = await scenario.start('b');
  const stream = await scenario.open(a, 's');
  for (let i = 0; i < 5; i++) await scenario.append(a, stream);
  await scenario.wait(500);
  a.process.crash();
  await scenario.append(b, await scenario.open(b, 's'));
}

/** The absorb of a zombie comes between the first look of a settler and its row. */
export async function twoBuildersOfOneChain(scenario: Scenario): Promise<void> {
  const [a, b] = [await scenario.start('a'), await scenario.start('b')];
  const stream = await scenario.open(a, 's');
  const late = new Gate(scenario.world.scheduler, 'absorb');
  scenario.world.metaScript.add({
    op: 'put',
    process: a.process.name,
    key: '/refs/',
    fate: { kind: 'pass', requestGate: late },
  });
  await scenario.append(a, stream, { records: 2 });
  await scenario.until(() => late.waiting > 0, 'the absorb');
  // The row on its way does not know of these.
  await scenario.append(a, stream, { records: 3 });
  await scenario.wait(100);
  a.process.pause();
  const row = new Gate(scenario.world.scheduler, 'settler');
  scenario.world.metaScript.add({
    op: 'put',
    process: b.process.name,
    key: '/refs/',
    fate: { kind: 'pass', requestGate: row },
  });
  const taking = scenario.open(b, 's');
  await scenario.until(() => row.waiting > 0, 'the settler');
  late.open();
  await scenario.wait(50);
  row.open();
  const taken = await taking;
  await scenario.append(b, taken);
}

/** A settler sees no row of a stream whose first records an older epoch has covered. */
export async function staleGap(scenario: Scenario): Promise<void> {
  const a = await scenario.start('a');
  const stream = await scenario.open(a, 's');
  await scenario.append(a, stream, { records: 3 });
  await a.engine.roll({ timeoutMillis: 30_000 });
  await scenario.append(a, stream, { records: 2 });
  await scenario.wait(500);
  const b = await scenario.start('b');
  a.process.crash();
  scenario.world.metaScript.add({
    op: 'lastChild',
    process: b.process.name,
    key: '/refs/',
    times: 1_000,
    fate: OLD,
  });
  await scenario.append(b, await scenario.open(b, 's'));
}

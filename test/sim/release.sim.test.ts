/** An operator releases streams: what counts as a sign of life, and one deadline over all of it. */
import { describe, expect, it } from 'vitest';
import { releaseStream, type ReleaseReport } from '../../src/engine/operator.ts';
import type { WaitOptions } from '../../src/lib/wait.ts';
import { play, type Running, type Scenario } from './scenario.ts';

async function led(scenario: Scenario): Promise<Running> {
  const a = await scenario.start('a');
  await scenario.append(a, await scenario.open(a, 's'), { records: 3 });
  return a;
}

function release(
  { world }: Scenario,
  host: string,
  options: WaitOptions = { timeoutMillis: 60_000 },
): Promise<ReleaseReport> {
  const { ports } = world.spawn('operator', { host });
  return releaseStream(ports, { basin: 'default', name: 's', force: 'never' }, options);
}

describe('a release without force', () => {
  it.each([
    ['crashed on this host, at once', 'host-of-a', 'crash', 500],
    ['crashed elsewhere, after its timeout', 'elsewhere', 'crash', 5_000],
    ['sleeps on this host, after its timeout', 'host-of-a', 'pause', 5_000],
  ] as const)('takes a stream from a star that %s', async (_, host, fate, millisMax) => {
    await play({}, async (scenario) => {
      const a = await led(scenario);
      a.process[fate]();
      const from = scenario.harness.clock.monotonic();
      expect(await release(scenario, host)).toMatchObject({
        outcome: 'released',
        tail: 3,
        settlement: 'settled',
      });
      expect(scenario.harness.clock.monotonic() - from).toBeLessThan(millisMax);
      if (fate === 'pause') a.process.wake();
    });
  });

  it('refuses at the first beat of a star that lives', async () => {
    await play({}, async (scenario) => {
      const a = await led(scenario);
      const from = scenario.harness.clock.monotonic();
      await expect(release(scenario, 'elsewhere')).rejects.toMatchObject({
        code: 'STREAM_HELD',
        sideEffects: 'none',
        details: { star: 'a' },
      });
      expect(scenario.harness.clock.monotonic() - from).toBeLessThan(1_000);
      const stream = await scenario.open(a, 's');
      expect(await scenario.append(a, stream)).toMatchObject({ start: 3 });
    });
  });

  it('takes a stream of an epoch that its star has left, however lively that is', async () => {
    await play({}, async (scenario) => {
      const a = await led(scenario);
      // The row of the stream cannot be written, so that it does not enter the next epoch.
      const held = scenario.world.metaScript.add({
        op: 'put',
        key: /^streams\/.*\/(refs|writer)/,
        process: 'a.1',
        times: 1_000_000,
        fate: { kind: 'unavailable' },
      });
      const rolled = a.engine.roll({ timeoutMillis: 60_000 });
      rolled.catch(() => undefined);
      await scenario.wait(3_000);
      expect(await release(scenario, 'elsewhere')).toMatchObject({
        outcome: 'released',
        tail: 3,
        from: { star: 'a', epoch: 0 },
      });
      held.remove();
    });
  });
});

describe('the deadline of a release', () => {
  it('counts for all its steps together', async () => {
    await play({}, async (scenario) => {
      const a = await led(scenario);
      a.process.crash();
      scenario.world.metaScript.add({
        process: 'operator.1',
        times: 1_000_000,
        fate: { kind: 'pass', requestMillis: 400 },
      });
      const from = scenario.harness.clock.monotonic();
      await expect(release(scenario, 'host-of-a', { timeoutMillis: 1_000 })).rejects.toMatchObject({
        code: 'DEADLINE_EXCEEDED',
        details: { timeoutMillis: 1_000 },
      });
      expect(scenario.harness.clock.monotonic() - from).toBeLessThan(1_100);
    });
  });
});

it('a note of limbo that cannot be removed does not undo a release', async () => {
  await play({}, async (scenario) => {
    const a = await led(scenario);
    a.process.crash();
    const failing = scenario.world.metaScript.add({
      key: 'limbo/',
      times: 1_000_000,
      fate: { kind: 'unavailable' },
    });
    expect(await release(scenario, 'host-of-a')).toMatchObject({ outcome: 'released', tail: 3 });
    expect(failing.hits).toBeGreaterThan(0);
  });
});

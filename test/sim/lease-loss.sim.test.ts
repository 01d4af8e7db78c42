/** The loss of a lease: the star halts, comes back by itself under a new incarnation, and keeps what is its own. */
import { describe, expect, it } from 'vitest';
import type { Stream } from '../../src/engine/api.ts';
import { starKey } from '../../src/protocol/keys.ts';
import { Gate } from '../../src/testing/fault-script.ts';
import { encodeLease, ended, parseLease } from '../../src/protocol/lease.ts';
import { othersBlind } from './lies.ts';
import { creates, play, type Running, type Scenario } from './scenario.ts';

const counter = ({ process }: Running, name: string): number =>
  process.metrics.snapshot().counters[name] ?? 0;

async function leader(scenario: Scenario, names: readonly string[]): Promise<[Running, Stream[]]> {
  const a = await scenario.start('a');
  const streams: Stream[] = [];
  for (const name of names) {
    const stream = await scenario.open(a, name);
    expect(await scenario.append(a, stream)).toMatchObject({ start: 0 });
    streams.push(stream);
  }
  return [a, streams];
}

/** Writes the lease record of a star as anybody may, past its holder. */
async function overwriteLease(
  { world }: Scenario,
  star: string,
  change: 'end' | 'remove',
): Promise<void> {
  const { inner } = world.metastore;
  const entry = (await inner.get(starKey(star)))!;
  if (change === 'remove') await inner.delete(entry.key, entry.version);
  else {
    const lease = { ...ended(parseLease(entry.key, entry.value)), attempt: 'ab'.repeat(8) };
    await inner.put(entry.key, encodeLease(lease), entry.version);
  }
}

describe('a star whose lease record is taken from it', () => {
  it.each(['end', 'remove'] as const)(
    'comes back under a new incarnation, and its handles go on: %s',
    async (change) => {
      await play({}, async (scenario) => {
        const [a, [busy, idle]] = await leader(scenario, ['busy', 'idle']);
        const { incarnation } = await a.engine.status();
        await overwriteLease(scenario, 'a', change);
        const load = Promise.all(
          Array.from({ length: 200 }, async (_, index) => {
            await scenario.wait(index * 10);
            return scenario.append(a, busy!, { timeoutMillis: 10_000 });
          }),
        );
        const outcomes = await load;
        expect(outcomes.filter(({ kind }) => kind !== 'appended')).toEqual([]);
        await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
        const after = await a.engine.status();
        expect(after.incarnation).not.toBe(incarnation);
        expect(after.halted).toBeUndefined();
        expect(after.epoch).toBe(1);
        // The idle one was taken along: it is held by a live head, and nobody else gets it.
        await scenario.wait(1_000);
        expect(scenario.harness.meta.writersOf(idle!.id).at(-1)?.record).toMatchObject({
          tenure: { epoch: 1, incarnation: after.incarnation },
        });
        expect(await scenario.append(a, idle!)).toMatchObject({ start: 1 });
        expect(await scenario.checkTail(a, busy!)).toMatchObject({ tail: 201 });
      });
    },
  );

  it('keeps batches that lie in slots, below the cut or above it', async () => {
    const { counters } = await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      // The first flight arrives, of those behind it no bucket has heard when the star halts.
      scenario.world.bucketScript.add({
        ...creates('flight'),
        skip: 3,
        times: 9,
        fate: { kind: 'pass', requestMillis: 4_000 },
      });
      const first = scenario.append(a, stream!);
      await scenario.wait(1);
      const outcomes = Promise.all([first, scenario.appendMany(a, stream!, 3)]);
      await scenario.wait(3);
      await overwriteLease(scenario, 'a', 'end');
      for (const { kind } of (await outcomes).flat()) expect(kind).toBe('appended');
      await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
      expect(counter(a, 'roll.republishedFlights')).toBeGreaterThan(0);
      expect(await scenario.append(a, stream!)).toMatchObject({ start: 5 });
    });
    expect(counters.counts.revival).toBe(1);
  });
});

describe('a star that loses its lease before it has an epoch', () => {
  /** Holds what it mints until the gate opens. */
  async function heldMint(scenario: Scenario, running: Promise<unknown>): Promise<Gate> {
    running.catch(() => undefined);
    const gate = new Gate(scenario.world.scheduler, 'mint');
    const fate = { kind: 'pass', requestGate: gate } as const;
    scenario.world.metaScript.add({ op: 'put', key: /^chains\/a/, fate });
    await scenario.until(() => gate.waiting === 1, 'the mint');
    return gate;
  }

  it.each(['end', 'remove'] as const)(
    'mints again under the next incarnation: %s',
    async (change) => {
      await play({}, async (scenario) => {
        const starting = scenario.start('a');
        const gate = await heldMint(scenario, starting);
        const { inner } = scenario.world.metastore;
        const before = parseLease(starKey('a'), (await inner.get(starKey('a')))!.value);
        await overwriteLease(scenario, 'a', change);
        await scenario.wait(3_000);
        gate.open();
        const a = await starting;
        expect(counter(a, 'star.leaseLosses')).toBe(1);
        expect((await a.engine.status()).incarnation).not.toBe(before.incarnation);
        const stream = await scenario.open(a, 's');
        expect(await scenario.append(a, stream)).toMatchObject({ start: 0 });
        await a.engine.recovered({ timeoutMillis: 30_000 });
      });
    },
  );

  it('sleeps through it', async () => {
    await play({}, async (scenario) => {
      const process = scenario.world.spawn('a');
      const starting = scenario.openIn(process, 'a');
      const gate = await heldMint(scenario, starting);
      process.pause();
      gate.open();
      await scenario.wait(6_000);
      process.wake();
      const a = { process, engine: await starting };
      const stream = await scenario.open(a, 's');
      expect(await scenario.append(a, stream)).toMatchObject({ start: 0 });
    });
  });

  it('is refused when another process has taken its name', async () => {
    await play({}, async (scenario) => {
      const starting = scenario.start('a');
      const gate = await heldMint(scenario, starting);
      await overwriteLease(scenario, 'a', 'remove');
      const other = await scenario.start('a');
      await scenario.wait(3_000);
      gate.open();
      await expect(starting).rejects.toMatchObject({ code: 'STAR_IN_USE' });
      const stream = await scenario.open(other, 's');
      expect(await scenario.append(other, stream)).toMatchObject({ start: 0 });
    });
  });
});

describe('a metastore that is away', () => {
  it('for less than the timeout costs nothing but time', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      await scenario.wait(500);
      scenario.world.metastore.goDown();
      const outcomes = scenario.appendMany(a, stream!, 50);
      await scenario.wait(1_200);
      scenario.world.metastore.recover();
      for (const { kind } of await outcomes) expect(kind).toBe('appended');
      await scenario.wait(5_000);
      expect(counter(a, 'star.leaseLosses')).toBe(0);
      expect((await a.engine.status()).epoch).toBe(0);
    });
  });

  it('for longer halts the star, visibly, until it is back: no append fails before its deadline', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      scenario.world.metastore.goDown();
      await scenario.wait(4_000);
      const { gauges } = a.process.metrics.snapshot();
      expect(gauges['star.haltedMillis']).toBeGreaterThan(1_000);
      const outcomes = scenario.appendMany(a, stream!, 20);
      const opening = a.engine.open('later', { timeoutMillis: 60_000 });
      const impatient = await scenario.append(a, stream!, { timeoutMillis: 500 });
      expect(impatient.kind).toBe('failed');
      await scenario.wait(20_000);
      scenario.world.metastore.recover();
      for (const { kind } of await outcomes) expect(kind).toBe('appended');
      expect((await opening).name).toBe('later');
      expect(a.process.metrics.snapshot().gauges['star.haltedMillis']).toBe(0);
      expect(counter(a, 'star.leaseLosses')).toBe(1);
      expect(counter(a, 'star.revivals')).toBe(1);
    });
  });

  it('again and again ends with a star that serves', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      const load = Promise.all(
        Array.from({ length: 100 }, async (_, index) => {
          await scenario.wait(index * 300);
          return scenario.append(a, stream!, { timeoutMillis: 60_000 });
        }),
      );
      for (let i = 0; i < 5; i++) {
        await scenario.wait(2_500);
        scenario.world.metastore.goDown();
        await scenario.wait(2_500 + 200 * i);
        scenario.world.metastore.recover();
        await scenario.wait(60 * i);
        await overwriteLease(scenario, 'a', 'end');
      }
      for (const { kind } of await load) expect(kind).toBe('appended');
      expect(counter(a, 'star.revivals')).toBeGreaterThan(1);
    });
  });
});

describe('a star that comes back after others', () => {
  it('loses exactly the streams that another star took, and says to whom', async () => {
    await play({}, async (scenario) => {
      const [a, [mine, moved]] = await leader(scenario, ['mine', 'moved']);
      const b = await scenario.start('b');
      a.process.pause();
      const taken = await scenario.open(b, 'moved');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      a.process.wake();
      const [kept, lost] = await Promise.all([
        scenario.append(a, mine!),
        scenario.append(a, moved!),
      ]);
      expect(kept).toMatchObject({ kind: 'appended', start: 1 });
      expect(lost).toMatchObject({ kind: 'failed', code: 'FENCED' });
      await expect(moved!.append([{ body: 'x' }])).rejects.toMatchObject({
        code: 'FENCED',
        details: { star: 'b' },
      });
      await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 2 });
    });
  });

  it('does not chase a process that took its name: it stays halted, and serves when that one ends', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      a.process.pause();
      await scenario.wait(5_000);
      const process = scenario.world.spawn('a', { host: 'elsewhere' });
      const twin = { process, engine: await scenario.openIn(process, 'a') };
      const other = await scenario.open(twin, 's');
      expect(await scenario.append(twin, other)).toMatchObject({ start: 1 });
      a.process.wake();
      expect(await scenario.append(a, stream!)).toMatchObject({ kind: 'failed', code: 'FENCED' });
      await expect(a.engine.open('s')).rejects.toMatchObject({ code: 'STAR_IN_USE' });
      expect((await a.engine.status()).halted).toMatchObject({ code: 'STAR_IN_USE' });
      await scenario.wait(30_000);
      expect(await scenario.append(twin, other)).toMatchObject({ start: 2 });
      expect(scenario.harness.meta.epoch('a', 2)).toBeUndefined();
      await twin.engine.close();
      twin.process.crash();
      await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
      const again = await scenario.open(a, 's');
      expect(await scenario.append(a, again)).toMatchObject({ start: 3 });
    });
  });

  it('after thirty seconds of pause acknowledges nothing that a successor does not know', async () => {
    await play({ mutate: othersBlind }, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      const early = scenario.append(a, stream!, { timeoutMillis: 120_000 });
      a.process.pause();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      await scenario.append(b, taken);
      await scenario.wait(30_000);
      a.process.wake();
      const [late, tail] = await Promise.all([
        scenario.append(a, stream!),
        scenario.checkTail(a, stream!),
        early,
      ]);
      expect(late).toMatchObject({ kind: 'failed', code: 'FENCED' });
      expect(tail).toMatchObject({ kind: 'failed', code: 'FENCED' });
      await expect(readAll(stream!)).rejects.toMatchObject({ code: 'FENCED' });
      await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
      const mine = await scenario.open(a, 'other');
      expect(await scenario.append(a, mine)).toMatchObject({ start: 0 });
    });
  });
});

async function readAll(stream: Stream): Promise<number> {
  let count = 0;
  for await (const _ of stream.read()) count++;
  return count;
}

describe('wall clocks that step by an hour', () => {
  it.each([-3_600_000, 3_600_000])('cost no lease, and delay no takeover: %i ms', async (step) => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      const b = await scenario.start('b');
      for (const { process } of [a, b]) {
        process.layers.clock.stepWall(step);
        await scenario.wait(5_000);
        expect(await scenario.append(a, stream!)).toMatchObject({ kind: 'appended' });
        await expect(b.engine.open('s')).rejects.toMatchObject({ code: 'STREAM_HELD' });
      }
      expect(counter(a, 'star.leaseLosses')).toBe(0);
      a.process.crash();
      b.process.layers.clock.stepWall(-2 * step);
      const begun = scenario.world.scheduler.time;
      const taken = await b.engine.open('s', { whileHeld: 'wait', timeoutMillis: 30_000 });
      expect(scenario.world.scheduler.time - begun).toBeLessThan(3_300);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 3 });
    });
  });
});

describe('a star whose buckets do not answer', () => {
  it('rolls after a minute and ends its lease record after two; back again it goes on', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      for (const bucket of scenario.world.buckets) bucket.goDown();
      const outcome = scenario.append(a, stream!, { timeoutMillis: 600_000 });
      const impatient = await scenario.append(a, stream!, { timeoutMillis: 20_000 });
      expect(impatient).toMatchObject({ kind: 'indeterminate', code: 'DEADLINE_EXCEEDED' });
      await scenario.wait(50_000);
      expect(counter(a, 'star.stalls')).toBe(1);
      expect(await leaseState(scenario, 'a')).toBe('held');
      await scenario.wait(60_000);
      expect(await leaseState(scenario, 'a')).toBe('ended');
      expect((await a.engine.status()).halted).toMatchObject({ reason: 'given-up' });
      await scenario.wait(120_000);
      for (const bucket of scenario.world.buckets) bucket.recover();
      expect(await outcome).toMatchObject({ kind: 'appended' });
      await scenario.until(() => counter(a, 'star.revivals') === 1, 'the revival');
      expect(await leaseState(scenario, 'a')).toBe('held');
    });
  });

  it('but do answer others makes room for them', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      for (const bucket of scenario.world.buckets) bucket.cutLink(a.process.name);
      const outcome = scenario.append(a, stream!, { timeoutMillis: 600_000 });
      const b = await scenario.start('b');
      const begun = scenario.world.scheduler.time;
      const taken = await openWhenFree(scenario, b, 's');
      expect(scenario.world.scheduler.time - begun).toBeLessThan(140_000);
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
      for (const bucket of scenario.world.buckets) bucket.mendLink(a.process.name);
      expect(await outcome).toMatchObject({ kind: 'failed', code: 'FENCED' });
      const other = await scenario.open(a, 'other');
      expect(await scenario.append(a, other)).toMatchObject({ start: 0 });
    });
  });
});

async function leaseState({ world }: Scenario, star: string): Promise<string> {
  const entry = (await world.metastore.inner.get(starKey(star)))!;
  return parseLease(entry.key, entry.value).state;
}

async function openWhenFree(scenario: Scenario, running: Running, name: string): Promise<Stream> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await running.engine.open(name);
    } catch (error) {
      if (attempt > 300) throw error;
      await scenario.wait(500);
    }
  }
}

describe('closing a star that has halted', () => {
  it('ends it at once: what was not acknowledged fails, the next open settles the rest', async () => {
    await play({}, async (scenario) => {
      const [a, [stream]] = await leader(scenario, ['s']);
      scenario.world.metastore.goDown();
      await scenario.wait(4_000);
      const outcome = scenario.append(a, stream!);
      await scenario.wait(100);
      const closed = a.engine.close({ timeoutMillis: 3_000 }).catch(() => undefined);
      expect((await outcome).kind).not.toBe('appended');
      await closed;
      scenario.world.metastore.recover();
      const b = await scenario.start('b');
      const taken = await scenario.open(b, 's');
      expect(await scenario.append(b, taken)).toMatchObject({ start: 1 });
    });
  });
});

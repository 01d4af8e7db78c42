/**
 * What an open costs, in rounds: every call of a bucket or of the metastore takes exactly one, on a
 * clock that only such calls move. So the time of an open is its longest chain of calls that wait for
 * one another.
 */
import { describe, expect, it } from 'vitest';
import { CALM_BUCKETS } from '../../src/testing/bucket-fates.ts';
import { CALM_METASTORE } from '../../src/testing/meta-fates.ts';
import { creates, play, type Running, type Scenario, type ScenarioOptions } from './scenario.ts';

const ROUND_MILLIS = 40;
const HALF = { minMillis: ROUND_MILLIS / 2, spreadMillis: 0 };

interface Cost {
  readonly rounds: number;
  /** From the end of the dead leader's lease on; all of them when nobody died. */
  roundsAfterDetection: number;
  metaWrites: number;
  /** Objects created in buckets. */
  creates: number;
  slotReads: number;
  /** Reads of whole objects in slots. */
  bodyReads: number;
  /** Slots in which a copy of a flight was completed. */
  repairedSlots: number;
}

/** Runs it and counts what this process did meanwhile, its own beats left out. */
async function costOf(
  { world }: Scenario,
  { process, engine }: Running,
  run: () => Promise<unknown>,
): Promise<Cost> {
  const { scheduler } = world;
  world.setProfiles(
    { ...CALM_BUCKETS, request: HALF, response: HALF },
    { ...CALM_METASTORE, request: HALF, response: HALF },
  );
  const cost = { metaWrites: 0, creates: 0, slotReads: 0, bodyReads: 0 };
  const begun = scheduler.time;
  let detected = begun;
  let isCounting = true;
  const repaired = new Set<string>();
  const { when: isFlight } = creates('flight');
  world.observe({
    metaSent: ({ op, key, process: sender }) => {
      if (isCounting && sender === process.name && op === 'put' && key !== `stars/${engine.star}`) {
        cost.metaWrites++;
      }
    },
    metaChanged: ({ key }) => {
      if (isCounting && key.startsWith('stars/') && key !== `stars/${engine.star}`) {
        detected = scheduler.time;
      }
    },
    bucketSent: (call) => {
      const { op, key, process: sender } = call;
      if (!isCounting || sender !== process.name || key.startsWith('identity/')) return;
      if (op === 'createOnly') {
        cost.creates++;
        if (isFlight(call)) repaired.add(key);
      }
      if (op === 'readHead') cost.slotReads++;
      else if (op === 'readRange') cost.bodyReads++;
    },
  });
  await run();
  isCounting = false;
  const roundsSince = (time: number): number =>
    Math.ceil((scheduler.time - time) / ROUND_MILLIS - 0.1);
  return {
    ...cost,
    repairedSlots: repaired.size,
    rounds: roundsSince(begun),
    roundsAfterDetection: roundsSince(detected),
  };
}

/** Star a leads s and has several flights under way; b lives in another process of its host. */
async function underWay(scenario: Scenario): Promise<{ a: Running; b: Running }> {
  const a = await scenario.start('a');
  const process = scenario.world.spawn('b', { host: 'host-of-a' });
  const b = { process, engine: await scenario.openIn(process, 'b') };
  const stream = await scenario.open(a, 's');
  await scenario.appendMany(a, stream, 20);
  await scenario.wait(1_000);
  for (let i = 0; i < 3; i++) {
    void scenario.append(a, stream);
    await scenario.wait(2);
  }
  return { a, b };
}

const opening =
  ({ engine }: Running) =>
  () =>
    engine.open('s', { timeoutMillis: 60_000 });

async function takeover(
  options: ScenarioOptions,
  prepare: (scenario: Scenario) => void = () => undefined,
): Promise<Cost> {
  let cost: Cost | undefined;
  await play(options, async (scenario) => {
    prepare(scenario);
    const { a, b } = await underWay(scenario);
    a.process.crash();
    await scenario.wait(20);
    cost = await costOf(scenario, b, opening(b));
  });
  return cost!;
}

describe('a takeover from a leader that died with flights under way', () => {
  const shapes = [
    [3, 2, 4],
    [3, 3, 4],
    [5, 3, 16],
    [1, 1, 1],
  ] as const;
  it.each(shapes)(
    'takes few round trips and reads no record that it does not repair: %i buckets, %i copies, window %i',
    async (buckets, copies, window) => {
      const cost = await takeover({ buckets, copies, window });
      expect(cost.rounds).toBeLessThanOrEqual(20);
      expect(cost.roundsAfterDetection).toBeLessThanOrEqual(17);
      expect(cost.bodyReads).toBeLessThanOrEqual(cost.repairedSlots);
    },
  );

  it('takes three more with slots to repair', async () => {
    const plain = await takeover({});
    const cost = await takeover({}, ({ world }) => {
      for (const [target, skip] of [
        ['bucket-0', 1],
        ['bucket-1', 2],
      ] as const) {
        const fate = { kind: 'lost-request' } as const;
        const rule = { ...creates('flight'), process: 'a.1', target, skip, times: 1_000, fate };
        world.bucketScript.add(rule);
      }
    });
    expect(cost.repairedSlots).toBeGreaterThan(0);
    expect(cost.bodyReads).toBe(cost.repairedSlots);
    expect(cost.rounds).toBeLessThanOrEqual(20);
    expect(cost.rounds - plain.rounds).toBeLessThanOrEqual(3);
  });
});

describe('a stream that its leader gave back', () => {
  it('is opened by another star in three round trips, without a walk or poison', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      const b = await scenario.start('b');
      const stream = await scenario.open(a, 's');
      await scenario.appendMany(a, stream, 20);
      const closing = await costOf(scenario, a, () => stream.close());
      const cost = await costOf(scenario, b, opening(b));
      expect(cost).toMatchObject({ creates: 0, slotReads: 0, bodyReads: 0 });
      expect(cost.rounds).toBeLessThanOrEqual(3);
      expect(closing.metaWrites + cost.metaWrites).toBeLessThanOrEqual(5);
      expect(closing).toMatchObject({ creates: 0, bodyReads: 0 });
    });
  });

  it('is opened for the first time in no more than that, after its creation', async () => {
    await play({}, async (scenario) => {
      const a = await scenario.start('a');
      await a.engine.createStream('s');
      const cost = await costOf(scenario, a, opening(a));
      expect(cost.rounds).toBeLessThanOrEqual(3);
      expect(cost.metaWrites).toBe(1);
    });
  });
});

/**
 * Poison where acknowledged flights were, from the planted damage to what callers are told: it is
 * reported, nothing is shortened, and whatever does not need the slot goes on.
 */
import { describe, expect, test } from 'vitest';
import { explainEpochSlot, fenceEpoch } from '../../../src/engine/operator.ts';
import type { HostedEngine } from '../../../src/engine/host.ts';
import { encodePoison } from '../../../src/format/poison.ts';
import { epochKey, refsPrefix, slotKey } from '../../../src/protocol/keys.ts';
import { epochRecord, parseRecordValue, type EpochRecord } from '../../../src/protocol/records.ts';
import type { EngineSettings } from '../../../src/protocol/settings.ts';
import { bodiesOf, EngineWorld, errorOf } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

const HURT = { star: 'main', epoch: 0 };
const SLOTS = 24;
const SETTINGS: EngineSettings = { copyQuorum: 2, window: 4 };

function engineOn(world: EngineWorld, settings: EngineSettings = {}): Promise<HostedEngine> {
  return world.start({ ...SETTINGS, ...settings });
}

function recordOf(world: EngineWorld, epoch = 0): EpochRecord {
  const key = epochKey('main', epoch);
  return parseRecordValue(epochRecord, key, world.metastore.get(key)!.value);
}

/** Replaces what the buckets hold of a slot by poison. */
function poison(world: EngineWorld, slot: number, buckets: readonly number[]): void {
  const { nonce } = recordOf(world);
  const fencedBy = { star: 'nobody', incarnation: 'x', epoch: 9 };
  for (const bucket of buckets) {
    const bytes = encodePoison({ ...HURT, slot, nonce, fencedBy, atMillis: 0 });
    world.memory[bucket]!.plant(slotKey('main', 0, slot), bytes);
  }
}

const expectedBodies = Array.from({ length: SLOTS }, (_, index) => `${index}`);

/**
 * A star that died: stream `calm` was closed in good order, `hurt` has one record in each of the
 * last `SLOTS` slots of epoch 0.
 *
 * @returns the slot of the first record of `hurt`.
 */
async function deadStar(world: EngineWorld, settings: EngineSettings = {}): Promise<number> {
  const engine = await world.open({ ...SETTINGS, ...settings });
  const calm = await engine.open('calm');
  await calm.append([{ body: 'calm' }]);
  await calm.close();
  const hurt = await engine.open('hurt');
  for (const body of expectedBodies) await hurt.append([{ body }]);
  if (settings.checkpointLagSlots !== undefined) {
    await eventually(() => expect(recordOf(world).checkpoint).toBeGreaterThan(4));
  }
  await engine.kill();
  return 1;
}

describe('poison in B buckets of an acknowledged slot', () => {
  test('above the checkpoint: settlement refuses, the stream does not open, all others do', async () => {
    const world = new EngineWorld();
    const first = await deadStar(world);
    // No probe looks here: the fence ends, and the cut is right.
    const slot = first + 5;
    poison(world, slot, [0, 1, 2]);
    const error = await errorOf(fenceEpoch(world.ports(), HURT));
    expect(error).toMatchObject({
      code: 'ACKNOWLEDGED_SLOT_POISONED',
      kind: 'corrupt',
      details: { ...HURT, slot, buckets: 'bucket-0,bucket-1,bucket-2' },
    });
    expect(recordOf(world)).toMatchObject({ state: 'fenced', cut: first + SLOTS, checkpoint: 0 });

    const engine = await engineOn(world);
    const { damaged } = await engine.recovered();
    expect(damaged).toMatchObject([{ epoch: 0, code: 'ACKNOWLEDGED_SLOT_POISONED' }]);
    expect(damaged[0]!.message).toContain(`slot=${slot}`);
    expect((await errorOf(engine.open('hurt'))).details).toMatchObject({ ...HURT, slot });
    expect(await bodiesOf(await engine.open('calm'))).toEqual(['calm']);
    await (await engine.open('new')).append([{ body: 'x' }]);
    // Nothing was shortened: neither the cut nor a row below or above the slot.
    expect(recordOf(world)).toMatchObject({ state: 'fenced', cut: first + SLOTS, checkpoint: 0 });
    const { streams } = await engine.listStreams();
    const { id } = streams.find(({ name }) => name === 'hurt')!;
    const rows = await world.ports().metastore.children(refsPrefix(id));
    expect(rows).toEqual([]);
  });

  test('met by a probe: the fence refuses and the epoch stays open', async () => {
    const world = new EngineWorld();
    await deadStar(world);
    poison(world, 8, [0, 1, 2]);
    const error = await errorOf(fenceEpoch(world.ports(), HURT));
    expect(error).toMatchObject({
      code: 'ACKNOWLEDGED_SLOT_POISONED',
      details: { ...HURT, slot: 8, state: 'open' },
    });
    expect(error.details['provenTo']).toBeGreaterThan(8);
    expect(recordOf(world).state).toBe('open');
    const engine = await engineOn(world);
    expect((await engine.recovered()).damaged).toMatchObject([{ epoch: 0, code: error.code }]);
    expect((await errorOf(engine.open('hurt'))).code).toBe(error.code);
    expect(await bodiesOf(await engine.open('calm'))).toEqual(['calm']);
    expect(recordOf(world).state).toBe('open');
  });

  test('below the checkpoint: the epoch settles, and the loss is told where it is read', async () => {
    const world = new EngineWorld();
    const first = await deadStar(world, { checkpointLagSlots: 16 });
    const slot = first + 2;
    expect(recordOf(world).checkpoint).toBeGreaterThan(slot);
    poison(world, slot, [0, 1, 2]);
    expect(await fenceEpoch(world.ports(), HURT)).toMatchObject({ settlement: 'settled' });
    const engine = await engineOn(world);
    const stream = await engine.open('hurt');
    expect((await stream.checkTail()).seqNum).toBe(SLOTS);
    const error = await errorOf(bodiesOf(stream));
    expect(error).toMatchObject({ code: 'DATA_LOSS', details: { slot, start: 2, end: 3 } });
    const rest: string[] = [];
    for await (const { body } of stream.read({ from: 3 })) rest.push(Buffer.from(body).toString());
    expect(rest).toEqual(expectedBodies.slice(3));
    const explained = await explainEpochSlot(world.ports(), { ...HURT, slot });
    expect(explained).toMatchObject({ verdict: 'dead', damage: 'ACKNOWLEDGED_SLOT_POISONED' });
    expect(explained.why.join('\n')).toContain('below the checkpoint');
  });

  test('explain names what proves it', async () => {
    const world = new EngineWorld();
    await deadStar(world);
    poison(world, 8, [0, 1]);
    const target = { ...HURT, slot: 8 };
    const before = await explainEpochSlot(world.ports(), target);
    expect(before).toMatchObject({ state: 'open', damage: 'ACKNOWLEDGED_SLOT_POISONED' });
    expect(before.why.join('\n')).toMatch(/a higher flight proves that slots below \d+ were/);
    expect((await errorOf(fenceEpoch(world.ports(), HURT))).code).toBe(before.damage);
  });

  test('the cut itself is no damage', async () => {
    const world = new EngineWorld();
    await deadStar(world);
    await fenceEpoch(world.ports(), HURT);
    const { cut } = recordOf(world);
    const atCut = await explainEpochSlot(world.ports(), { ...HURT, slot: cut! });
    expect(atCut.verdict).toBe('dead');
    expect(atCut.damage).toBeUndefined();
  });

  test('a copy that is left is enough to settle and to read', async () => {
    const world = new EngineWorld();
    const first = await deadStar(world);
    poison(world, first + 5, [0, 1]);
    expect(world.memory[2]!.objects().has(slotKey('main', 0, first + 5))).toBe(true);
    expect(await fenceEpoch(world.ports(), HURT)).toMatchObject({
      cut: first + SLOTS,
      settlement: 'settled',
    });
    expect(await bodiesOf(await (await engineOn(world)).open('hurt'))).toEqual(expectedBodies);
  });
});

describe('what is no damage', () => {
  test.each([
    ['poison in B - 1 buckets of a slot', 9, [0]],
    ['poison at the first slot that was not acknowledged', SLOTS + 1, [0, 1]],
  ])('%s', async (_, slot, buckets) => {
    const world = new EngineWorld();
    const first = await deadStar(world);
    expect(first + SLOTS).toBe(SLOTS + 1);
    poison(world, slot, buckets);
    expect(await fenceEpoch(world.ports(), HURT)).toMatchObject({
      cut: first + SLOTS,
      settlement: 'settled',
    });
    expect(await bodiesOf(await (await engineOn(world)).open('hurt'))).toEqual(expectedBodies);
    expect((await explainEpochSlot(world.ports(), { ...HURT, slot })).damage).toBeUndefined();
  });
});

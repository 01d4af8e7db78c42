import { describe, expect, test } from 'vitest';
import { epochKey } from '../../../src/protocol/keys.ts';
import { isCollectable } from '../../../src/protocol/collectable.ts';
import { epochRecord, parseRecordValue, type EpochRecord } from '../../../src/protocol/records.ts';
import { EngineWorld } from '../../support/engine-world.ts';
import { eventually } from '../../support/eventually.ts';

describe('what may be collected', () => {
  test.each([
    // state, tailSwept, head, verdict
    ['open', false, 5, 'if-unregistered'],
    ['open', false, 6, 'yes'],
    ['open', false, undefined, 'yes'],
    ['fenced', false, 5, 'yes'],
    ['settled', false, 5, 'yes'],
    ['settled', true, 6, 'no'],
    ['retired', true, 6, 'no'],
  ] as const)('%s, swept %s, head %s → %s', (state, tailSwept, head, verdict) => {
    expect(isCollectable({ state, tailSwept, epoch: 5 }, head)).toBe(verdict);
  });
});

describe('the collector', () => {
  function recordOf(world: EngineWorld, star: string, epoch: number): EpochRecord {
    const key = epochKey(star, epoch);
    return parseRecordValue(epochRecord, key, world.metastore.get(key)!.value);
  }

  test('settles and sweeps the chain of a star that is gone, and leaves a live one alone', async () => {
    const world = new EngineWorld();
    const settings = { copyQuorum: 2, collectMillis: 100 };
    const gone = await world.open({ ...settings, star: 'gone' });
    const stream = await gone.open('orders');
    for (let i = 0; i < 10; i++) await stream.append([{ body: `${i}` }]);
    await gone.kill();
    const live = await world.open({ ...settings, star: 'gone-not' });
    await (await live.open('other')).append([{ body: 'x' }]);
    const collecting = await world.open({ ...settings, star: 'main' });
    await eventually(() =>
      expect(recordOf(world, 'gone', 0)).toMatchObject({ state: 'settled', tailSwept: true }),
    );
    expect(recordOf(world, 'gone', 0).cut).toBe(recordOf(world, 'gone', 0).checkpoint);
    expect(recordOf(world, 'gone-not', 0).state).toBe('open');
    const again = await collecting.open('orders');
    const bodies: string[] = [];
    for await (const { body } of again.read()) bodies.push(Buffer.from(body).toString());
    expect(bodies).toEqual([...Array(10).keys()].map(String));
    await live.close();
    await collecting.close();
  });

  test('resumes a sweep that a bucket had put off', async () => {
    const world = new EngineWorld();
    const first = await world.open({ copyQuorum: 2 });
    await (await first.open('orders')).append([{ body: 'x' }]);
    await first.kill();
    let isAway = true;
    const bucket = world.memory[2]!;
    const { readHead } = bucket;
    bucket.readHead = async (...args) =>
      isAway
        ? { kind: 'unknown', cause: new Error('away') as never }
        : readHead.apply(bucket, args);
    const second = await world.open({ copyQuorum: 2, collectMillis: 100 });
    await eventually(() => expect(recordOf(world, 'main', 0).state).toBe('settled'));
    expect(recordOf(world, 'main', 0).tailSwept).toBe(false);
    isAway = false;
    await eventually(() => expect(recordOf(world, 'main', 0).tailSwept).toBe(true));
    await second.close();
  });
});

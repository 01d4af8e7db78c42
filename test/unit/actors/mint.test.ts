import { describe, expect, test } from 'vitest';
import { MemoryMetastore } from '../../../src/adapters/memory/metastore.ts';
import { Prng } from '../../../src/lib/prng.ts';
import { systemClock } from '../../../src/adapters/system/clock.ts';
import { chainKey, epochKey } from '../../../src/protocol/keys.ts';
import { chainRecord, parseRecordValue } from '../../../src/protocol/records.ts';
import { mintEpoch, type MintRequest } from '../../../actors/mint.ts';

const request: MintRequest = {
  star: 'main',
  class: 'express',
  incarnation: 'a'.repeat(32),
  set: 'b'.repeat(32),
  buckets: 3,
  copyQuorum: 2,
  window: 16,
};

function world() {
  const metastore = new MemoryMetastore();
  return { metastore, clock: systemClock(), random: new Prng(7) };
}

describe('mint', () => {
  test('M1 numbers are taken one by one, each with its own nonce, and the head follows', async () => {
    const ports = world();
    const epochs = [];
    for (let i = 0; i < 3; i++) epochs.push((await mintEpoch(ports, request)).record);
    expect(epochs.map(({ epoch }) => epoch)).toEqual([0, 1, 2]);
    expect(new Set(epochs.map(({ nonce }) => nonce)).size).toBe(3);
    const chain = await ports.metastore.get(chainKey('main'));
    expect(parseRecordValue(chainRecord, 'c', chain!.value)).toMatchObject({
      nextEpoch: 3,
      heads: { express: 2 },
    });
  });

  test('M1 racing mints of one star get different numbers', async () => {
    const ports = world();
    const minted = await Promise.all(Array.from({ length: 20 }, () => mintEpoch(ports, request)));
    const numbers = minted.map(({ record }) => record.epoch).sort((a, b) => a - b);
    expect(numbers).toEqual([...Array(20).keys()]);
  });

  test('M2 a crash between the counter and the record burns the number and nothing else', async () => {
    const ports = world();
    await mintEpoch(ports, request);
    const { put } = ports.metastore;
    const crash = new AbortController();
    ports.metastore.put = async (key, ...rest) => {
      if (key === epochKey('main', 1)) {
        crash.abort();
        return new Promise(() => undefined);
      }
      return put.call(ports.metastore, key, ...rest);
    };
    const dying = mintEpoch(ports, request);
    void dying.catch(() => undefined);
    await new Promise((resolve) => crash.signal.addEventListener('abort', resolve));
    ports.metastore.put = put;
    expect((await mintEpoch(ports, request)).record.epoch).toBe(2);
    expect(await ports.metastore.get(epochKey('main', 1))).toBeUndefined();
  });

  test('M3 heads of different classes never depose each other', async () => {
    const ports = world();
    await mintEpoch(ports, request);
    await mintEpoch(ports, { ...request, class: 'standard' });
    await mintEpoch(ports, { ...request, class: 'standard' });
    const chain = await ports.metastore.get(chainKey('main'));
    expect(parseRecordValue(chainRecord, 'c', chain!.value).heads).toEqual({
      express: 0,
      standard: 2,
    });
  });
});

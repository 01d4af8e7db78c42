/** A flight is one array to all buckets, so that its hash is computed once. */
import { expect, it } from 'vitest';
import { memoryComponents } from '../../../src/engine/components.ts';
import { openEngine } from '../../../src/engine/host.ts';
import { instantiate } from '../../../src/engine/instantiate.ts';
import { resolveSettings } from '../../../src/protocol/settings.ts';

it('hands the same array to all buckets of a set', async () => {
  const settings = resolveSettings({}, 3);
  const options = { log: undefined, mode: 'write' } as const;
  const { ports, release } = await instantiate(memoryComponents({ buckets: 3 }), settings, options);
  const created: { readonly key: string; readonly bytes: Uint8Array }[] = [];
  for (const bucket of ports.buckets) {
    const create = bucket.createOnly.bind(bucket);
    bucket.createOnly = (key, bytes, more) => {
      created.push({ key, bytes });
      return create(key, bytes, more);
    };
  }
  const engine = await openEngine(ports, settings, { release });
  try {
    const stream = await engine.open('s');
    await (await stream.submit([{ body: 'once' }])).ack();
    const flights = created.filter(({ bytes }) => Buffer.from(bytes).includes('once'));
    expect(flights).toHaveLength(3);
    expect(new Set(flights.map(({ key }) => key)).size).toBe(1);
    expect(new Set(flights.map(({ bytes }) => bytes)).size).toBe(1);
  } finally {
    await engine.close();
  }
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { EngineError } from 'asterlog';
import { simulate } from 'asterlog/testing';

test('an order outlives a hanging bucket, a lost answer and the process', async () => {
  await simulate({ seed: 7 }, async (sim) => {
    const one = await sim.start({ star: 'one' });
    const orders = await one.engine.open('orders');
    const flights = { op: 'createOnly', process: one.process.name } as const;
    // Bucket 0 never answers. Bucket 1 stores the first flight, and its answer is lost.
    sim.bucketFaults.add({ ...flights, target: 'bucket-0', times: 100, fate: { kind: 'hang' } });
    const lost = sim.bucketFaults.add({
      ...flights,
      target: 'bucket-1',
      fate: { kind: 'lost-response' },
    });
    await orders.append([{ body: 'one order' }]);
    assert.equal(lost.hits, 1);

    one.process.crash();
    const two = await sim.start({ star: 'two' });
    const again = await two.engine.open('orders', { whileHeld: 'wait', timeoutMillis: 60_000 });
    assert.equal((await again.checkTail()).seqNum, 1);
  });
});

test('an outage of ten minutes leaves the outcome of an append open', async () => {
  await simulate({ seed: 8 }, async (sim) => {
    const { engine } = await sim.start();
    const orders = await engine.open('orders');
    for (const bucket of sim.buckets) bucket.goDown();
    const append = orders.append([{ body: 'one order' }], { timeoutMillis: 5_000 });
    await assert.rejects(
      append,
      (error) => EngineError.is(error) && error.sideEffects === 'possible',
    );
    await sim.sleep(600_000); // of virtual time
    sim.heal();
    await orders.append([{ body: 'another' }], { timeoutMillis: 120_000 });
  });
});

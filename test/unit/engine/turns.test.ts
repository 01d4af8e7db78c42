/** Appends leave the event loop to others, however many producers there are. */
import { expect, it } from 'vitest';
import { createEngine, memoryComponents } from '../../../src/index.ts';

const BATCH = Array.from({ length: 100 }, () => ({ body: new Uint8Array(1_000) }));

it('producers that never pause let timers and storage have their turns', async () => {
  const engine = await createEngine({ components: memoryComponents({ buckets: 1 }) });
  try {
    const stream = await engine.open('s');
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const acks: Promise<unknown>[] = [];
    // 60 MB, less than the pool holds: memory alone makes nobody wait.
    for (let batch = 0; batch < 600; batch++) {
      const ticket = await stream.submit(BATCH);
      acks.push(ticket.ack());
    }
    const turnsWhileSubmitting = turns;
    await Promise.all(acks);
    isOver = true;
    expect(turnsWhileSubmitting).toBeGreaterThan(100);
  } finally {
    await engine.close();
  }
});

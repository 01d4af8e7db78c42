/** Two processes on one directory: the follower's handle outlives the leader. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import {
  createEngine,
  directoryComponents,
  EngineError,
  type Ack,
  type Engine,
  type Stream,
} from '../../../../src/index.ts';
import { spawnTypeScript, type Child } from '../../../support/child-process.ts';

const TOKEN = 'a secret of two processes';
const BATCHES = 1_000;
const BATCH_RECORDS = 10;
const IN_FLIGHT = 32;

const root = mkdtempSync(join(tmpdir(), 'asterlog-forwarding-'));
let leader: Child | undefined;
let follower: Engine | undefined;

afterEach(async () => {
  leader?.process.kill('SIGKILL');
  await leader?.ended;
  await follower?.close();
  await rm(root, { recursive: true, force: true });
});

async function startLeader(name: string): Promise<Child> {
  const url = new URL('leader.process.ts', import.meta.url);
  const child = spawnTypeScript(url, [root, name, TOKEN], { stdio: ['pipe', 'pipe', 'pipe'] });
  leader = child;
  await expect.poll(() => child.output() + child.errors(), { timeout: 20_000 }).toMatch(/^open\n/);
  return child;
}

interface Outcome {
  readonly batch: number;
  readonly ack?: Ack;
  readonly error?: EngineError;
}

/** Appends numbered batches, some at a time, in their order; tells how many were acknowledged. */
async function appendAll(stream: Stream, onAck: (count: number) => void): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const underWay = new Set<Promise<void>>();
  let acknowledged = 0;
  for (let batch = 0; batch < BATCHES; batch++) {
    const records = Array.from({ length: BATCH_RECORDS }, (_, i) => ({ body: `${batch}/${i}` }));
    const one = stream.append(records).then(
      (ack) => {
        outcomes.push({ batch, ack });
        onAck(++acknowledged);
      },
      (error: unknown) => {
        if (!EngineError.is(error)) throw error;
        outcomes.push({ batch, error });
      },
    );
    const tracked = one.finally(() => underWay.delete(tracked));
    underWay.add(tracked);
    if (underWay.size >= IN_FLIGHT) await Promise.race(underWay);
  }
  await Promise.all(underWay);
  return outcomes;
}

test('the leader is killed while a follower forwards: it takes over, nothing acknowledged is lost', async () => {
  const child = await startLeader('orders');
  follower = await createEngine({
    components: directoryComponents({ root, buckets: 2 }),
    settings: { star: 'follower', sessionTimeoutMillis: 5_000 },
    listen: { token: TOKEN },
  });
  const stream = await follower.open('orders');
  const live: string[] = [];
  const stopReading = new AbortController();
  const reading = (async () => {
    for await (const { body } of stream.read({ from: 0, live: true, signal: stopReading.signal })) {
      live.push(Buffer.from(body).toString());
    }
  })().catch((error: unknown) => (EngineError.is(error) ? error.code : String(error)));
  const outcomes = await appendAll(stream, (count) => {
    if (count === BATCHES / 2) child.process.kill('SIGKILL');
  });

  const stored: string[] = [];
  for await (const { body } of stream.read()) stored.push(Buffer.from(body).toString());
  // Every position that anybody was told of holds what was appended there.
  const acks = outcomes.filter(({ ack }) => ack !== undefined);
  for (const { batch, ack } of acks) {
    const { start, end } = ack!;
    expect(end.seqNum - start.seqNum).toBe(BATCH_RECORDS);
    expect(stored[start.seqNum]).toBe(`${batch}/0`);
    expect(stored[end.seqNum - 1]).toBe(`${batch}/${BATCH_RECORDS - 1}`);
  }
  const told = child.output().split('\n').slice(1, -1);
  expect(told.length).toBeGreaterThan(0);
  for (const seqNum of told) expect(stored[Number(seqNum)]).toBe('own');
  // In order, each once, whole: what is indeterminate is there entirely or not at all.
  const forwarded = stored.filter((body) => body !== 'own');
  const batches = forwarded.filter((body) => body.endsWith('/0')).map((body) => parseInt(body));
  expect(batches).toEqual([...new Set(batches)].sort((a, b) => a - b));
  expect(forwarded.length).toBe(batches.length * BATCH_RECORDS);
  for (const { batch, error } of outcomes.filter((outcome) => outcome.error !== undefined)) {
    expect(error!.code).toBe('INDETERMINATE');
    expect(batch).toBeLessThan(BATCHES - 1);
  }
  expect(outcomes.length - acks.length).toBeLessThanOrEqual(IN_FLIGHT);
  expect((await follower.status()).openStreams).toMatchObject([{ name: 'orders' }]);
  await expect.poll(() => live.length, { timeout: 10_000 }).toBe(stored.length);
  expect(live).toEqual(stored);
  stopReading.abort();
  expect(await reading).toBe('ABORTED');
});

test('a closed engine that listened keeps no process alive', async () => {
  const child = await startLeader('others');
  child.process.stdin!.write('close\n');
  expect(await child.ended).toEqual({ code: 0, signal: null });
  expect(child.output()).toMatch(/closed\n$/);
});
